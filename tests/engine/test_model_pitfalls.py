"""Known ways to get this family wrong, one test each; the numbers are those of the pitfall list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from tiny import TinySpec, tiny_tensors, write_tiny
from tiny_driver import Driver
from tiny_oracle import oracle_model
from torch import Tensor

from mtpcore.kernels.gated_delta import prefill, qk_l2norm
from mtpcore.layers.attention import GatedAttention
from mtpcore.layers.gdn import GatedDeltaNet
from mtpcore.layers.norm import GatedRMSNorm, RMSNorm
from mtpcore.layers.rope import Rope, RopeConfig
from mtpcore.models import LoadedModel, load_model

if TYPE_CHECKING:
    from pathlib import Path

SPEC = TinySpec(v_heads=4, kernel=4)
TOKENS = [(3 * i * i + i + 1) % 97 for i in range(30)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(write_tiny(tmp_path_factory.mktemp("model"), SPEC), "float32")


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    return tiny_tensors(SPEC)


def test_01_norms_are_zero_centred_but_the_gdn_output_norm_is_plain(
    model: LoadedModel, weights: dict[str, Tensor]
) -> None:
    layer = model.target.layers[0]
    assert isinstance(layer.mixer, GatedDeltaNet)
    assert torch.equal(layer.input_norm.scale, 1 + weights["model.layers.0.input_layernorm.weight"])
    assert torch.equal(layer.mixer.norm.weight, weights["model.layers.0.linear_attn.norm.weight"])
    x = torch.tensor([[3.0, 4.0]])
    want = x / 12.5**0.5
    assert torch.allclose(RMSNorm.zero_centred(torch.zeros(2), 0.0)(x), want)
    plain = GatedRMSNorm(torch.full((2,), 2.0), 0.0)
    assert torch.allclose(plain(x, torch.ones(1, 2)), 2 * want * F.silu(torch.ones(1)))


def test_02_the_gate_follows_its_own_heads_query() -> None:
    dim, heads = 2, 3
    q = torch.arange(2.0 * heads * dim)[:, None].expand(-1, 4)
    kv, norm = torch.zeros(dim, 4), torch.zeros(dim)
    layer = GatedAttention.fuse(q, kv, kv, torch.zeros(4, heads * dim), norm, norm, dim, 1e-6)
    assert layer.inputs[0, :6].tolist() == [0, 1, 4, 5, 8, 9]
    assert layer.inputs[0, -6:].tolist() == [2, 3, 6, 7, 10, 11]


def test_04_consecutive_value_heads_share_a_key_head() -> None:
    qk = torch.ones(3, 2, 2, 4)
    qk[:, :, 1] = 0
    out, _ = prefill(
        qk_l2norm(qk),
        torch.ones(3, 6, 5),
        torch.zeros(3, 6),
        torch.ones(3, 6),
        torch.zeros(6, 4, 5),
    )
    assert (out[:, :3] > 0).all() and (out[:, 3:] == 0).all()


def raw_inputs(model: LoadedModel, tokens: list[int]) -> Tensor:
    """What layer 0's convolution reads: projections before convolution and activation."""
    layer = model.target.layers[0]
    assert isinstance(layer.mixer, GatedDeltaNet)
    x = layer.input_norm(model.target.embedding[torch.tensor(tokens)])
    return (x @ layer.mixer.inputs)[:, : model.config.conv_channels]


def test_05_the_conv_state_is_raw_and_multi_token_steps_use_it(model: LoadedModel) -> None:
    driver = Driver(model, 1)
    driver.run_whole(1, TOKENS[:10])
    window = driver.state.conv[0, driver.rows[1], :3]
    assert torch.allclose(window, raw_inputs(model, TOKENS[7:10]), atol=1e-6)
    rows, _ = driver.step(decode=[(1, TOKENS[10:14])])
    whole = Driver(model, 1).run_whole(1, TOKENS)
    assert (rows[0] - whole[10:14]).abs().max() < 1e-4


def test_08_09_the_hidden_row_is_the_one_after_the_final_norm(model: LoadedModel) -> None:
    """transformers' last hidden state is normed too; the MTP head wants exactly this row."""
    with torch.no_grad():
        out = oracle_model(SPEC)(torch.tensor([TOKENS]), output_hidden_states=True)
    hidden = Driver(model, 1).run_whole(1, TOKENS)
    assert (hidden - out.hidden_states[-1][0]).abs().max() < 1e-4
    assert (hidden - out.hidden_states[-2][0]).abs().max() > 0.1


def test_11_a_missing_head_is_the_embedding(model: LoadedModel, tmp_path: Path) -> None:
    assert model.target.head is model.target.embedding
    untied = load_model(write_tiny(tmp_path, TinySpec(tied=False)), "float32")
    assert not torch.equal(untied.target.head, untied.target.embedding)


def test_14_angles_are_float32_and_cast_before_they_multiply() -> None:
    config = RopeConfig(head_dim=8, rotary_dim=4, theta=1e4)
    rotation = Rope(config, torch.bfloat16, "cpu")(torch.tensor([60001]))
    angles = torch.tensor([60001.0, 60001.0 * 0.01])
    assert torch.equal(rotation.cos[0, 0, :2], angles.cos().bfloat16())
    assert torch.equal(rotation.sin[0, 0, 2:], angles.sin().bfloat16())
    x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    half = torch.cat((-x[..., 2:4], x[..., :2]), -1)
    cos, sin = (torch.cat((t, t)).bfloat16() for t in (angles.cos(), angles.sin()))
    want = x[..., :4] * cos + half * sin
    assert torch.equal(rotation(x), torch.cat((want, x[..., 4:]), -1))


def test_15_the_gdn_norm_casts_in_the_middle() -> None:
    generator = torch.Generator().manual_seed(0)
    x, gate, weight = (torch.randn(64, 16, generator=generator).bfloat16() for _ in range(3))
    normed = x.float() / (x.float().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    want = ((weight[0] * normed.bfloat16()).float() * F.silu(gate.float())).bfloat16()
    without = (weight[0].float() * normed * F.silu(gate.float())).bfloat16()
    got = GatedRMSNorm(weight[0], 1e-6)(x, gate)
    assert (got != want).float().mean() < 0.01
    assert (got != without).float().mean() > 0.05


def test_16_decays_are_float32_whatever_the_file_holds(tmp_path: Path) -> None:
    spec = TinySpec(dtype=torch.bfloat16)
    stored = tiny_tensors(spec)
    mixer = load_model(write_tiny(tmp_path, spec)).target.layers[0].mixer
    assert isinstance(mixer, GatedDeltaNet)
    assert mixer.decay.dtype == mixer.dt_bias.dtype == torch.float32
    a_log = stored["model.layers.0.linear_attn.A_log"]
    assert torch.equal(mixer.decay, -a_log.float().exp())
    assert not torch.equal(mixer.decay, (-a_log.exp()).float())


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_18_rejected_rows_touch_neither_state(model: LoadedModel, taken: int) -> None:
    """What is live after a rollback equals what a step of the accepted tokens alone leaves."""
    mixed, clean = Driver(model, 1), Driver(model, 1)
    for driver in (mixed, clean):
        driver.run_whole(1, TOKENS[:9])
    wrong = [(token + 1) % 97 for token in TOKENS[9 + taken : 13]]
    mixed.step(decode=[(1, TOKENS[9 : 9 + taken] + wrong)])
    clean.step(decode=[(1, TOKENS[9 : 9 + taken])])
    states = [d.state.ssm[:, d.rows[1], taken - 1] for d in (mixed, clean)]
    assert (states[0] - states[1]).abs().max() < 1e-5
    windows = [d.state.conv[:, d.rows[1], taken - 1 : taken + 2] for d in (mixed, clean)]
    assert (windows[0] - windows[1]).abs().max() < 1e-5
    assert torch.allclose(
        windows[0][0], raw_inputs(model, TOKENS[6 + taken : 9 + taken]), atol=1e-5
    )
