"""Write a model in hub layout: bf16 safetensors in small shards, small parameters in float32."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from settings import Shape, hub_config
from torch import Tensor

SHARD_BYTES = 14_000_000
KEEP_FLOAT32 = ("A_log", "dt_bias")


def stored(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as the file holds them: float32 for the decay parameters, else bf16."""
    return {
        name: weight.detach().to("cpu", torch.float32 if keeps_float32(name) else torch.bfloat16)
        for name, weight in weights.items()
    }


def keeps_float32(name: str) -> bool:
    return name.endswith(KEEP_FLOAT32) or "norm" in name.rsplit(".", 2)[-2]


def save_weights(weights: dict[str, Tensor], out: Path) -> None:
    """Shards of at most SHARD_BYTES and their index; replaces what was there."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, weight in sorted(stored(weights).items()):
        if size + weight.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = weight.contiguous()
        size += weight.nbytes
    for old in out.glob("model*.safetensors"):
        old.unlink()
    places: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)
        places |= dict.fromkeys(shard, file)
    total = sum(weight.nbytes for shard in shards for weight in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
    (out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def save_config(out: Path) -> None:
    """config.json for the tokenizer that lies in `out`."""
    added = json.loads((out / "tokenizer.json").read_text())["added_tokens"]
    ids = {token["content"]: token["id"] for token in added}
    config = json.dumps(hub_config(Shape(), ids), indent=2)
    (out / "config.json").write_text(config + "\n")


def load_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of the shards in `folder`, as stored."""
    weights: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model*.safetensors")):
        with safe_open(file, "pt") as shard:
            weights |= {name: shard.get_tensor(name) for name in shard.keys()}  # noqa: SIM118
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="what train_mtp.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundled model")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    save_weights(load_file(args.weights), args.out)
    if (args.out / "tokenizer.json").exists():
        save_config(args.out)


if __name__ == "__main__":
    main()
