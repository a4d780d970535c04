"""Train the trunk on data.npz and keep the weights with the best held-out loss."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from batches import CHUNK, SIZES, Data, batches, held_windows
from delta import DeltaRule, kernel_agrees
from model import TinyModel
from pace import Pace, rate
from resume import load_state, replace, save_state
from settings import Shape
from torch import Tensor, nn

WINDOW = 1024
LOOK = 100


def autocast(device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda")


def trunk_loss(model: TinyModel, tokens: Tensor, dropout: float) -> Tensor:
    hidden = model.model(tokens[:, :-1], dropout)
    logits = model.head(hidden).flatten(0, 1)
    return F.cross_entropy(logits.float(), tokens[:, 1:].flatten())


@torch.no_grad()
def held_loss(model: TinyModel, data: Data, rows: int = 16) -> dict[str, float]:
    """Mean nats a token over held-out windows of WINDOW tokens, a source each and all."""
    model.eval()
    total, count, losses = 0.0, 0, {}
    for name, tokens in data.held.items():
        windows = held_windows(tokens, WINDOW)
        parts = [trunk_loss(model, w, 0.0).item() * len(w) for w in windows.split(rows)]
        losses[name] = sum(parts) / len(windows)
        total, count = total + sum(parts), count + len(windows)
    return losses | {"all": total / count}


def optimisers(model: nn.Module, kind: str, lr: float, decay: float) -> list[torch.optim.Optimizer]:
    """AdamW for all, or Muon for the inner matrices and AdamW for the rest."""
    inner, matrices, small = [], [], []
    for name, weight in model.named_parameters():
        if weight.dim() < 2 or "conv1d" in name:
            small.append(weight)
        elif kind == "muon" and "embed" not in name and min(weight.shape) > 8:
            inner.append(weight)
        else:
            matrices.append(weight)
    groups = [{"params": matrices, "weight_decay": decay}, {"params": small, "weight_decay": 0.0}]
    fused = next(model.parameters()).is_cuda
    found: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=fused)
    ]
    if inner:
        found.append(
            torch.optim.Muon(inner, lr=lr, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        )
    return found


def build_kernels(model: TinyModel, data: Data, chunks: int, dropout: float) -> None:
    """One pass at every shape that the run will see, so that later no step waits for a compiler."""
    for size in SIZES:
        tokens = data.text[: CHUNK * chunks].view(-1, size)
        with autocast(tokens.device):
            trunk_loss(model.train(), tokens, dropout).backward()
    model.zero_grad(set_to_none=True)
    with autocast(data.text.device):
        held_loss(model, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="safetensors file, float32")
    parser.add_argument("--epochs", type=float, default=16)
    parser.add_argument("--optimiser", choices=("adamw", "muon"), default="muon")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.4)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--chat", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=None, help="in place of --epochs")
    parser.add_argument("--seconds", type=float, help="end the run, schedule included, by then")
    parser.add_argument(
        "--resume", action="store_true", help="go on from OUT's .state if it is there"
    )
    args = parser.parse_args()
    pace = Pace(args.steps or 10**9, args.seconds)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    DeltaRule.use_kernel = kernel_agrees(device)
    torch.manual_seed(args.seed)
    data = Data(args.data, device)
    model = TinyModel(Shape()).to(device)
    found = optimisers(model.model, args.optimiser, args.lr, args.decay)
    steps = int(args.epochs * len(data.text) / (CHUNK * args.chunks * (1 - args.chat)))
    pace.steps = args.steps or steps
    kept = {"step": 0.0, "progress": 0.0, "best": math.inf}
    state = args.out.with_suffix(".state")
    if args.resume and state.exists():
        kept = load_state(state, model, found, device)
        print("goes on from", kept, flush=True)
    step, best, log = int(kept["step"]), kept["best"], []
    # A resumed run draws other batches than an unbroken one: it does not replay the generator.
    stream = batches(data, 10**6, args.chunks, args.chat, args.seed + step)
    build_kernels(model, data, args.chunks, args.dropout)
    pace.go(kept["progress"])
    progress, ran = pace.progress(step), False
    while progress < 1:
        tokens = next(stream)
        model.train()
        for optimiser in found:
            for group in optimiser.param_groups:
                group["lr"] = args.lr * rate(step, progress)
        with autocast(device):
            loss = trunk_loss(model, tokens, args.dropout)
        loss.backward()
        nn.utils.clip_grad_norm_(model.model.parameters(), 1.0)
        for optimiser in found:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        step, ran = step + 1, True
        progress = pace.progress(step)
        if step % LOOK and progress < 1:
            continue
        pace.look()
        with autocast(device):
            held = held_loss(model, data)
        log.append({"step": step, "train": loss.item(), **held})
        print(json.dumps(log[-1]), f"{pace.seconds():.0f} s", flush=True)
        if held["all"] < best:
            best = held["all"]
            replace(args.out, model.state_dict())
        save_state(state, model, found, {"step": step, "progress": progress, "best": best})
    pace.close()
    if not ran:
        raise SystemExit("no step was made: the limit is over, or the run was complete already")
    args.out.with_suffix(".json").write_text(json.dumps(log))


if __name__ == "__main__":
    main()
