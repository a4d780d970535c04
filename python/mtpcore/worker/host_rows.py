"""Host mirror of the sampling parameters that decide which ops a step needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..acceptance.process import PARTIAL_SORT_LIMIT

if TYPE_CHECKING:
    from .fields import HostFields


class HostRows:
    """By ``req_idx``: whether a request filters, by how much, and whether it has a stop bitmap.

    All of it comes from the plan's starts, so reading it never waits for the device.
    """

    def __init__(self, max_num_seqs: int) -> None:
        rows = max_num_seqs + 1
        self._top_k = np.zeros(rows, dtype=np.int64)
        self._filters = np.zeros(rows, dtype=bool)
        self._bitmap = np.zeros(rows, dtype=bool)

    def start(self, plan: HostFields, count: int) -> None:
        """Take over the parameters of the requests that start in this step."""
        req = plan["start_req_idx"][:count]
        top_k = plan["start_top_k"][:count]
        top_p = plan["start_top_p"][:count].view(np.float32)
        sampled = plan["start_temperature"][:count].view(np.float32) > 0
        self._top_k[req] = top_k
        self._filters[req] = sampled & ((top_k > 0) | (top_p < 1.0))
        self._bitmap[req] = plan["start_stop_bitmap"][:count] >= 0

    def max_top_k(self, req: np.ndarray) -> int | None:
        """Bound for ``process``: None without filters, 0 where a whole row must be sorted."""
        filters = self._filters[req]
        if not filters.any():
            return None
        top_k = self._top_k[req][filters]
        largest = int(top_k.max())
        return 0 if int(top_k.min()) == 0 or largest > PARTIAL_SORT_LIMIT else largest

    def any_bitmap(self, req: np.ndarray) -> bool:
        """Whether some of these requests has more than eight stop ids."""
        return bool(self._bitmap[req].any())
