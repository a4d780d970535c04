"""The transformers model of a tiny checkpoint, as the oracle of logits."""

from __future__ import annotations

import torch
from tiny import TinySpec, tiny_config, tiny_tensors
from torch import Tensor
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM


def oracle_model(spec: TinySpec, dtype: torch.dtype = torch.float32) -> Qwen3_5ForCausalLM:
    """Every weight is loaded by name; a name that does not fit fails here."""
    content = tiny_config(spec)
    content = content.get("text_config", content)
    content = {key: value for key, value in content.items() if key != "model_type"}
    model = Qwen3_5ForCausalLM._from_config(
        Qwen3_5TextConfig(**content), attn_implementation="eager", dtype=torch.float32
    )
    weights = {}
    for name, value in tiny_tensors(spec).items():
        if name.startswith(("mtp.", "model.visual.")):
            continue
        if name.startswith(spec.prefix):
            weights["model." + name.removeprefix(spec.prefix)] = value
        else:
            weights["lm_head.weight"] = value
    if spec.tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model.load_state_dict(weights, strict=True)
    return model.to(dtype).eval()


def oracle_logits(model: Qwen3_5ForCausalLM, tokens: list[int]) -> Tensor:
    """float32 [len(tokens), V], one forward without a cache."""
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float()
