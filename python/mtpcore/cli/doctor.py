"""`mtpcore doctor`: what this machine has, and what keeps the engine from running."""

from __future__ import annotations

import importlib
import importlib.resources
import pkgutil
import platform
from typing import Any

import click

from mtpcore.cli.command import command
from mtpcore.cli.output import print_json, say, version

LEAST_TORCH = (2, 11)


@command("mtpcore doctor", "mtpcore doctor --json")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
def doctor(as_json: bool) -> int:
    """Shows versions, the device and the kernels; exit status 1 if something is wrong."""
    report = examine()
    if as_json:
        print_json(report)
    else:
        for name in ("mtpcore", "python", "torch", "device"):
            say(f"{name:8} {report[name]}")
        for name, state in report["kernels"].items():
            say(f"kernel   {name}: {state}")
        for problem in report["problems"]:
            say(f"problem  {problem}")
        if not report["problems"]:
            say("no problem found")
    return 1 if report["problems"] else 0


def examine() -> dict[str, Any]:
    """The report's JSON fields."""
    problems: list[str] = []
    report: dict[str, Any] = {
        "mtpcore": version(),
        "python": platform.python_version(),
        "torch": "not installed",
        "device": "none",
    }
    try:
        import torch

        report["torch"] = torch.__version__
        found = tuple(int(part) for part in torch.__version__.split(".")[:2])
        if found < LEAST_TORCH:
            problems.append(f"torch {torch.__version__} is too old: install torch 2.11 or newer")
        if torch.cuda.is_available():
            report["device"] = f"cuda: {torch.cuda.get_device_name()}"
        else:
            report["device"] = f"cpu: {torch.get_num_threads()} threads"
    except ImportError as error:
        problems.append(f"torch cannot be imported ({error}): pip install torch")
    try:
        importlib.import_module("mtpcore._core")
    except ImportError as error:
        problems.append(f"the Rust core cannot be imported ({error}): install a built wheel")
    report["kernels"] = kernels(problems)
    model = importlib.resources.files("mtpcore") / "bundled" / "config.json"
    if not model.is_file():
        problems.append("the bundled model is missing: reinstall the wheel")
    return report | {"problems": problems}


def kernels(problems: list[str]) -> dict[str, str]:
    """Each op of mtpcore.kernels: available, or why not."""
    states: dict[str, str] = {}
    try:
        package = importlib.import_module("mtpcore.kernels")
    except ImportError as error:
        problems.append(f"mtpcore.kernels cannot be imported ({error}): install a built wheel")
        return states
    for module in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"mtpcore.kernels.{module.name}")
            states[module.name] = "available (torch reference)"
        except ImportError as error:
            states[module.name] = f"not available: {error}"
            problems.append(f"kernel {module.name}: {error}")
    return states
