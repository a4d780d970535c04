"""Acceptance of drafts by position and temperature, and what mtp_step 0 costs.

Drafts that share the target's noise stand beside argmax drafts: the output is the same either
way, token for token, and only the acceptance differs. Prompts are texts that the model itself
wrote, with fixed seeds, so a run on one machine is repeatable. A table goes to stderr, one JSON
object to stdout.

    python benches/acceptance.py [MODEL] [--requests 64] [--tokens 128] [--mtp-step 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from mtpcore import LLM, SamplingParams
from mtpcore.cli.output import table
from mtpcore.cli.stats import Stats

OPENINGS = (
    "ROMEO:\n",
    "In the beginning",
    "The king said",
    "It was a",
    "My dear friend,",
    "Chapter I.\n",
    "When the morning came",
    "She looked at him and",
)
OPENING_TOKENS = 48
TEMPERATURES = (0.0, 0.7, 1.0)
PLAIN_BATCH, PLAIN_TOKENS = 8, 64


def prompts_of(llm: LLM, count: int) -> list[dict[str, list[int]]]:
    """Prompts that the model wrote: an opening and what it sampled after it."""
    openings = [OPENINGS[index % len(OPENINGS)] for index in range(count)]
    params = [
        SamplingParams(temperature=0.8, seed=index, max_tokens=OPENING_TOKENS, ignore_eos=True)
        for index in range(count)
    ]
    return [
        {"prompt_token_ids": out.prompt_token_ids + out.outputs[0].token_ids}
        for out in llm.generate(openings, params)
    ]


def acceptance(options: dict[str, Any], requests: int, tokens: int) -> list[dict[str, Any]]:
    """A row for each temperature and kind of drafts."""
    rows = []
    with LLM(**options, max_num_seqs=16, enable_prefix_caching=False) as llm:
        prompts = prompts_of(llm, requests)
        for temperature in TEMPERATURES:
            params = [
                SamplingParams(
                    temperature=temperature, seed=1000 + index, max_tokens=tokens, ignore_eos=True
                )
                for index in range(requests)
            ]
            texts = []
            # Greedy drafts use no noise, so there is one kind of them.
            for shared in (True, False) if temperature else (True,):
                llm.engine.worker.draft_noise = shared
                started = time.perf_counter()
                outs = llm.generate(prompts, params)
                stats = Stats.of(outs, time.perf_counter() - started)
                texts.append([out.outputs[0].token_ids for out in outs])
                rows.append(
                    {
                        "temperature": temperature,
                        "drafts": "shared noise" if shared and temperature else "argmax",
                        "acceptance_per_position": stats.acceptance_per_position,
                        "mean_acceptance_length": stats.mean_acceptance_length,
                        "tokens_per_s": stats.tokens_per_s,
                    }
                )
            if texts.count(texts[0]) != len(texts):
                raise SystemExit(f"temperature {temperature}: the drafts changed the output")
    return rows


def cost_of_zero_drafts(model: str | None, rounds: int) -> dict[str, Any]:
    """Processor seconds of decoding with mtp_step 0 against an engine that never loaded the head,
    in turns, each time in the other order, so that a drift of the machine hits both."""
    common = {"model": model, "max_num_seqs": PLAIN_BATCH, "enable_prefix_caching": False}
    with LLM(**common, mtp_step=0) as zero, LLM(**common, mtp_mode="none") as plain:
        engines = {"mtp_step 0": zero, "no head": plain}
        found: dict[str, list[float]] = {name: [] for name in engines}
        for index in range(rounds + 1):
            for name in sorted(engines, reverse=index % 2 == 1):
                params = SamplingParams(temperature=0.0, max_tokens=PLAIN_TOKENS, ignore_eos=True)
                started = time.process_time()
                engines[name].generate([OPENINGS[0]] * PLAIN_BATCH, params)
                if index:
                    found[name].append(time.process_time() - started)
    pairs = zip(found["mtp_step 0"], found["no head"], strict=True)
    return {
        "batch": PLAIN_BATCH,
        "tokens": PLAIN_TOKENS,
        "seconds": found,
        "median_ratio": statistics.median(zero / plain for zero, plain in pairs),
        "fastest_ratio": min(found["mtp_step 0"]) / min(found["no head"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="hub-layout directory; the bundled model")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--mtp-step", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=8, help="timed rounds of mtp_step 0")
    given = parser.parse_args()
    options = {"model": given.model, "mtp_mode": "mtp", "mtp_step": given.mtp_step}
    rows = acceptance(options, given.requests, given.tokens)
    plain = cost_of_zero_drafts(given.model, given.rounds)
    shown = [
        (
            row["temperature"],
            row["drafts"],
            " ".join(f"{share:.3f}" for share in row["acceptance_per_position"]),
            f"{row['mean_acceptance_length']:.2f}",
            f"{row['tokens_per_s']:.0f}",
        )
        for row in rows
    ]
    columns = ("temperature", "drafts", "accepted by position", "tokens a step", "tokens/s")
    print(table(columns, shown), file=sys.stderr)
    print(
        f"mtp_step 0 takes {plain['median_ratio']:.3f} of the time of an engine without the head "
        f"(median; fastest rounds {plain['fastest_ratio']:.3f})",
        file=sys.stderr,
    )
    report = {
        "model": given.model or "bundled",
        "requests": given.requests,
        "tokens": given.tokens,
        "mtp_step": given.mtp_step,
        "rows": rows,
        "zero_drafts": plain,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
