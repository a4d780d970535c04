"""What the installed wheel holds; the checkout's own python/ is not on the path here."""

from __future__ import annotations

import importlib
import importlib.resources
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_is_under_test() -> None:
    import mtpcore

    assert ROOT / "python" not in Path(str(mtpcore.__file__)).resolve().parents


def test_every_kernel_module_is_importable_from_the_wheel() -> None:
    modules = [
        ".".join(path.relative_to(ROOT / "kernels").with_suffix("").parts)
        for path in sorted((ROOT / "kernels").rglob("*.py"))
        if path.name != "__init__.py"
    ]
    assert modules
    for module in modules:
        importlib.import_module(f"mtpcore.kernels.{module}")


def test_the_bundled_model_and_the_type_marker_are_in_the_wheel() -> None:
    installed = importlib.resources.files("mtpcore")
    assert installed.joinpath("py.typed").is_file()
    for path in (ROOT / "python" / "mtpcore" / "bundled").iterdir():
        if path.is_file():
            assert installed.joinpath("bundled", path.name).is_file(), path.name
