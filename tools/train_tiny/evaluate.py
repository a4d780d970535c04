"""Measure the saved model on the CPU, apart from the training code, and keep or check metrics.json.

The trunk is transformers' class in float32 on the stored weights; the head is ReferenceHead.
Sampled text is drawn with Gumbel noise that the drafts share (drafter-invariant decoding, arXiv
2408.07978), as the engine does; drafts without noise are counted beside it.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from reference_head import ReferenceHead
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

SOURCES = ("shakespeare", "kjv", "austen")
WINDOW, SIZE, PROMPT, STEPS, ROWS = 1024, 256, 64, 7, 16
TEMPERATURES = (0.0, 0.7, 1.0)
TOLERANCE = {"loss": 0.02, "acceptance": 0.05}


def windows(tokens: np.ndarray, size: int) -> Tensor:
    count = len(tokens) // size
    return torch.from_numpy(tokens[: count * size].astype(np.int64)).view(count, size)


@torch.no_grad()
def loss(model: torch.nn.Module, rows: Tensor) -> float:
    """Nats a token over each window's tokens but the first."""
    total = 0.0
    for row in rows:
        logits = model(input_ids=row[None, :-1], use_cache=False).logits[0]
        total += torch.nn.functional.cross_entropy(logits.float(), row[1:]).item()
    return total / len(rows)


@torch.no_grad()
def write(
    model: torch.nn.Module, prompts: Tensor, temperature: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Tokens [rows, SIZE], the prompts and what the trunk writes after them, and the noise.

    A token is the best of logits + temperature * noise of its position; the noise
    [rows, SIZE, vocabulary] is standard Gumbel, so this samples, and temperature 0 is greedy.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = len(prompts), SIZE, model.config.vocab_size
    noise = torch.empty(shape).exponential_(generator=generator).log_().neg_()
    tokens, fresh, cache = prompts, prompts, None
    while tokens.shape[1] < SIZE:
        out = model(input_ids=fresh, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        drawn = out.logits[:, -1].float() + temperature * noise[:, tokens.shape[1]]
        fresh = drawn.argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, fresh], 1)
    return tokens, noise


@torch.no_grad()
def hits(
    model: torch.nn.Module,
    head: ReferenceHead,
    tokens: Tensor,
    target: Tensor | None = None,
    temperature: float = 0.0,
    noise: Tensor | None = None,
) -> Tensor:
    """[STEPS, anchors]: whether draft k is the token of `target`, else the trunk's greedy one."""
    out = model(input_ids=tokens, output_hidden_states=True, use_cache=False)
    if target is None:
        target = torch.cat([tokens[:, :1], out.logits.argmax(-1)[:, :-1]], 1)
    anchors = list(range(PROMPT, tokens.shape[1] - STEPS, 8))
    drafts = head.drafts(out.hidden_states[-1], tokens, anchors, STEPS, temperature, noise)
    wanted = [torch.stack([target[:, p + k] for p in anchors], 1) for k in range(1, STEPS + 1)]
    return (drafts == torch.stack(wanted)).flatten(1)


def acceptance(
    model: torch.nn.Module, head: ReferenceHead, texts: Tensor
) -> dict[str, dict[str, list[float] | float]]:
    """Shares on held-out text and on what the trunk itself writes after its beginnings."""
    found = {"held_out_text_greedy": shares(hits(model, head, texts))}
    for temperature in TEMPERATURES:
        tokens, noise = write(model, texts[:, :PROMPT], temperature, seed=5)
        name = f"own_text_temperature_{temperature:g}"
        if temperature:
            rows = hits(model, head, tokens, tokens, temperature, noise)
            found[f"{name}_shared_noise"] = shares(rows)
            found[f"{name}_argmax_drafts"] = shares(hits(model, head, tokens, tokens))
        else:
            found[name] = shares(hits(model, head, tokens, tokens))
    return found


def shares(found: Tensor) -> dict[str, list[float] | float]:
    """accepted[k]: drafts 1..k+1 all right; right[k]: draft k+1 right; mean tokens a step."""
    accepted = found.float().cumprod(0).mean(1)
    return {
        "accepted": [round(a, 4) for a in accepted.tolist()],
        "right": [round(a, 4) for a in found.float().mean(1).tolist()],
        "tokens_per_step_at_3": round(1 + accepted[:3].sum().item(), 3),
    }


def measure(folder: Path, data: Path, limit: int | None) -> dict[str, object]:
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    if info["missing_keys"] or info["mismatched_keys"]:
        raise SystemExit(f"the checkpoint does not fit transformers' class: {info}")
    model.eval()
    head = ReferenceHead(folder)
    arrays = np.load(data)
    held = {name: arrays[f"held_{name}"] for name in SOURCES}
    cut = {name: windows(tokens, WINDOW)[:limit] for name, tokens in held.items()}
    losses = {name: loss(model, rows) for name, rows in cut.items()}
    count = sum(len(rows) for rows in cut.values())
    nats = sum(losses[name] * len(rows) for name, rows in cut.items()) / count
    tokens = sum(len(t) for t in held.values())
    size = sum(int(arrays[f"held_{name}_bytes"]) for name in SOURCES)
    texts = torch.cat([windows(t, 2 * SIZE)[:ROWS, :SIZE] for t in held.values()])
    return {
        "held_out": {
            "tokens": tokens,
            "bytes": size,
            "nats_per_token": {n: round(x, 4) for n, x in losses.items()} | {"all": round(nats, 4)},
            "bits_per_byte": round(nats * tokens / size / math.log(2), 4),
        },
        "acceptance": acceptance(model, head, texts),
        "parameters": {
            "trunk": sum(p.numel() for p in model.parameters()),
            "mtp": sum(w.numel() for n, w in head.weights.items() if n.startswith("mtp.")),
        },
    }


def gaps(old: object, new: object, path: str = "") -> list[tuple[str, float]]:
    """Absolute differences of all numbers of two trees of one form."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            g for key in old.keys() & new.keys() for g in gaps(old[key], new[key], f"{path}.{key}")
        ]
    if isinstance(old, list) and isinstance(new, list):
        return [
            g
            for i, (a, b) in enumerate(zip(old, new, strict=True))
            for g in gaps(a, b, f"{path}.{i}")
        ]
    if isinstance(old, int | float) and isinstance(new, int | float):
        return [(path, abs(old - new))]
    return []


@torch.no_grad()
def samples(folder: Path, prompts: list[str]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    torch.manual_seed(1)
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        for choice in ({"do_sample": False}, {"do_sample": True, "temperature": 0.8, "top_k": 0}):
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=100, **choice
            )
            print("---", choice, repr(prompt))
            print(tokenizer.decode(out[0, ids.shape[1] :]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder of the bundled model")
    parser.add_argument("--data", type=Path, help="data.npz of prepare.py")
    parser.add_argument("--windows", type=int, help="at most so many held-out windows a source")
    parser.add_argument("--write", action="store_true", help="write metrics.json, do not compare")
    parser.add_argument("--sample", nargs="+", metavar="PROMPT", help="only continue these")
    args = parser.parse_args()
    if args.sample:
        samples(args.model, args.sample)
        return
    if args.data is None:
        parser.error("--data is needed to measure: prepare.py writes it")
    found = measure(args.model, args.data, args.windows)
    print(json.dumps(found, indent=1))
    path = args.model / "metrics.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if args.write:
        path.write_text(json.dumps(kept | found, indent=2) + "\n")
        return
    for part, limit in (("held_out", TOLERANCE["loss"]), ("acceptance", TOLERANCE["acceptance"])):
        for name, gap in gaps(kept[part], found[part]):
            if gap > limit:
                raise SystemExit(f"{part}{name} differs by {gap:.4f} from {path}")
    print("agrees with", path)


if __name__ == "__main__":
    main()
