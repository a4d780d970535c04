"""What a model directory says about generating: stop tokens and sampling defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .fields import Fields, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from .config import ModelConfig


@dataclass(frozen=True)
class GenerationDefaults:
    """`eos_token_ids` is the union of all places that name one, in the order found. Sampling values
    are None where generation_config.json does not say."""

    eos_token_ids: tuple[int, ...]
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None


def read_generation(directory: Path, config: ModelConfig) -> GenerationDefaults:
    """Missing files are fine; a broken one is a ModelFileError."""
    path = directory / "generation_config.json"
    fields = Fields(path, read_json(path) if path.is_file() else {})
    eos = fields.token_ids("eos_token_id") + config.eos_token_ids + _tokenizer_eos(directory)

    def optional_id(key: str) -> int | None:
        return None if fields.get(key) is None else fields.integer(key, least=0)

    def optional(key: str, least: float = 0.0) -> float | None:
        return None if fields.get(key) is None else fields.number(key, least=least)

    return GenerationDefaults(
        eos_token_ids=tuple(dict.fromkeys(eos)),
        pad_token_id=optional_id("pad_token_id"),
        bos_token_id=optional_id("bos_token_id"),
        do_sample=None if fields.get("do_sample") is None else fields.boolean("do_sample", False),
        temperature=optional("temperature", -1e-9),
        top_k=optional_id("top_k"),
        top_p=optional("top_p"),
        min_p=optional("min_p", -1e-9),
        repetition_penalty=optional("repetition_penalty"),
        max_new_tokens=optional_id("max_new_tokens"),
    )


def _tokenizer_eos(directory: Path) -> tuple[int, ...]:
    """The id of tokenizer_config.json's eos_token, by its own table or by tokenizer.json."""
    path = directory / "tokenizer_config.json"
    if not path.is_file():
        return ()
    fields = Fields(path, read_json(path))
    token = fields.get("eos_token")
    if isinstance(token, dict):
        token = token.get("content")
    if not isinstance(token, str):
        return ()
    table = fields.get("added_tokens_decoder")
    if isinstance(table, dict):
        for key, item in table.items():
            if isinstance(item, dict) and item.get("content") == token and str(key).isdigit():
                return (int(key),)
    path = directory / "tokenizer.json"
    if not path.is_file():
        return ()
    added = read_json(path).get("added_tokens")
    for item in added if isinstance(added, list) else []:
        if (
            isinstance(item, dict)
            and item.get("content") == token
            and isinstance(item.get("id"), int)
        ):
            return (item["id"],)
    return ()
