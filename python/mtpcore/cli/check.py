"""`mtpcore check`: the public proof of losslessness, and the faults that it has to find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mtpcore.cli.command import command
from mtpcore.cli.engine_options import engine_options, given
from mtpcore.cli.output import print_json, say, table

if TYPE_CHECKING:
    from mtpcore.check.cases import CaseResult

# What the cases themselves set.
FIXED = {
    "dtype": "check runs in float32",
    "ssm_state_dtype": "check runs in float32",
    "seed": "each request of the check brings its own",
    "mtp_mode": "an axis of the check",
    "mtp_step": "an axis of the check",
    "overlap_depth": "an axis of the check",
    "max_num_batched_tokens": "an axis of the check",
    "enable_prefix_caching": "an axis of the check",
    "max_num_seqs": "set by the batch axis",
    "max_model_len": "set by the check",
}


@command(
    "mtpcore check",
    "mtpcore check DIRECTORY --full --json",
    "mtpcore check --plant conv-not-rolled-back",
)
@click.argument("model", required=False)
@click.option("--full", is_flag=True, help="every combination instead of every pair")
@click.option("--plant", metavar="NAME", help="break the engine in this way; status 1 when found")
@click.option("--list-plants", is_flag=True, help="the names of the faults")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
@engine_options
def check(
    model: str | None,
    full: bool,
    plant: str | None,
    list_plants: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Compares the engine with plain decoding by an independent slow path (MODEL: a directory)."""
    engine = given(options)
    for name, why in FIXED.items():
        if name in engine:
            raise click.UsageError(f"--{name.replace('_', '-')}: {why}; leave it out")
    if plant is not None and full:
        raise click.UsageError("--full: a plant runs the one case that sees it; leave one out")
    if list_plants:
        return _list_plants(as_json)
    from mtpcore.check.run import Check

    subject = Check(_directory(model), engine)
    if plant is not None:
        found = subject.run_plant(plant)
    else:
        say("case by case against the slow path, float32", as_json=as_json)

        def progress(result: CaseResult, seconds: float) -> None:
            state = "equal" if result.difference is None else "DIFFERENT"
            state = "tie" if state == "equal" and result.ties else state
            say(f"{state:9} {seconds:5.1f} s  {result.name}", as_json=as_json)

        found = subject.run(full, progress)
    if as_json:
        print_json(found)
    else:
        _print(found, plant)
    return 0 if found["ok"] else 1


def _directory(model: str | None) -> Path:
    if model is None:
        from mtpcore.api import bundled_model_dir

        return Path(bundled_model_dir())
    directory = Path(model)
    if not directory.is_dir():
        raise click.BadParameter(f"{model}: not a directory; give a hub-layout model directory")
    return directory


def _list_plants(as_json: bool) -> int:
    from mtpcore.check.plants import PLANTS

    if as_json:
        print_json({"plants": list(PLANTS)})
    else:
        say(table(("plant", "fault"), [(p.name, p.fault) for p in PLANTS.values()]))
    return 0


def _print(found: dict[str, Any], plant: str | None) -> None:
    say()
    say(table(("axis", "values"), [(k, " ".join(map(str, v))) for k, v in found["axes"].items()]))
    shares = found["acceptance_per_position"]
    if shares:
        say()
        say("accepted drafts by position")
        say(table(("pass", "1, 2, …"), [(k, " ".join(map(str, v))) for k, v in shares.items()]))
    say()
    counts = ("cases", "requests", "equal", "ties")
    say(table((*counts, "failed"), [(*(found[name] for name in counts), len(found["failed"]))]))
    for failure in found["failed"]:
        say(f"{failure['case']}\n  at {failure['first_difference']}: {failure['reason']}")
    if plant is None:
        say("all equal" if found["ok"] else "NOT equal to plain decoding")
    else:
        say(f"plant {plant}: " + ("NOT FOUND" if found["ok"] else "found"))
