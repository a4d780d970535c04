"""Fetch, clean and tokenise the texts: writes data.npz and the tokenizer's files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from chat import ChatMaker
from fetch import fetch
from texts import Document, documents
from vocabulary import save, train

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tokenizers import Tokenizer

END = "<|endoftext|>"


def stream(tokenizer: Tokenizer, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (uint16) of all texts one after the other, and where each starts (int64)."""
    rows = [np.array(e.ids, dtype=np.uint16) for e in tokenizer.encode_batch(list(texts))]
    starts = np.cumsum([0] + [len(row) for row in rows[:-1]])
    return np.concatenate(rows), starts.astype(np.int64)


def chat_texts(works: list[Document], characters: int, seed: int) -> list[str]:
    maker, samples, size = ChatMaker(works, seed), [], 0
    while size < characters:
        samples.append(maker.sample())
        size += len(samples[-1])
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder for downloads and data")
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundled model")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    downloads = args.work.resolve() / "downloads"
    fetch(downloads)
    works = documents(downloads)
    kept = [work for work in works if not work.held_out]
    tokenizer = train(work.text for work in kept)
    save(tokenizer, args.out)

    arrays: dict[str, np.ndarray] = {}
    arrays["text"], arrays["text_starts"] = stream(tokenizer, (w.text + END for w in kept))
    size = len(arrays["text"])
    chats = chat_texts(kept, characters=10_000_000, seed=args.seed)
    arrays["chat"], arrays["chat_starts"] = stream(tokenizer, chats)
    for source in ("shakespeare", "kjv", "austen"):
        held = [work for work in works if work.held_out and work.source == source]
        arrays[f"held_{source}"], arrays[f"held_{source}_starts"] = stream(
            tokenizer, (work.text for work in held)
        )
        arrays[f"held_{source}_bytes"] = np.array(sum(len(w.text.encode()) for w in held))
    np.savez(args.work / "data.npz", **arrays)  # type: ignore[arg-type]
    held_bytes = sum(len(work.text.encode()) for work in works if work.held_out)
    all_bytes = sum(len(work.text.encode()) for work in works)
    print(f"{len(works)} works, {all_bytes} bytes, held out {held_bytes / all_bytes:.1%}")
    print(f"text {size} tokens, chat {len(arrays['chat'])} tokens in {len(chats)} samples")
    for name, array in arrays.items():
        print(name, array.shape, array.dtype)


if __name__ == "__main__":
    main()
