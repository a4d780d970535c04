"""Drives a model through its paged, rectangular interface as a worker would, for tests.

All memory is poisoned with NaN first, pages are handed out in random order, and a decode step runs
any set of requests at once.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mtpcore.layers.paged_kv import PagedKV
from mtpcore.state import AttnForward, AttnSpan, ConvSSMState, PrefillSpan, SSMExecutor, SSMForward

if TYPE_CHECKING:
    from mtpcore.models import LoadedModel


class Driver:
    """Requests are numbered from 1; each has a state row, a page list and a committed length."""

    def __init__(
        self,
        model: LoadedModel,
        requests: int,
        mtp_step: int = 3,
        page_size: int = 4,
        pages: int = 24,
        seed: int = 0,
    ) -> None:
        config = model.config
        self.model, self.page_size = model, page_size
        layers = config.num_attn_layers + int(model.mtp is not None)
        total = requests * pages + 1
        self.kv = PagedKV(
            layers, total, page_size, config.num_key_value_heads, config.head_dim, model.dtype
        )
        self.state = ConvSSMState(
            config.state_shape(), requests, 6, mtp_step=mtp_step, dtype=model.dtype
        )
        self.executor = SSMExecutor("native")
        for layer in self.kv.layers:
            layer.fill_(float("nan"))
        for pool in (self.state.ssm, self.state.conv, self.state.ckpt_ssm, self.state.ckpt_conv):
            pool.fill_(float("nan"))
        order = list(range(1, total))
        random.Random(seed).shuffle(order)
        self.tables = [[0] * pages] + [order[i * pages : (i + 1) * pages] for i in range(requests)]
        self.rows = [0, *random.Random(seed + 1).sample(range(1, requests + 1), requests)]
        self.length = [0] * (requests + 1)
        self.accepted = [0] * (requests + 1)
        self.state.reset(torch.tensor(self.rows[1:]))

    def slot(self, request: int, position: int) -> int:
        page = self.tables[request][position // self.page_size]
        return page * self.page_size + position % self.page_size

    def attention(
        self,
        decode: list[tuple[int, int, int]],
        width: int,
        spans: list[tuple[int, int, int]],
        first_key: int = 0,
    ) -> AttnForward:
        """decode: (request, first position, rows run); spans: (request, start, length)."""
        positions, slots = [], []
        for request, start, count in decode:
            positions += [start + j for j in range(width)]
            slots += [self.slot(request, start + j) if j < count else 0 for j in range(width)]
        offset, parts = len(positions), []
        for request, start, length in spans:
            pages = -(-(start + length) // self.page_size)
            table = torch.tensor(self.tables[request][:pages], dtype=torch.int64)
            parts.append(AttnSpan(table, start, length, offset))
            positions += range(start, start + length)
            slots += [self.slot(request, p) for p in range(start, start + length)]
            offset += length
        ends = [start + count for _, start, count in decode]
        bound = -(-max([*ends, 1]) // self.page_size) + 1
        tables = torch.tensor([self.tables[r][:bound] for r, _, _ in decode], dtype=torch.int64)
        return AttnForward(
            torch.tensor(positions),
            torch.tensor(slots),
            len(decode),
            width,
            tables,
            tuple(parts),
            first_key,
        )

    def step(
        self,
        decode: list[tuple[int, list[int]]] | None = None,
        prefill: list[tuple[int, list[int]]] | None = None,
        width: int | None = None,
        exports: dict[int, tuple[tuple[int, int], ...]] | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run (request, tokens) rows and spans. Returns their hidden rows; prefill is committed."""
        decode, prefill, exports = decode or [], prefill or [], exports or {}
        width = width or max([len(tokens) for _, tokens in decode], default=1)
        ids = [token for _, tokens in decode for token in tokens + [0] * (width - len(tokens))]
        attn = self.attention(
            [(r, self.length[r], len(tokens)) for r, tokens in decode],
            width,
            [(r, self.length[r], len(tokens)) for r, tokens in prefill],
        )
        spans, offset = [], len(ids)
        for row, (request, tokens) in enumerate(prefill):
            where = exports.get(request, ())
            spans.append(
                PrefillSpan(
                    len(decode) + row,
                    request,
                    self.rows[request],
                    self.length[request],
                    len(tokens),
                    offset,
                    where,
                )
            )
            ids += tokens
            offset += len(tokens)
        requests = [r for r, _ in decode]
        ssm = SSMForward(
            len(decode),
            width,
            torch.tensor([self.rows[r] for r in requests], dtype=torch.int64),
            torch.tensor([len(tokens) for _, tokens in decode], dtype=torch.int64),
            torch.tensor([self.accepted[r] for r in requests], dtype=torch.int64),
            tuple(spans),
        )
        hidden = self.model.target.forward(
            torch.tensor(ids), attn, ssm, self.kv, self.state, self.executor
        )
        assert torch.isfinite(hidden).all()
        for request, tokens in prefill:
            self.length[request] += len(tokens)
            self.accepted[request] = 0
        rows = [hidden[i * width : i * width + len(tokens)] for i, (_, tokens) in enumerate(decode)]
        return rows, [hidden[s.offset : s.offset + s.length] for s in spans]

    def accept(self, request: int, count: int) -> None:
        """Commit the first `count` rows of the request's last decode step."""
        self.length[request] += count
        self.accepted[request] = count - 1

    def run_whole(self, request: int, tokens: list[int]) -> Tensor:
        """Hidden rows of one sequence, prefilled in one span."""
        return self.step(prefill=[(request, tokens)])[1][0]
