"""The engine options as command-line options, each as --kebab-case and as --snake_case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from mtpcore.cli.command import EngineOption

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class OptionRow:
    """One keyword of `LLM`; `kind` is int, float, str or bool."""

    name: str
    kind: type
    help: str


ENGINE_OPTIONS = (
    OptionRow("dtype", str, "auto, float32 or bfloat16"),
    OptionRow("device", str, "auto, cpu, cuda or cuda:N"),
    OptionRow("max_model_len", int, "most tokens of prompt and output of a request"),
    OptionRow("max_num_seqs", int, "most requests that run at once"),
    OptionRow("max_num_batched_tokens", int, "most tokens of a step"),
    OptionRow("max_queue", int, "most requests that wait"),
    OptionRow("memory_budget", str, "bytes of all pools together, such as 80GiB"),
    OptionRow("gpu_memory_utilization", float, "share of a GPU's memory to use"),
    OptionRow("enable_prefix_caching", bool, "keep pages and checkpoints for later prompts"),
    OptionRow("page_size", int, "tokens of a page"),
    OptionRow("checkpoint_interval", int, "tokens between checkpoints of a long prompt"),
    OptionRow("seed", int, "seed of requests that bring none"),
    OptionRow("enforce_eager", bool, "never capture a graph"),
    OptionRow("mtp_mode", str, "auto, none, mtp, ngram, dflash, dflash2 or dspark"),
    OptionRow("mtp_draft_model_dir", str, "directory of a separate drafter"),
    OptionRow("mtp_step", int, "drafts of a round"),
    OptionRow("mtp_dynamic_verify", bool, "give drafts to the rows that use them best"),
    OptionRow("mtp_windowed", bool, "keep the drafter's keys and values in a ring"),
    OptionRow("mtp_window_size", int, "positions of the ring"),
    OptionRow("overlap_depth", int, "1 plans a step before the last one is read, 0 does not"),
    OptionRow("ssm_state_mode", str, "native, compact, replay or auto"),
    OptionRow("ssm_state_dtype", str, "float32 or bfloat16"),
    OptionRow("replay_history_len", int, "records of a replay history"),
    OptionRow("replay_projection", str, "how replay projects its records"),
)


def spellings(name: str) -> list[str]:
    """--kebab-case and, where it differs, --snake_case."""
    return list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))


def engine_options(function: F) -> F:
    """Adds every engine option; one that was not given arrives as None."""
    for option in reversed(ENGINE_OPTIONS):
        flags = spellings(option.name)
        if option.kind is bool:
            negative = [f"--no-{flags[0][2:]}", f"--no_{option.name}"]
            negative = negative[: len(flags)]
            names = [f"{yes}/{no}" for yes, no in zip(flags, negative, strict=True)]
            kind = None
        else:
            names, kind = flags, option.kind
        decorator = click.option(
            option.name, *names, cls=EngineOption, type=kind, default=None, help=option.help
        )
        function = decorator(function)
    return function


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The engine options that the user set, as keywords of `LLM`; takes them out of `arguments`."""
    found = {option.name: arguments.pop(option.name) for option in ENGINE_OPTIONS}
    return {name: value for name, value in found.items() if value is not None}
