"""The storage modes of a recurrent state, as one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_MODES = ("native", "compact", "replay")


@dataclass(frozen=True)
class ModeEntry:
    """`slots` gives the states that a row keeps for a number of drafts."""

    slots: Callable[[int], int]


MODE_TABLE = {"native": ModeEntry(slots=lambda mtp_step: mtp_step + 1)}


def check_mode(mode: str) -> None:
    """ValueError unless `mode` can run."""
    if mode in MODE_TABLE:
        return
    if mode in STATE_MODES or mode == "auto":
        raise ValueError(
            f"ssm_state_mode {mode!r} does not run yet; set ssm_state_mode to 'native'"
        )
    raise ValueError(f"ssm_state_mode {mode!r} is unknown; set ssm_state_mode to 'native'")


def slots_per_row(mode: str, mtp_step: int) -> int:
    """Full states that one row keeps in `mode`."""
    check_mode(mode)
    return MODE_TABLE[mode].slots(mtp_step)
