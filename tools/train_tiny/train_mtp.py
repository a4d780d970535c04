"""Train the MTP head, trunk frozen: KL to the trunk at each of several steps ahead."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from acceptance import accepted, matches, right
from batches import CHUNK, Data, batches, held_windows
from decode import generate
from delta import DeltaRule, kernel_agrees
from export import stored
from model import TinyModel
from pace import Pace, rate
from resume import replace
from safetensors.torch import load_file
from settings import Shape
from torch import Tensor, nn
from train_trunk import autocast, held_loss, optimisers
from unroll import unroll

SIZE = 512
PROMPT = 32
TEMPERATURES = (0.0, 0.7, 1.0, 1.0)


def own_texts(model: TinyModel, data: Data, rows: int, seed: int) -> Tensor:
    """[rows, SIZE] by the trunk itself, after PROMPT tokens of text or of a conversation."""
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(len(data.text) - PROMPT, (rows,), generator=generator)
    prompts = torch.stack([data.text[i : i + PROMPT] for i in picks.tolist()])
    usable = int((data.chat_starts < len(data.chat) - PROMPT).sum())
    talk = torch.randint(usable, (rows // 4,), generator=generator)
    for row, start in enumerate(data.chat_starts[talk].tolist()):
        prompts[row * 4 + row % 4] = data.chat[start : start + PROMPT]
    temperature = torch.tensor(TEMPERATURES, device=prompts.device)
    temperature = temperature[torch.randint(len(TEMPERATURES), (rows,), generator=generator)]
    return generate(model, prompts, SIZE, temperature, seed)


def mtp_loss(model: TinyModel, tokens: Tensor, steps: int, hard: float) -> Tensor:
    """Mean over steps of KL to the trunk plus `hard` times the cross entropy of its best token."""
    with torch.no_grad():
        hidden = model.model(tokens)
        goal = model.head(hidden).float().log_softmax(-1)
        best = goal.argmax(-1)
    total = torch.zeros((), device=tokens.device)
    for k, row in enumerate(unroll(model, hidden, tokens, steps), 1):
        found = model.head(row).float().log_softmax(-1)
        soft = (goal[:, k:].exp() * (goal[:, k:] - found)).sum(-1).mean()
        picked = -found.gather(-1, best[:, k:, None]).mean()
        total = total + soft + hard * picked
    return total / steps


def report(model: TinyModel, data: Data) -> dict[str, list[float]]:
    """Acceptance on held-out text and on what the trunk itself writes after it."""
    windows = torch.cat([held_windows(t, SIZE)[:32] for t in data.held.values()])
    prompts = windows[:96, :64]
    lengths = len(prompts), 64 + 192
    cold = generate(model, prompts, lengths[1], torch.zeros(len(prompts), device=prompts.device), 5)
    warm = generate(model, prompts, lengths[1], torch.ones(len(prompts), device=prompts.device), 5)
    return {
        "text_right": right(matches(model, windows, 8)),
        "greedy_accepted": accepted(matches(model, cold, 64)),
        "sampled_accepted": accepted(matches(model, warm, 64, warm)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--trunk", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="safetensors file, float32")
    parser.add_argument("--head", type=Path, help="start from the head in this file")
    parser.add_argument("--steps", type=int, default=1500, help="optimiser steps")
    parser.add_argument("--seconds", type=float, help="end the run, schedule included, by then")
    parser.add_argument("--ahead", type=int, default=5, help="steps unrolled while training")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--hard", type=float, default=0.1)
    parser.add_argument("--rows", type=int, default=64, help="sequences a step")
    parser.add_argument("--own", type=int, default=8192, help="sequences by the trunk itself")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pace = Pace(args.steps, args.seconds)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    DeltaRule.use_kernel = kernel_agrees(device)
    torch.manual_seed(args.seed)
    data = Data(args.data, device)
    model = TinyModel(Shape()).to(device)
    weights = stored(load_file(args.trunk))
    model.model.load_state_dict(
        {n.removeprefix("model."): w.float() for n, w in weights.items() if n.startswith("model.")}
    )
    model.model.requires_grad_(False).eval()
    if args.head:
        head = {n: w for n, w in load_file(args.head).items() if n.startswith("mtp.")}
        model.load_state_dict(head, strict=False)
    own = torch.cat(
        [
            own_texts(model, data, min(2048, args.own), args.seed + i)
            for i in range(max(1, args.own // 2048))
        ]
    )
    print(f"{own.numel()} tokens by the trunk, {pace.seconds():.0f} s", flush=True)
    found = optimisers(model.mtp, "muon", args.lr, args.decay)
    texts = batches(data, 10**6, max(2, args.rows * SIZE // CHUNK), 0.2, args.seed)
    draw = torch.Generator().manual_seed(args.seed)
    log = []
    for size in (SIZE, 2 * SIZE):
        with autocast(device):
            tokens = data.text[: args.rows * SIZE].view(-1, size)
            mtp_loss(model, tokens, args.ahead, args.hard).backward()
    model.zero_grad(set_to_none=True)
    pace.go()
    step, progress = 0, pace.progress(0)
    while progress < 1:
        if step % 5 < 3:
            tokens = own[torch.randint(len(own), (args.rows,), generator=draw)]
        else:
            tokens = next(texts)
            tokens = tokens.reshape(-1, min(tokens.shape[1], 2 * SIZE))
        for optimiser in found:
            for group in optimiser.param_groups:
                group["lr"] = args.lr * rate(step, progress)
        with autocast(device):
            loss = mtp_loss(model, tokens, args.ahead, args.hard)
        loss.backward()
        nn.utils.clip_grad_norm_(model.mtp.parameters(), 1.0)
        for optimiser in found:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        step += 1
        progress = pace.progress(step)
        if step % 200 and progress < 1:
            continue
        log.append({"step": step, "loss": loss.item()})
        print(json.dumps(log[-1]), f"{pace.seconds():.0f} s", flush=True)
        replace(args.out, model.state_dict())
    pace.look()
    model.load_state_dict({n: w.float() for n, w in stored(model.state_dict()).items()})
    log.append({"held_nats_per_token": held_loss(model, data), **report(model, data)})
    print(json.dumps(log[-1]), flush=True)
    pace.close()
    args.out.with_suffix(".json").write_text(json.dumps(log))


if __name__ == "__main__":
    main()
