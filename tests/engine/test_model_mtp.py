"""The MTP head against a plain implementation and against the one of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from tiny import TinySpec, tiny_tensors, write_tiny
from tiny_driver import Driver
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from mtpcore.models import LoadedModel, load_model

if TYPE_CHECKING:
    from pathlib import Path

SPECS = {
    "tied": TinySpec(),
    "untied-half-rotary": TinySpec(rotary=0.5, tied=False, seed=1),
    "gqa3": TinySpec(heads=6, seed=2),
    "wrapper": TinySpec(prefix="model.language_model.", seed=3),
}
TOKENS = [(5 * i * i + 11 * i + 2) % 97 for i in range(40)]


@pytest.fixture(params=SPECS, ids=str)
def spec(request: pytest.FixtureRequest) -> TinySpec:
    return SPECS[request.param]


@pytest.fixture
def model(spec: TinySpec, tmp_path: Path) -> LoadedModel:
    return load_model(write_tiny(tmp_path, spec), "float32")


def norm(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + weight)


def naive(spec: TinySpec, tokens: list[int], hidden: Tensor, first: int) -> Tensor:
    """Head outputs for tokens at positions first, first + 1, ...; hidden[i] is the row before."""
    w = {name: value.double() for name, value in tiny_tensors(spec).items()}
    embed, hidden, dim = w[f"{spec.prefix}embed_tokens.weight"], hidden.double(), spec.head_dim
    e = norm(embed[torch.tensor(tokens)], w["mtp.pre_fc_norm_embedding.weight"])
    h = norm(hidden, w["mtp.pre_fc_norm_hidden.weight"])
    x = torch.cat((e, h), -1) @ w["mtp.fc.weight"].T
    layer = {name.removeprefix("mtp.layers.0."): value for name, value in w.items()}
    y = norm(x, layer["input_layernorm.weight"])
    count, rotary = len(tokens), int(dim * spec.rotary)
    qg = (y @ layer["self_attn.q_proj.weight"].T).view(count, spec.heads, 2 * dim)
    q, gate = qg[..., :dim], qg[..., dim:]
    k = (y @ layer["self_attn.k_proj.weight"].T).view(count, spec.kv_heads, dim)
    v = (y @ layer["self_attn.v_proj.weight"].T).view(count, spec.kv_heads, dim)
    q, k = norm(q, layer["self_attn.q_norm.weight"]), norm(k, layer["self_attn.k_norm.weight"])
    out = torch.zeros(count, spec.heads, dim, dtype=torch.float64)

    def turn(x: Tensor) -> Tensor:
        half = rotary // 2
        position = torch.arange(first, first + count, dtype=torch.float64)[:, None, None]
        angle = position * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        pair = torch.complex(x[..., :half], x[..., half:rotary]) * torch.exp(1j * angle)
        return torch.cat((pair.real, pair.imag, x[..., rotary:]), -1)

    q, k = turn(q), turn(k)
    for t in range(count):
        for n in range(spec.heads):
            m = n * spec.kv_heads // spec.heads
            weights = torch.softmax(k[: t + 1, m] @ q[t, n] * dim**-0.5, 0)
            out[t, n] = weights @ v[: t + 1, m]
    mixed = (out * gate.sigmoid()).flatten(1)
    x = x + mixed @ layer["self_attn.o_proj.weight"].T
    y = norm(x, layer["post_attention_layernorm.weight"])
    inner = F.silu(y @ layer["mlp.gate_proj.weight"].T) * (y @ layer["mlp.up_proj.weight"].T)
    return norm(x + inner @ layer["mlp.down_proj.weight"].T, w["mtp.norm.weight"])


def commit(driver: Driver, request: int, first: int, hidden: Tensor, span: bool) -> Tensor:
    """Run the head over TOKENS[first : first + n] as a span, or as one rectangle row."""
    count = len(hidden)
    row = [(request, first, count)]
    attn = driver.attention([] if span else row, count, row if span else [], first_key=1)
    ids = torch.tensor(TOKENS[first : first + count])
    assert driver.model.mtp is not None
    return driver.model.mtp.forward(ids, hidden, attn, driver.kv)


def test_committed_rows(spec: TinySpec, model: LoadedModel) -> None:
    """Spans and rectangles continue one another; slot 0 has no entry and stays poisoned."""
    driver = Driver(model, 2)
    hidden = driver.run_whole(1, TOKENS)
    want = naive(spec, TOKENS[1:], hidden[:-1], first=1)
    got = [
        commit(driver, 1, first, hidden[first - 1 : end - 1], span)
        for first, end, span in (
            (1, 12, True),
            (12, 16, False),
            (16, 17, False),
            (17, 33, True),
            (33, 40, False),
        )
    ]
    assert (torch.cat(got).double() - want).abs().max() < 1e-4
    assert driver.kv[-1].flatten(0, 1)[driver.slot(1, 0)].isnan().all()


def test_chained_drafts(spec: TinySpec, model: LoadedModel) -> None:
    """The head's own output and drafted token are fed back, four times; a second request beside."""
    driver = Driver(model, 2)
    hidden = driver.run_whole(1, TOKENS[:20])
    other = driver.run_whole(2, TOKENS[:9])
    commit(driver, 2, 1, other[:8], span=True)
    y = commit(driver, 1, 1, hidden[:19], span=True)[-1:]
    tokens, rows = TOKENS[1:20], hidden[:19]
    y2 = commit(driver, 2, 8, other[7:8], span=False)
    for step in range(4):
        want = naive(spec, tokens, rows, first=1)[-1]
        assert (y[0].double() - want).abs().max() < 1e-4
        drafted = int(model.target.logits(y)[0].argmax())
        tokens, rows = [*tokens, drafted], torch.cat((rows, y))
        attn = driver.attention([(1, 20 + step, 1), (2, 9 + step, 1)], 1, [], first_key=1)
        both = model.mtp.forward(torch.tensor([drafted, 3]), torch.cat((y, y2)), attn, driver.kv)
        y, y2 = both[:1], both[1:]


def test_rewriting_scratch_rows_with_true_ones(spec: TinySpec, model: LoadedModel) -> None:
    """Entries of rejected drafts are overwritten by the next commit and leave no trace."""
    driver, clean = Driver(model, 1), Driver(model, 1)
    hidden = driver.run_whole(1, TOKENS)
    for d in (driver, clean):
        commit(d, 1, 1, hidden[:9], span=True)
    noise = torch.randn(6, spec.hidden, generator=torch.Generator().manual_seed(0))
    commit(driver, 1, 10, noise, span=False)
    got, want = (commit(d, 1, 10, hidden[9:13], span=False) for d in (driver, clean))
    assert torch.equal(got, want)


@pytest.mark.parametrize("spec", [SPECS["tied"], SPECS["wrapper"]], ids=["tied", "wrapper"])
def test_transformers_agrees(spec: TinySpec, model: LoadedModel, tmp_path: Path) -> None:
    oracle, info = AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    assert not info["missing_keys"]
    oracle.config.num_mtp_layers, oracle.config.mtp_layer_types = 1, ["full_attention"]
    oracle.config.name_or_path = str(tmp_path)
    head = MtpModel.from_pretrained(oracle).eval()
    driver = Driver(model, 1)
    hidden = driver.run_whole(1, TOKENS)
    cache = MtpCache(config=oracle.config.get_mtp_config())
    with torch.no_grad():
        want = head.forward_layer(
            0,
            hidden[None, :-1],
            torch.arange(1, 40)[None],
            cache,
            input_ids=torch.tensor([TOKENS[1:]]),
        )
    got = commit(driver, 1, 1, hidden[:-1], span=True)
    assert (got - want[0]).abs().max() < 1e-4
