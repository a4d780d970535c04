"""Makes the helpers beside this file importable from every test, and gives tests a tiny model."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random float32 checkpoint with an MTP head, a vocabulary of 97 and no tokenizer."""
    from tiny import write_tiny

    return write_tiny(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="session")
def texts_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random float32 checkpoint with the bundled model's tokenizer."""
    from tiny import TinySpec, write_tiny

    from mtpcore.api import bundled_model_dir

    directory = tmp_path_factory.mktemp("texts") / "model"
    write_tiny(directory, TinySpec(vocab=4096, layers=("linear", "full")))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(bundled_model_dir() / name, directory)
    return directory
