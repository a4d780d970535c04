"""bfloat16: our error against float32 is no worse than that of transformers in bfloat16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from tiny import TinySpec, write_tiny
from tiny_driver import Driver
from tiny_oracle import oracle_logits, oracle_model

from mtpcore.models import load_model

if TYPE_CHECKING:
    from pathlib import Path

SPECS = {
    "r2": TinySpec(dtype=torch.bfloat16, hidden=64),
    "r3-untied": TinySpec(dtype=torch.bfloat16, v_heads=6, tied=False, seed=1, hidden=64),
    "k3-two-full": TinySpec(
        dtype=torch.bfloat16, kernel=3, layers=("linear", "full") * 2, seed=2, hidden=64
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_error_relative_to_transformers(name: str, tmp_path: Path) -> None:
    spec = SPECS[name]
    model = load_model(write_tiny(tmp_path, spec))
    assert model.dtype == torch.bfloat16
    tokens = [(13 * i * i + i) % spec.vocab for i in range(72)]
    exact = oracle_logits(oracle_model(spec), tokens)
    theirs = oracle_logits(oracle_model(spec, torch.bfloat16), tokens) - exact
    driver = Driver(model, 1)
    hidden = [driver.run_whole(1, tokens[:40])]
    for position in range(40, 72, 4):
        hidden += driver.step(decode=[(1, tokens[position : position + 4])])[0]
        driver.accept(1, 4)
    ours = model.target.logits(torch.cat(hidden)) - exact
    assert ours.square().mean().sqrt() <= 1.5 * theirs.square().mean().sqrt()
    assert ours.abs().max() <= 1.5 * theirs.abs().max()


def test_the_file_may_hold_either_dtype(tmp_path: Path) -> None:
    """A float32 file run in bfloat16 and a bfloat16 file run in float32."""
    narrow = load_model(write_tiny(tmp_path / "wide", TinySpec()), "bfloat16")
    assert narrow.target.embedding.dtype == torch.bfloat16
    wide = load_model(write_tiny(tmp_path / "narrow", TinySpec(dtype=torch.bfloat16)), "float32")
    assert wide.target.embedding.dtype == torch.float32
    assert Driver(narrow, 1).run_whole(1, [1, 2, 3]).dtype == torch.bfloat16
    assert wide.target.logits(Driver(wide, 1).run_whole(1, [1, 2, 3])).dtype == torch.float32
