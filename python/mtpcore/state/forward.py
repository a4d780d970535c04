"""Immutable description of one forward: which rows, which states, which keys.

Flattened token order: a rectangle of num_decode x width rows, request-major, then the prefill
spans back to back. Lengths of spans are known to the host; those of decode rows only to the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PrefillSpan:
    """Tokens start .. start + length - 1 of one request, at `offset` in the flattened order.

    `exports` holds (tokens consumed inside the span, 1..length; checkpoint row), ascending.
    The state is read from and left in slot 0 of the state row. `length` may be 0.
    """

    row: int
    req_idx: int
    state_idx: int
    start: int
    length: int
    offset: int
    exports: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class SSMForward:
    """Recurrent side of a forward; D = num_decode.

    All int64 [D]: dec_state_idx, dec_query_len (0..width, 0 = HOLD), dec_accepted (the slot of the
    live state).
    """

    num_decode: int
    width: int
    dec_state_idx: Tensor
    dec_query_len: Tensor
    dec_accepted: Tensor
    prefill: tuple[PrefillSpan, ...]


@dataclass(frozen=True)
class AttnSpan:
    """Positions start .. start + length - 1 of one request; page_table int64 [n], all valid."""

    page_table: Tensor
    start: int
    length: int
    offset: int


@dataclass(frozen=True)
class AttnForward:
    """Attention side of a forward.

    positions, slot_mapping: int64 [M]; slot = page * page_size + offset, 0 for a row that is not
    stored (a rectangle row with slot 0 sees no key and yields 0). dec_page_table: int64 [D, n].
    A row at position p sees keys first_key .. p (first_key is 1 for an MTP head, else 0).
    """

    positions: Tensor
    slot_mapping: Tensor
    num_decode: int
    width: int
    dec_page_table: Tensor
    spans: tuple[AttnSpan, ...]
    first_key: int = 0

    @property
    def dec_positions(self) -> Tensor:
        """int64 [D, W]."""
        return self.positions[: self.num_decode * self.width].view(self.num_decode, self.width)

    @property
    def dec_slots(self) -> Tensor:
        """int64 [D, W]."""
        return self.slot_mapping[: self.num_decode * self.width].view(self.num_decode, self.width)
