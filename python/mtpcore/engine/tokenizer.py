"""Text to tokens, and tokens to bytes, by a directory's tokenizer.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from ..config.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

TOKENIZER_FILE = "tokenizer.json"


def _byte_alphabet() -> dict[str, int]:
    """The characters by which a byte-level vocabulary writes bytes.

    Printable Latin-1 bytes stand for themselves; the others take the code points from 256 on, in
    order.
    """
    printable = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
    alphabet = {chr(byte): byte for byte in printable}
    spare = 256
    for byte in range(256):
        if byte not in printable:
            alphabet[chr(spare)] = byte
            spare += 1
    return alphabet


def _has_byte_level_decoder(decoder: Any) -> bool:
    if not isinstance(decoder, dict):
        return False
    if decoder.get("type") == "Sequence":
        inner = decoder.get("decoders") or []
        return len(inner) == 1 and _has_byte_level_decoder(inner[0])
    return decoder.get("type") == "ByteLevel"


@dataclass(frozen=True)
class TextTokenizer:
    """A byte-level tokenizer.

    Attributes:
        token_bytes: bytes of every id below the model's vocabulary; ids without a token are empty.
        special: ids that ``skip_special_tokens`` leaves out of the text.
        special_text: content of those tokens.
    """

    tokenizer: Tokenizer
    token_bytes: tuple[bytes, ...]
    special: frozenset[int]
    special_text: tuple[str, ...]

    @classmethod
    def load(cls, directory: Path, vocab_size: int) -> TextTokenizer | None:
        """The directory's tokenizer, or None if it has none.

        Raises:
            OptionError: a broken file, a decoder that is not byte-level, or ids beyond the model's
                vocabulary.
        """
        path = directory / TOKENIZER_FILE
        if not path.is_file():
            return None
        try:
            tokenizer = Tokenizer.from_file(str(path))
        # The library raises bare Exception for every malformed file.
        except Exception as error:
            raise OptionError("model", f"{path} cannot be read: {error}") from error
        description = json.loads(tokenizer.to_str())
        if not _has_byte_level_decoder(description.get("decoder")):
            raise OptionError(
                "model",
                f"{path} has no byte-level decoder, the only kind supported; remove the file to "
                "use the model with token-id prompts",
            )
        vocab = tokenizer.get_vocab(with_added_tokens=True)
        largest = max(vocab.values(), default=-1)
        if largest >= vocab_size:
            raise OptionError(
                "model",
                f"{path} has token id {largest}, beyond the model's vocab_size {vocab_size}; use "
                "the tokenizer that belongs to the model",
            )
        added = {int(token["id"]): token for token in description.get("added_tokens") or []}
        alphabet = _byte_alphabet()
        table = [b""] * vocab_size
        for text, token in vocab.items():
            if token not in added and all(char in alphabet for char in text):
                table[token] = bytes(alphabet[char] for char in text)
            else:
                table[token] = text.encode("utf-8", "replace")
        special = frozenset(token for token, entry in added.items() if entry.get("special"))
        texts = tuple(str(added[token]["content"]) for token in sorted(special))
        return cls(tokenizer, tuple(table), special, texts)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, with the tokenizer's own special tokens if it adds any."""
        return self.tokenizer.encode(text).ids

    def text_bytes(self) -> list[bytes]:
        """Bytes that each token adds to a text without special tokens."""
        return [
            b"" if token in self.special else data for token, data in enumerate(self.token_bytes)
        ]

    def decode_token(self, token: int) -> str:
        """Text of one token; bytes that are no whole character become U+FFFD."""
        return self.token_bytes[token].decode("utf-8", "replace")
