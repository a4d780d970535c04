"""`mtpcore plan`: what fits into a budget, from config.json alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mtpcore.cli.command import command
from mtpcore.cli.engine_options import engine_options, given, spellings
from mtpcore.cli.output import print_json, say, size, table

if TYPE_CHECKING:
    from collections.abc import Callable

# What the core accepts as max_num_seqs.
MOST_SEQS = 1 << 16


@command(
    "mtpcore plan --memory 4GiB",
    "mtpcore plan DIRECTORY --memory 80GiB --tokens-per-request 8192 --json",
)
@click.argument("model", required=False)
@click.option("--memory", required=True, help="the budget, such as 80GiB")
@click.option(
    "tokens_per_request",
    *spellings("tokens_per_request"),
    type=click.IntRange(1),
    help="tokens of a request; the context limit if left out",
)
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
@engine_options
def plan(
    model: str | None,
    memory: str,
    tokens_per_request: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Sizes every pool for MODEL (a directory with config.json) within a memory budget.

    It plans for an accelerator, so dtype "auto" is the checkpoint's own; give --dtype float32 for
    what the engine takes on a CPU. Without --max-num-seqs as many requests run as fit.
    """
    engine = given(options)
    for name in ("memory_budget", "gpu_memory_utilization"):
        if name in engine:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag}: plan takes the budget as --memory; leave it out")
    found = report(model, memory, tokens_per_request, engine)
    if as_json:
        print_json(found)
        return
    rows = [
        (pool["name"], size(pool["bytes_each"]), pool["count"], size(pool["bytes"]))
        for pool in found["pools"]
    ]
    say(table(("pool", "each", "count", "bytes"), rows))
    say()
    total = sum(pool["bytes"] for pool in found["pools"])
    say(f"{size(total)} of {size(found['budget_bytes'])}, {found['dtype']}")
    say(
        f"{found['max_requests']} requests of {found['tokens_per_request']} tokens at once; "
        f"{found['limiting_pool']} is the limit"
    )


def report(
    model: str | None, memory: str, tokens_per_request: int | None, engine: dict[str, Any]
) -> dict[str, Any]:
    """The JSON fields. ValueError names the option or the file."""
    import torch

    from mtpcore.config.errors import OptionError
    from mtpcore.config.facts import model_directory, read_facts
    from mtpcore.config.memory import plan_memory
    from mtpcore.config.options import EngineOptions, parse_bytes
    from mtpcore.config.refused import check_refused
    from mtpcore.config.resolve import (
        DTYPES,
        check_integers,
        resolve_drafter,
        resolve_dtype,
    )
    from mtpcore.config.validate import memory_settings

    budget = parse_bytes("memory", memory)
    options = EngineOptions.of(model=model, **engine)
    check_refused(options)
    check_integers(options)
    facts = read_facts(model_directory(model), needs_weights=False)
    mtp_mode, mtp_step = resolve_drafter(options, facts.has_mtp, [])
    place = torch.device("cpu" if options.device == "cpu" else "cuda")
    dtype = resolve_dtype(options, facts.config.dtype, place, [])
    context = options.max_model_len or facts.config.max_position_embeddings
    tokens = tokens_per_request or context
    shape = facts.memory_shape(dtype, DTYPES[options.ssm_state_dtype], mtp_mode == "mtp")
    settings = memory_settings(options, mtp_step, budget, context) | {"tokens_per_request": tokens}

    def fit(max_num_seqs: int) -> dict[str, Any]:
        return plan_memory(shape, settings | {"max_num_seqs": max_num_seqs})

    try:
        found = fit(engine["max_num_seqs"]) if "max_num_seqs" in engine else most_requests(fit)
    except OptionError as error:
        # The budget has another name here.
        raise ValueError(str(error).replace("memory_budget", "--memory")) from error
    return {
        "budget_bytes": budget,
        "pools": found["pools"],
        "limiting_pool": found["limiting_pool"],
        "max_requests": found["max_requests"],
        "max_num_seqs": found["sizes"]["num_states"],
        "tokens_per_request": tokens,
        "dtype": str(dtype).removeprefix("torch."),
        "sizes": found["sizes"],
    }


def most_requests(fit: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """The plan with the largest max_num_seqs whose requests all run at once.

    A row more takes pages away, so the requests that fit first follow max_num_seqs and then fall
    behind it. The limit is what keeps the next one out. OptionError if not even one fits.
    """
    best, beyond = fit(1), None
    low, high = 1, MOST_SEQS + 1
    while high - low > 1:
        middle = (low + high) // 2
        try:
            found = fit(middle)
        except ValueError:
            # Not even the rows fit, and rows are what the best plan names as its limit.
            high, beyond = middle, None
            continue
        if found["max_requests"] >= middle:
            low, best = middle, found
        else:
            high, beyond = middle, found
    return best | {"limiting_pool": (beyond or best)["limiting_pool"]}
