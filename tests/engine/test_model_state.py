"""Lifecycle of the recurrent states: export, restore, reset, HOLD, and what each may touch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from tiny import TinySpec, write_tiny
from tiny_driver import Driver

from mtpcore.models import LoadedModel, load_model
from mtpcore.state import ConvSSMState, SSMExecutor

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = [(7 * i * i + 3 * i) % 97 for i in range(90)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(write_tiny(tmp_path_factory.mktemp("model")), "float32")


def resume(driver: Driver, source: int, target: int, length: int, checkpoint: int) -> None:
    """Let request `target` continue from a checkpoint of request `source`."""
    pages = -(-length // driver.page_size)
    copies = [torch.tensor(driver.tables[r][:pages]) for r in (source, target)]
    driver.kv.copy_pages(*copies)
    driver.state.restore(torch.tensor([driver.rows[target]]), torch.tensor([checkpoint]))
    driver.length[target], driver.accepted[target] = length, 0


def test_a_span_exports_at_its_boundaries(model: LoadedModel) -> None:
    driver = Driver(model, 4)
    whole = driver.run_whole(4, TOKENS)
    exports = {1: ((1, 3), (30, 1), (70, 2))}
    driver.step(prefill=[(1, TOKENS[:70])], exports=exports)
    for length, checkpoint in ((1, 3), (30, 1), (70, 2)):
        resume(driver, 1, 2, length, checkpoint)
        hidden = driver.run_whole(2, TOKENS[length:80])
        assert (hidden - whole[length:80]).abs().max() < 1e-4
        saved = driver.state.get_hidden(torch.tensor([checkpoint]))
        assert (saved[0] - whole[length - 1]).abs().max() < 1e-4
    assert driver.state.ckpt_ssm[:, 4:].isnan().all()


@pytest.mark.parametrize("index", [0, 1, 2, 3])
def test_a_verify_step_exports_at_any_row(model: LoadedModel, index: int) -> None:
    """A boundary inside the accepted run; the live state is what it was."""
    driver = Driver(model, 4)
    whole = driver.run_whole(4, TOKENS)
    driver.run_whole(1, TOKENS[:20])
    rows, _ = driver.step(decode=[(1, TOKENS[20:24]), (2, [])])
    before = driver.state.ssm.clone(), driver.state.conv.clone()
    state_idx = torch.tensor([driver.rows[1], driver.rows[1], 0])
    driver.state.export(state_idx, torch.tensor([index, 0, 0]), torch.tensor([5, 0, 0]))
    driver.state.set_hidden(torch.tensor([5]), rows[0][index : index + 1])
    for now, then in zip((driver.state.ssm, driver.state.conv), before, strict=True):
        assert torch.equal(now.nan_to_num(9e9), then.nan_to_num(9e9))
    length = 20 + index + 1
    resume(driver, 1, 3, length, 5)
    hidden, _ = driver.step(decode=[(3, TOKENS[length : length + 4])])
    assert (hidden[0] - whole[length : length + 4]).abs().max() < 1e-4
    driver.accept(1, 4)
    hidden, _ = driver.step(decode=[(1, TOKENS[24:28])])
    assert (hidden[0] - whole[24:28]).abs().max() < 1e-4


def test_hold_rows_and_rejected_columns_touch_nothing(model: LoadedModel) -> None:
    driver = Driver(model, 3)
    for request in (1, 2, 3):
        driver.run_whole(request, TOKENS[:10])
    state = driver.state
    before = [pool.clone() for pool in (state.ssm, state.conv, *driver.kv.layers)]
    driver.step(decode=[(1, TOKENS[10:12]), (2, [])], width=4)
    live = driver.rows[1]
    kernel, pages = model.config.conv_kernel, driver.tables[1][10 // 4 : 3]
    allowed_ssm = torch.zeros_like(before[0], dtype=torch.bool)
    allowed_ssm[:, live, :2] = True
    allowed_conv = torch.zeros_like(before[1], dtype=torch.bool)
    allowed_conv[:, live, : kernel - 2 + 2] = True
    for pool, then, allowed in (
        (state.ssm, before[0], allowed_ssm),
        (state.conv, before[1], allowed_conv),
    ):
        changed = pool.nan_to_num(9e9) != then.nan_to_num(9e9)
        changed[:, 0] = False
        assert not (changed & ~allowed).any()
        assert changed[:, live].any()
    target_layers = driver.kv.layers[: model.config.num_attn_layers]
    for layer, then in zip(target_layers, before[2:], strict=False):
        changed = (layer.nan_to_num(9e9) != then.nan_to_num(9e9)).flatten(2).any(-1)
        changed[0] = False
        assert changed.nonzero().tolist() == [[pages[0], 2], [pages[0], 3]]


def test_hold_rows_are_finite_on_a_poisoned_null_row(model: LoadedModel) -> None:
    driver = Driver(model, 1)
    driver.rows[1] = 0
    driver.step(decode=[(1, []), (1, [])], width=2)


def test_reset_empties_a_row_and_no_other(model: LoadedModel) -> None:
    state = ConvSSMState(model.config.state_shape(), 3, 1, mtp_step=2)
    state.ssm.fill_(2)
    state.conv.fill_(2)
    state.reset(torch.tensor([2]))
    assert (state.ssm[:, 2] == 0).all() and (state.conv[:, 2] == 0).all()
    assert (state.ssm[:, [1, 3]] == 2).all() and (state.conv[:, [1, 3]] == 2).all()


def test_sizes_follow_the_settings(model: LoadedModel) -> None:
    shape = model.config.state_shape()
    state = ConvSSMState(shape, 5, 2, mtp_step=3, dtype=torch.bfloat16)
    matrix = shape.num_v_heads * shape.k_dim * shape.v_dim
    window = shape.conv_kernel - 1
    layers, channels = shape.num_layers, shape.conv_channels
    assert state.num_bytes() == {
        "ssm_state": layers * 6 * 4 * matrix * 4,
        "conv_state": layers * 6 * (window + 3) * channels * 2,
        "checkpoints": 3 * (layers * (matrix * 4 + window * channels * 2) + shape.hidden * 2),
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "compact"}, "ssm_state_mode 'compact' does not run yet"),
        ({"mode": "replay"}, "ssm_state_mode 'replay' does not run yet"),
        ({"mode": "auto"}, "ssm_state_mode 'auto' does not run yet"),
        ({"mode": "other"}, "ssm_state_mode 'other' is unknown"),
        ({"num_states": 0}, "num_states is 0"),
        ({"num_checkpoints": -1}, "num_checkpoints is -1"),
        ({"mtp_step": -1}, "mtp_step is -1"),
        ({"ssm_dtype": torch.float16}, "ssm_state_dtype torch.float16 is not supported"),
    ],
)
def test_bad_settings_are_named(model: LoadedModel, settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConvSSMState(
            model.config.state_shape(), **{"num_states": 2, "num_checkpoints": 0, **settings}
        )


def test_the_executor_refuses_what_it_cannot_run(model: LoadedModel) -> None:
    with pytest.raises(ValueError, match="set ssm_state_mode to 'native'"):
        SSMExecutor("replay")
    with pytest.raises(ValueError, match="width 3 does not fit 2 states a row; raise mtp_step"):
        Driver(model, 1, mtp_step=1).step(decode=[(1, [1, 2, 3])])


def test_a_bfloat16_state_stays_near_the_float32_one(tmp_path: Path) -> None:
    model = load_model(write_tiny(tmp_path, TinySpec()), "float32")
    exact, rounded = Driver(model, 1), Driver(model, 1)
    config = model.config
    rounded.state = ConvSSMState(config.state_shape(), 1, 1, mtp_step=3, ssm_dtype=torch.bfloat16)
    for position in range(0, 40, 4):
        rows = [
            d.step(decode=[(1, TOKENS[position : position + 4])])[0][0] for d in (exact, rounded)
        ]
        assert (rows[0] - rows[1]).abs().max() < 0.05
        for driver in (exact, rounded):
            driver.accept(1, 4)
