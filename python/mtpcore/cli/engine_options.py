"""The engine options as command-line options, each as --kebab-case and as --snake_case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class EngineOption:
    """One keyword of `LLM`; `kind` is int, float, str or bool."""

    name: str
    kind: type
    help: str


ENGINE_OPTIONS = (
    EngineOption("dtype", str, "auto, float32 or bfloat16"),
    EngineOption("device", str, "auto, cpu, cuda or cuda:N"),
    EngineOption("max_model_len", int, "most tokens of prompt and output of a request"),
    EngineOption("max_num_seqs", int, "most requests that run at once"),
    EngineOption("max_num_batched_tokens", int, "most tokens of a step"),
    EngineOption("max_queue", int, "most requests that wait"),
    EngineOption("memory_budget", str, "bytes of all pools together, such as 80GiB"),
    EngineOption("gpu_memory_utilization", float, "share of a GPU's memory to use"),
    EngineOption("enable_prefix_caching", bool, "keep pages and checkpoints for later prompts"),
    EngineOption("page_size", int, "tokens of a page"),
    EngineOption("checkpoint_interval", int, "tokens between checkpoints of a long prompt"),
    EngineOption("seed", int, "seed of requests that bring none"),
    EngineOption("enforce_eager", bool, "never capture a graph"),
    EngineOption("mtp_mode", str, "auto, none, mtp, ngram, dflash, dflash2 or dspark"),
    EngineOption("mtp_draft_model_dir", str, "directory of a separate drafter"),
    EngineOption("mtp_step", int, "drafts of a round"),
    EngineOption("mtp_dynamic_verify", bool, "give drafts to the rows that use them best"),
    EngineOption("mtp_windowed", bool, "keep the drafter's keys and values in a ring"),
    EngineOption("mtp_window_size", int, "positions of the ring"),
    EngineOption("overlap_depth", int, "1 plans a step before the last one is read, 0 does not"),
    EngineOption("ssm_state_mode", str, "native, compact, replay or auto"),
    EngineOption("ssm_state_dtype", str, "float32 or bfloat16"),
    EngineOption("replay_history_len", int, "records of a replay history"),
    EngineOption("replay_projection", str, "how replay projects its records"),
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
            decorator = click.option(option.name, *names, default=None, help=option.help)
        else:
            decorator = click.option(
                option.name, *flags, type=option.kind, default=None, help=option.help
            )
        function = decorator(function)
    return function


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The engine options that the user set, as keywords of `LLM`; takes them out of `arguments`."""
    found = {option.name: arguments.pop(option.name) for option in ENGINE_OPTIONS}
    return {name: value for name, value in found.items() if value is not None}
