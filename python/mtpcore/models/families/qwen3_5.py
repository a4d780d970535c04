"""Qwen3.5 dense text models: Gated DeltaNet with gated full attention, and one MTP head."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...draft.mtp import MtpHead
from ...layers.attention import GatedAttention
from ...layers.gdn import GatedDeltaNet
from ...layers.linear import pack
from ...layers.mlp import MLP
from ...layers.norm import RMSNorm
from ...layers.rope import Rope
from ..causal_lm import CausalLM, DecoderLayer
from ..exec_layers import build_exec_layers

if TYPE_CHECKING:
    from ..config import ModelConfig

Shapes = dict[str, tuple[int, ...]]
Take = Callable[[str], Tensor]


def target_shapes(config: ModelConfig, tied: bool) -> Shapes:
    """Tensor names without the text prefix, and their shapes."""
    shapes: Shapes = {
        "embed_tokens.weight": (config.vocab_size, config.hidden_size),
        "norm.weight": (config.hidden_size,),
    }
    for i, kind in enumerate(config.layer_types):
        shapes |= _layer_shapes(config, f"layers.{i}.", kind)
    if not tied:
        shapes["lm_head.weight"] = (config.vocab_size, config.hidden_size)
    return shapes


def mtp_shapes(config: ModelConfig) -> Shapes:
    """The 15 tensors of the MTP head."""
    width = config.hidden_size
    return {
        "mtp.fc.weight": (width, 2 * width),
        "mtp.pre_fc_norm_embedding.weight": (width,),
        "mtp.pre_fc_norm_hidden.weight": (width,),
        "mtp.norm.weight": (width,),
        **_layer_shapes(config, "mtp.layers.0.", "full_attention"),
    }


def build_target(
    config: ModelConfig, take: Take, tied: bool, dtype: torch.dtype, device: torch.device
) -> CausalLM:
    """`take(name)` gives a tensor in `dtype` on `device`, once per name."""
    embedding = take("embed_tokens.weight")
    layers = tuple(
        _build_layer(config, take, f"layers.{i}.", kind)
        for i, kind in enumerate(config.layer_types)
    )
    return CausalLM(
        config=config,
        exec_layers=build_exec_layers(config.layer_types),
        embedding=embedding,
        layers=layers,
        norm=RMSNorm.zero_centred(take("norm.weight"), config.rms_norm_eps),
        head=embedding if tied else take("lm_head.weight"),
        rope=Rope(config.rope, dtype, device),
    )


def build_mtp(config: ModelConfig, take: Take, target: CausalLM) -> MtpHead:
    """The MTP head shares embedding, head and rope with the target."""
    eps = config.rms_norm_eps
    layer = _build_layer(config, take, "mtp.layers.0.", "full_attention")
    assert isinstance(layer.mixer, GatedAttention)
    return MtpHead(
        embedding=target.embedding,
        embedding_norm=RMSNorm.zero_centred(take("mtp.pre_fc_norm_embedding.weight"), eps),
        hidden_norm=RMSNorm.zero_centred(take("mtp.pre_fc_norm_hidden.weight"), eps),
        fc=pack(take("mtp.fc.weight")),
        input_norm=layer.input_norm,
        mixer=layer.mixer,
        post_norm=layer.post_norm,
        mlp=layer.mlp,
        norm=RMSNorm.zero_centred(take("mtp.norm.weight"), eps),
        rope=target.rope,
        kv_slot=config.num_attn_layers,
    )


def weight_bytes(config: ModelConfig, dtype: torch.dtype, tied: bool, with_mtp: bool) -> int:
    """Bytes of the weights as the built model stores them, from shapes alone."""
    shapes = target_shapes(config, tied) | (mtp_shapes(config) if with_mtp else {})
    total = config.rope.rotary_dim // 2 * 4
    for name, shape in shapes.items():
        count = math.prod(shape)
        if name.endswith("q_norm.weight"):
            count *= config.num_attention_heads
        elif name.endswith("k_norm.weight"):
            count *= config.num_key_value_heads
        total += count * (4 if _held_as_float32(name) else dtype.itemsize)
    return total


def _held_as_float32(name: str) -> bool:
    """Norm scales (the gated norm of a GDN layer is multiplied in the model dtype), convolution
    and gates."""
    if name.endswith("linear_attn.norm.weight"):
        return False
    return name.rpartition(".")[2] in ("A_log", "dt_bias") or "norm" in name or "conv1d" in name


def _layer_shapes(config: ModelConfig, at: str, kind: str) -> Shapes:
    width, inner = config.hidden_size, config.intermediate_size
    shapes: Shapes = {
        f"{at}input_layernorm.weight": (width,),
        f"{at}post_attention_layernorm.weight": (width,),
        f"{at}mlp.gate_proj.weight": (inner, width),
        f"{at}mlp.up_proj.weight": (inner, width),
        f"{at}mlp.down_proj.weight": (width, inner),
    }
    if kind == "full_attention":
        at += "self_attn."
        dim, heads, kv_heads = (
            config.head_dim,
            config.num_attention_heads,
            config.num_key_value_heads,
        )
        return shapes | {
            f"{at}q_proj.weight": (2 * heads * dim, width),
            f"{at}k_proj.weight": (kv_heads * dim, width),
            f"{at}v_proj.weight": (kv_heads * dim, width),
            f"{at}o_proj.weight": (width, heads * dim),
            f"{at}q_norm.weight": (dim,),
            f"{at}k_norm.weight": (dim,),
        }
    at += "linear_attn."
    heads, values = (
        config.linear_num_value_heads,
        config.linear_num_value_heads * config.linear_value_head_dim,
    )
    return shapes | {
        f"{at}in_proj_qkv.weight": (config.conv_channels, width),
        f"{at}in_proj_z.weight": (values, width),
        f"{at}in_proj_b.weight": (heads, width),
        f"{at}in_proj_a.weight": (heads, width),
        f"{at}conv1d.weight": (config.conv_channels, 1, config.conv_kernel),
        f"{at}A_log": (heads,),
        f"{at}dt_bias": (heads,),
        f"{at}norm.weight": (config.linear_value_head_dim,),
        f"{at}out_proj.weight": (width, values),
    }


def _build_layer(config: ModelConfig, take: Take, at: str, kind: str) -> DecoderLayer:
    eps = config.rms_norm_eps
    mixer: GatedAttention | GatedDeltaNet
    if kind == "full_attention":
        names = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
        q, k, v, out, q_norm, k_norm = (take(f"{at}self_attn.{name}.weight") for name in names)
        mixer = GatedAttention.fuse(q, k, v, out, q_norm, k_norm, config.head_dim, eps)
    else:
        at_mixer = f"{at}linear_attn."
        mixer = GatedDeltaNet.fuse(
            *(take(f"{at_mixer}in_proj_{name}.weight") for name in ("qkv", "z", "b", "a")),
            conv=take(f"{at_mixer}conv1d.weight"),
            a_log=take(f"{at_mixer}A_log"),
            dt_bias=take(f"{at_mixer}dt_bias"),
            norm=take(f"{at_mixer}norm.weight"),
            out=take(f"{at_mixer}out_proj.weight"),
            num_k_heads=config.linear_num_key_heads,
            num_v_heads=config.linear_num_value_heads,
            k_dim=config.linear_key_head_dim,
            v_dim=config.linear_value_head_dim,
            eps=eps,
        )
    return DecoderLayer(
        input_norm=RMSNorm.zero_centred(take(f"{at}input_layernorm.weight"), eps),
        mixer=mixer,
        post_norm=RMSNorm.zero_centred(take(f"{at}post_attention_layernorm.weight"), eps),
        mlp=MLP.fuse(*(take(f"{at}mlp.{name}_proj.weight") for name in ("gate", "up", "down"))),
    )
