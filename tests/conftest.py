"""Makes the helpers beside this file importable from every test, and gives tests a tiny model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(scope="session")
def tiny_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random float32 checkpoint with an MTP head, a vocabulary of 97 and no tokenizer."""
    from tiny import write_tiny

    return write_tiny(tmp_path_factory.mktemp("tiny") / "model")
