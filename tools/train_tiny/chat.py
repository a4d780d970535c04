"""ChatML samples made of the texts themselves, so that the model knows the form and stops."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from texts import Document

Turn = tuple[str, str]

SYSTEMS = (
    "You are a reader of old books.",
    "You continue passages of old English books.",
    "You are a helpful assistant.",
)
CONTINUE = (
    "Continue this passage.",
    "Please go on from here.",
    "What comes next?",
    "Continue the text below.",
    "How does it go on?",
    "Finish this for me.",
)
MORE = (
    "Go on.",
    "Continue.",
    "And then?",
    "What comes after that?",
    "More, please.",
    "Tell me more.",
)
STYLES = {
    "shakespeare": (
        "Write a scene in the manner of Shakespeare.",
        "Give me some lines of a play.",
        "Write a short dialogue for the stage.",
        "Tell me a story.",
    ),
    "kjv": (
        "Write some verses in the manner of the Bible.",
        "Read me a passage of scripture.",
        "Tell me of the prophets and the kings.",
        "Tell me a story.",
    ),
    "austen": (
        "Write a passage in the manner of Jane Austen.",
        "Write a paragraph of a novel.",
        "Tell me about the family and their visitors.",
        "Tell me a story.",
    ),
}


def chatml(turns: Sequence[Turn]) -> str:
    """What the chat template renders for these turns."""
    return "".join(f"<|im_start|>{role}\n{words}<|im_end|>\n" for role, words in turns)


def pieces(document: Document) -> list[str]:
    """Verses, speeches or paragraphs: what a passage is made of."""
    split = "\n" if document.source == "kjv" else "\n\n"
    return [piece for piece in document.text.split(split) if piece.strip()]


class ChatMaker:
    """Draws samples; equal seeds and documents give equal samples."""

    def __init__(self, documents: Sequence[Document], seed: int) -> None:
        self.random = random.Random(seed)
        self.works = [(document, pieces(document)) for document in documents]
        self.weights = [len(document.text) for document in documents]

    def passage(self, parts: Sequence[str], at: int, limit: int, joint: str) -> tuple[str, int]:
        """Pieces from `at` on, at least one, up to about `limit` characters; the next index."""
        end, size = at, 0
        while end < len(parts) and (end == at or size + len(parts[end]) <= limit):
            size += len(parts[end])
            end += 1
        return joint.join(parts[at:end]), end

    def sample(self) -> str:
        """One conversation of one to three replies, rendered, with an end-of-text mark."""
        rng = self.random
        document, parts = rng.choices(self.works, self.weights)[0]
        joint = "\n" if document.source == "kjv" else "\n\n"
        at = rng.randrange(max(1, len(parts) - 24))
        limit = rng.choice((120, 250, 400, 700))
        if rng.random() < 0.35:
            request = rng.choice(STYLES[document.source])
        else:
            opening, at = self.passage(parts, at, rng.choice((80, 200, 500)), joint)
            if len(opening) > 1500:
                opening = opening[-1500:]
            order = rng.choice(("{ask}\n\n{text}", "{text}\n\n{ask}", "{text}"))
            request = order.format(ask=rng.choice(CONTINUE), text=opening)
        turns: list[Turn] = []
        if rng.random() < 0.15:
            turns.append(("system", rng.choice(SYSTEMS)))
        for _ in range(rng.choices((1, 2, 3), (0.6, 0.3, 0.1))[0]):
            reply, at = self.passage(parts, at, limit, joint)
            if not reply:
                break
            turns += [("user", request), ("assistant", reply)]
            request = rng.choice(MORE)
        return chatml(turns) + "<|endoftext|>"
