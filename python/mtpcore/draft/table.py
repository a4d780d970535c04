"""Kinds of drafter, as data."""

from __future__ import annotations

from dataclasses import dataclass

MAX_MTP_STEP = 7


@dataclass(frozen=True)
class Drafter:
    """`runs`: implemented. `own_kv`: keeps keys and values in the pages of the target.
    `max_step`: most drafts a round."""

    name: str
    runs: bool
    own_kv: bool
    max_step: int


DRAFTERS = {
    drafter.name: drafter
    for drafter in (
        Drafter("none", runs=True, own_kv=False, max_step=0),
        Drafter("mtp", runs=True, own_kv=True, max_step=MAX_MTP_STEP),
        Drafter("ngram", runs=False, own_kv=False, max_step=MAX_MTP_STEP),
        Drafter("dflash", runs=False, own_kv=False, max_step=MAX_MTP_STEP),
        Drafter("dflash2", runs=False, own_kv=False, max_step=MAX_MTP_STEP),
        Drafter("dspark", runs=False, own_kv=False, max_step=MAX_MTP_STEP),
    )
}


def check_drafter(mtp_mode: str, mtp_step: int) -> Drafter:
    """The drafter of a resolved mode. ValueError names the setting and the way out."""
    drafter = DRAFTERS.get(mtp_mode)
    running = ", ".join(name for name, entry in DRAFTERS.items() if entry.runs)
    if drafter is None:
        raise ValueError(
            f"mtp_mode {mtp_mode!r} is unknown; set mtp_mode to one of auto, {running}"
        )
    if not drafter.runs:
        raise ValueError(
            f"mtp_mode {mtp_mode!r} does not run yet; set mtp_mode to one of auto, {running}"
        )
    if not 0 <= mtp_step <= drafter.max_step:
        raise ValueError(
            f"mtp_step is {mtp_step}, mtp_mode {mtp_mode!r} takes 0 to {drafter.max_step}; "
            "change one of the two"
        )
    return drafter
