"""`mtpcore bench`: tokens per second over batch and mtp_step."""

from __future__ import annotations

import platform
import time
from typing import Any

import click

from mtpcore.cli.command import command
from mtpcore.cli.engine_options import engine_options, given, spellings
from mtpcore.cli.output import print_json, say, table
from mtpcore.cli.stats import Stats

PROMPT = "Now is the winter of our discontent made glorious summer"
# What the bench itself varies or needs.
VARIED = ("mtp_step", "mtp_mode", "enable_prefix_caching", "max_num_seqs")


def _steps(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    from mtpcore.config.resolve import MAX_MTP_STEP

    steps = [int(part) for part in value.split(",") if part.strip().isdecimal()]
    if len(steps) != value.count(",") + 1 or max(steps) > MAX_MTP_STEP:
        raise click.BadParameter(f"{value!r}: give numbers of 0..{MAX_MTP_STEP}, such as 0,1,3")
    return steps


@command(
    "mtpcore bench --batch 1 --batch 16 --steps 0,3",
    "mtpcore bench --temperature 0.7 --json",
)
@click.option("--model", help="hub-layout directory; the bundled model if left out")
@click.option("--batch", "batches", type=click.IntRange(1), multiple=True, default=(1, 4, 16))
@click.option("--steps", callback=_steps, default="0,1,3,5", show_default=True, help="mtp_step")
@click.option("max_tokens", *spellings("max_tokens"), type=int, default=64, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
@engine_options
def bench(
    model: str | None,
    batches: tuple[int, ...],
    steps: list[int],
    max_tokens: int,
    temperature: float,
    as_json: bool,
    **options: Any,
) -> None:
    """Times decoding for each batch and mtp_step; 0 is plain decoding."""
    engine = given(options)
    for name in VARIED:
        if name in engine:
            raise click.UsageError(f"--{name.replace('_', '-')}: the bench sets it; leave it out")
    rows: list[dict[str, Any]] = []
    for batch in batches:
        for mtp_step in steps:
            rows.append(_measure(model, engine, batch, mtp_step, max_tokens, temperature))
            say(f"batch {batch}, mtp_step {mtp_step}: done", as_json=True)
    report = {"rows": rows, "machine": machine()}
    if as_json:
        print_json(report)
        return
    columns = ("batch", "mtp_step", "tokens_per_s", "ms_per_step", "mean_acceptance_length")
    say(table(columns, [[row[name] for name in columns] for row in rows]))
    say(", ".join(f"{name} {value}" for name, value in report["machine"].items()))


def _measure(
    model: str | None,
    engine: dict[str, Any],
    batch: int,
    mtp_step: int,
    max_tokens: int,
    temperature: float,
) -> dict[str, Any]:
    from mtpcore.api import LLM, SamplingParams

    mode = {"mtp_mode": "mtp", "mtp_step": mtp_step} if mtp_step else {"mtp_mode": "none"}
    with LLM(model=model, max_num_seqs=batch, enable_prefix_caching=False, **mode, **engine) as llm:

        def run(tokens: int) -> tuple[Stats, float, int]:
            params = [
                SamplingParams(
                    temperature=temperature,
                    max_tokens=tokens,
                    ignore_eos=True,
                    seed=index,
                    detokenize=False,
                )
                for index in range(batch)
            ]
            before = llm.engine.core.counters()["steps"]
            started = time.perf_counter()
            results = llm.generate([PROMPT] * batch, params)
            seconds = time.perf_counter() - started
            num_steps = llm.engine.core.counters()["steps"] - before
            return Stats.of(results, seconds), seconds, num_steps

        # The first run allocates and warms up what later ones use again.
        run(min(8, max_tokens))
        stats, seconds, num_steps = run(max_tokens)
        state_mode = str(llm.engine.worker.pools.state.mode)
    return {
        "batch": batch,
        "mtp_step": mtp_step,
        "mtp_mode": mode["mtp_mode"],
        "ssm_state_mode": state_mode,
        "tokens_per_s": stats.tokens_per_s,
        "ms_per_step": seconds * 1000 / num_steps,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "acceptance_per_position": stats.acceptance_per_position,
    }


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    import torch

    found: dict[str, Any] = {
        "system": platform.platform(),
        "cpu": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found
