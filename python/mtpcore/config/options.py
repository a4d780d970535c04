"""The engine options as the user gives them."""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import OptionError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class EngineOptions:
    """Options of one engine; None is "choose for me".

    Attributes:
        model: hub-layout directory; None is the bundled model.
        dtype: auto | float32 | bfloat16. On a CPU auto is float32, whatever the checkpoint holds:
            it is the faster one there and the one in which token equality is exact.
        device: auto | cpu | cuda | cuda:N.
        max_model_len: most tokens of a request, prompt and output together.
        max_num_seqs: most requests that run at once.
        max_num_batched_tokens: most tokens of a step.
        memory_budget: bytes, or text such as "80GiB"; weights count.
        gpu_memory_utilization: share of a GPU's memory, instead of ``memory_budget``.
        enable_prefix_caching: look prompts up in, and add them to, the prefix cache.
        seed: seed of the requests that name none.
        enforce_eager: never capture graphs.
        mtp_mode: auto | none | mtp | ngram | dflash | dflash2 | dspark.
        mtp_draft_model_dir: directory of a separate draft model.
        mtp_step: drafts a step, 0..7; None is 3 with a drafter and 0 without.
        mtp_dynamic_verify: choose the verify width from the drafts' confidence.
        mtp_windowed, mtp_window_size: bounded draft KV.
        overlap_depth: steps launched ahead of the oldest uncommitted one, 0 or 1.
        ssm_state_mode: native | compact | replay | auto.
        ssm_state_dtype: float32 | bfloat16.
        replay_history_len, replay_projection: history of the replay mode.
        page_size: tokens of a page.
        checkpoint_interval: tokens between the coarse checkpoints of a long prompt, a multiple of
            ``page_size``; 0 is none.
        max_queue: most waiting requests.
    """

    model: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 16
    max_num_batched_tokens: int = 512
    memory_budget: int | str | None = None
    gpu_memory_utilization: float | None = None
    enable_prefix_caching: bool = True
    seed: int = 0
    enforce_eager: bool = False
    mtp_mode: str = "auto"
    mtp_draft_model_dir: str | None = None
    mtp_step: int | None = None
    mtp_dynamic_verify: bool = False
    mtp_windowed: bool = False
    mtp_window_size: int | None = None
    overlap_depth: int = 1
    ssm_state_mode: str = "native"
    ssm_state_dtype: str = "float32"
    replay_history_len: int | None = None
    replay_projection: str = "auto"
    page_size: int = 16
    checkpoint_interval: int | None = None
    max_queue: int = 65536

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every option name."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def of(cls, **given: Any) -> EngineOptions:
        """Options from keywords; an unknown name is an :class:`OptionError`."""
        names = cls.names()
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
                raise OptionError(name, f"unknown option; {hint}")
        if isinstance(given.get("model"), Path):
            given["model"] = str(given["model"])
        return cls(**given)


def parse_bytes(option: str, value: int | str) -> int:
    """Bytes of an int or of text with a unit (K, M, G, T; an i makes it binary).

    Raises:
        OptionError: not a size, or not positive.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        number, unit, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** _POWERS[unit.lower()])
    else:
        raise OptionError(option, f"{value!r} is not a size; give bytes or text like '80GiB'")
    if size <= 0:
        raise OptionError(option, f"{value!r} is not positive; give bytes or text like '80GiB'")
    return size
