"""Training batches: passes over the text with random cuts, mixed with conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 4096
SIZES, ODDS = (512, 1024, 2048, 4096), (0.2, 0.3, 0.35, 0.15)
SOURCES = ("shakespeare", "kjv", "austen")


class Data:
    """data.npz on a device."""

    def __init__(self, path: Path, device: torch.device) -> None:
        with np.load(path) as arrays:
            self.text = torch.from_numpy(arrays["text"].astype(np.int64)).to(device)
            self.chat = torch.from_numpy(arrays["chat"].astype(np.int64)).to(device)
            self.chat_starts = torch.from_numpy(arrays["chat_starts"])
            self.held = {
                name: torch.from_numpy(arrays[f"held_{name}"].astype(np.int64)).to(device)
                for name in SOURCES
            }


def conversations(data: Data, rows: int, size: int, generator: torch.Generator) -> Tensor:
    """[rows, size], each from the beginning of a random conversation on."""
    usable = int((data.chat_starts < len(data.chat) - size).sum())
    picks = torch.randint(usable, (rows,), generator=generator)
    return torch.stack([data.chat[s : s + size] for s in data.chat_starts[picks].tolist()])


def batches(data: Data, epochs: int, chunks: int, chat: float, seed: int) -> Iterator[Tensor]:
    """Batches of `chunks` x CHUNK tokens as [rows, size]; a share `chat` is conversation.

    An epoch cuts the text at a fresh offset and takes each piece once; the sequence length of a
    batch is drawn from SIZES.
    """
    generator = torch.Generator().manual_seed(seed)
    odds = torch.tensor(ODDS)
    for _ in range(epochs):
        offset = int(torch.randint(CHUNK, (1,), generator=generator))
        count = (len(data.text) - offset) // CHUNK
        pieces = data.text[offset : offset + count * CHUNK].view(count, CHUNK)
        order = torch.randperm(count, generator=generator)
        at = 0
        while at < count:
            size = SIZES[int(torch.multinomial(odds, 1, generator=generator))]
            talk = int(torch.rand(chunks, generator=generator).lt(chat).sum().clamp(max=chunks - 1))
            taken = order[at : at + chunks - talk]
            if len(taken) < chunks - talk:
                break
            at += chunks - talk
            rows = [pieces[taken].reshape(-1, size)]
            if talk:
                rows.append(conversations(data, talk * CHUNK // size, size, generator))
            yield torch.cat(rows)


def held_windows(tokens: Tensor, size: int) -> Tensor:
    """Windows of `size` tokens one after the other, [n, size]; the rest is left out."""
    count = len(tokens) // size
    return tokens[: count * size].view(count, size)
