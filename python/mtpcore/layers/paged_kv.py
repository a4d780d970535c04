"""Paged keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from ..state.zeros import zeros


class PagedKV:
    """One tensor [num_pages, page_size, 2, num_kv_heads, head_dim] for each kv_slot.

    `num_pages` counts the null page 0. The last slot is the MTP head's where there is one.
    """

    def __init__(
        self,
        num_layers: int,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if num_pages < 2:
            raise ValueError(f"num_pages is {num_pages}; the null page and one more are the least")
        if page_size < 1:
            raise ValueError(f"page_size is {page_size}; it must be at least 1")
        shape = (num_pages, page_size, 2, num_kv_heads, head_dim)
        self.page_size = page_size
        self.layers = [zeros(shape, dtype, device) for _ in range(num_layers)]

    def __getitem__(self, kv_slot: int) -> Tensor:
        return self.layers[kv_slot]

    def __len__(self) -> int:
        return len(self.layers)

    def num_bytes(self) -> int:
        """Storage bytes of all layers."""
        return sum(layer.untyped_storage().nbytes() for layer in self.layers)

    def store(self, kv_slot: int, slot_mapping: Tensor, key: Tensor, value: Tensor) -> None:
        """Write key and value [M, Hkv, d] to int64 [M] slots; 0 takes what is not to be kept."""
        layer = self.layers[kv_slot]
        layer.flatten(0, 1)[slot_mapping] = torch.stack((key, value), 1)

    def copy_pages(self, source: Tensor, target: Tensor) -> None:
        """Copy whole pages in every layer; int64 [n] each."""
        for layer in self.layers:
            layer.index_copy_(0, target, layer.index_select(0, source))
