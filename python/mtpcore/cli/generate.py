"""`mtpcore generate`: text as it comes, then what it cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from mtpcore.cli.command import command
from mtpcore.cli.engine_options import engine_options, given, spellings
from mtpcore.cli.output import print_json, say, size, table
from mtpcore.cli.stats import Stats, state_bytes_per_request

if TYPE_CHECKING:
    from mtpcore.api import RequestOutput

DEFAULT_PROMPT = "To be, or not to be"


@command(
    'mtpcore generate "ROMEO:" --max-tokens 120',
    'mtpcore generate "ROMEO:" "JULIET:" --temperature 0.8 --seed 7 --json',
    'mtpcore generate "ROMEO:" --model DIRECTORY --mtp-step 2',
)
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option("--model", help="hub-layout directory; the bundled model if left out")
@click.option(
    "max_tokens",
    *spellings("max_tokens"),
    type=int,
    default=64,
    show_default=True,
    help="most tokens of a text",
)
@click.option(
    "min_tokens", *spellings("min_tokens"), type=int, default=0, help="tokens before a stop counts"
)
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 is greedy")
@click.option(
    "top_p", *spellings("top_p"), type=float, default=1.0, help="share of the probability to keep"
)
@click.option(
    "top_k", *spellings("top_k"), type=int, default=0, help="likeliest tokens to keep, 0 is off"
)
@click.option("--stop", multiple=True, help="a string that ends the text")
@click.option(
    "stop_token_ids",
    *spellings("stop_token_id"),
    type=int,
    multiple=True,
    help="a token that ends the text",
)
@click.option("ignore_eos", *spellings("ignore_eos"), is_flag=True, help="go on behind the end")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
@engine_options
def generate(prompts: tuple[str, ...], model: str | None, as_json: bool, **options: Any) -> None:
    """Continues each PROMPT with the model's text."""
    engine = given(options)
    from mtpcore.api import LLM, SamplingParams

    texts = list(prompts) or [DEFAULT_PROMPT]
    params = SamplingParams(
        temperature=options["temperature"],
        top_p=options["top_p"],
        top_k=options["top_k"],
        max_tokens=options["max_tokens"],
        min_tokens=options["min_tokens"],
        stop=list(options["stop"]),
        stop_token_ids=list(options["stop_token_ids"]),
        ignore_eos=options["ignore_eos"],
    )
    with LLM(model=model, **engine) as llm:
        started = time.perf_counter()
        results = _stream(llm, texts, params, as_json)
        stats = Stats.of(results, time.perf_counter() - started)
        state_bytes = state_bytes_per_request(llm)
    if as_json:
        print_json(_as_json(results, stats, state_bytes))
    else:
        say()
        say(_as_table(stats, state_bytes))


def _stream(llm: Any, texts: list[str], params: Any, as_json: bool) -> list[RequestOutput]:
    """Prints one text as it comes; of several, each one whole when it ends."""
    results: dict[int, RequestOutput] = {}
    live = len(texts) == 1 and not as_json
    deltas = llm.stream(texts, params)
    if live:
        say(texts[0], nl=False)
    for delta in deltas:
        if live:
            say(delta.text, nl=False)
        if delta.result is not None:
            results[delta.index] = delta.result
            if not live and not as_json:
                text = delta.result.outputs[0].text
                say(f"[{delta.index}] {texts[delta.index]}{text}\n")
    if live:
        say()
    return [results[i] for i in range(len(texts))]


def _as_json(results: list[RequestOutput], stats: Stats, state_bytes: int) -> dict[str, Any]:
    outputs = [
        {
            "index": index,
            "text": result.outputs[0].text,
            "token_ids": list(result.outputs[0].token_ids),
            "finish_reason": result.outputs[0].finish_reason,
            "num_cached_tokens": result.num_cached_tokens,
        }
        for index, result in enumerate(results)
    ]
    return {
        "outputs": outputs,
        "stats": {
            "tokens_per_s": stats.tokens_per_s,
            "mean_acceptance_length": stats.mean_acceptance_length,
            "acceptance_per_position": stats.acceptance_per_position,
            "cached_tokens": stats.cached_tokens,
            "state_bytes_per_request": state_bytes,
        },
    }


def _as_table(stats: Stats, state_bytes: int) -> str:
    shares = " ".join(f"{share:.2f}" for share in stats.acceptance_per_position) or "no drafts"
    rows = [
        ("tokens/s", f"{stats.tokens_per_s:.1f}"),
        ("mean acceptance length", f"{stats.mean_acceptance_length:.2f}"),
        ("acceptance by position", shares),
        ("cached tokens", str(stats.cached_tokens)),
        ("state per request", size(state_bytes)),
    ]
    return table(("", "value"), rows)
