"""Tokens to text, all at once or as they arrive, cut exactly at a stop string's byte."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .tokenizer import TextTokenizer


class OutputText:
    """The text of one output.

    Bytes are kept, not characters: a character is given out only when its last byte has arrived,
    and a stop string that begins inside a token is cut at its first byte.

    Args:
        tokenizer: gives the bytes of a token.
        skip_special_tokens: leave special tokens out of the text.
        held_back: bytes, special tokens aside, that a stop string might still claim; they are
            given out at the end.
    """

    def __init__(
        self, tokenizer: TextTokenizer, skip_special_tokens: bool, held_back: int = 0
    ) -> None:
        self._table = tokenizer.token_bytes
        self._special = tokenizer.special
        self._skip = skip_special_tokens
        self._held_back = held_back
        self._bytes = bytearray()
        # Length of the text without special tokens at each token's end, for mapping a cut.
        self._plain_length = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._given = 0
        self._marks: list[tuple[int, int]] = []

    def push(self, tokens: Iterable[int]) -> None:
        """Add output tokens."""
        for token in tokens:
            data = self._table[token]
            if token in self._special:
                if self._skip:
                    continue
                self._bytes += data
                self._marks.append((self._plain_length, len(data)))
                continue
            self._bytes += data
            self._plain_length += len(data)

    def cut(self, plain_length: int) -> None:
        """Keep the first ``plain_length`` bytes, counted without special tokens."""
        del self._bytes[self._end_of(plain_length) :]

    def _end_of(self, plain_length: int) -> int:
        """Bytes up to the byte that follows ``plain_length`` plain ones, special tokens that stand
        before it included."""
        extra = sum(size for before, size in self._marks if before <= plain_length)
        return min(plain_length + extra, len(self._bytes))

    def take(self, final: bool = False) -> str:
        """Text that became certain since the last call; all that is left when ``final``."""
        end = len(self._bytes)
        if not final and self._held_back:
            end = self._end_of(max(self._plain_length - self._held_back, 0))
        text = self._decoder.decode(bytes(self._bytes[self._given : end]), final)
        self._given = end
        return text


def output_text(
    tokenizer: TextTokenizer,
    tokens: Iterable[int],
    skip_special_tokens: bool,
    stop_bytes: int | None,
) -> str:
    """Whole text of an output; ``stop_bytes`` is where it is cut, None for nowhere."""
    text = OutputText(tokenizer, skip_special_tokens)
    text.push(tokens)
    if stop_bytes is not None:
        text.cut(stop_bytes)
    return text.take(final=True)
