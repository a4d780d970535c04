"""`mtpcore plan`: what fits into a budget, from config.json alone."""

from __future__ import annotations

from typing import Any

import click

from mtpcore.cli.engine_options import engine_options, given, spellings
from mtpcore.cli.output import print_json, say, size, table


@click.command()
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
    """Sizes every pool for MODEL (a directory with config.json) within a memory budget."""
    engine = given(options)
    if "memory_budget" in engine:
        raise click.UsageError("--memory-budget: plan takes the budget as --memory; leave it out")
    from mtpcore.config.plan import memory_report

    found = memory_report(model, memory, tokens_per_request, engine)
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
    say(f"{size(total)} of {size(found['budget_bytes'])}; limit: {found['limiting_pool']}")
    say(f"{found['max_requests']} requests at once")
