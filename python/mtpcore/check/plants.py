"""The named faults of `mtpcore check --plant`, each with the one case that can see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mtpcore.check import faults_draft as draft
from mtpcore.check import faults_state as state

if TYPE_CHECKING:
    from collections.abc import Callable

BASE: dict[str, Any] = {
    "mtp_step": 3,
    "prefix": "off",
    "batch": 8,
    "chunk": 64,
    "overlap_depth": 1,
    "preempted": False,
    "sampling": "greedy",
    "ending": "length",
}


@dataclass(frozen=True)
class Plant:
    """`inject(engine)` breaks a live engine; `case` are the axis values that differ from BASE."""

    name: str
    fault: str
    inject: Callable[[Any], None]
    case: dict[str, Any]

    def choice(self) -> dict[str, Any]:
        """The axis values of the case that sees the fault."""
        return BASE | self.case


PLANTS = {
    plant.name: plant
    for plant in (
        Plant(
            "conv-not-rolled-back",
            "conv inputs of rejected drafts stay in the window",
            state.conv_not_rolled_back,
            {},
        ),
        Plant(
            "ssm-not-rolled-back",
            "the state has consumed rejected drafts",
            state.ssm_not_rolled_back,
            {},
        ),
        Plant(
            "accepted-index-not-advanced",
            "the live state stays that of the round's first row",
            state.accepted_index_not_advanced,
            {},
        ),
        Plant(
            "state-not-reset-on-reuse",
            "a request starts from the state of the row's last owner",
            state.state_not_reset_on_reuse,
            {"batch": "ragged"},
        ),
        Plant(
            "state-reset-between-chunks",
            "the second chunk of a prompt starts from an empty state",
            state.state_reset_between_chunks,
            {"chunk": 24},
        ),
        Plant(
            "checkpoint-one-token-late",
            "a prompt's checkpoint holds the state of one token more",
            state.checkpoint_one_token_late,
            {"prefix": "hit"},
        ),
        Plant(
            "turn-checkpoint-one-token-early",
            "the checkpoint at the end of a turn misses its last token",
            state.turn_checkpoint_one_token_early,
            {"prefix": "hit"},
        ),
        Plant(
            "restored-from-wrong-row",
            "a hit restores a neighbouring checkpoint",
            state.restored_from_wrong_row,
            {"prefix": "hit"},
        ),
        Plant(
            "conv-not-restored",
            "a hit restores the state but not the conv inputs",
            state.conv_not_restored,
            {"prefix": "hit"},
        ),
        Plant(
            "checkpoint-hidden-stale",
            "a hit samples from the hidden row of another checkpoint",
            state.checkpoint_hidden_stale,
            {"prefix": "hit", "batch": 1},
        ),
        Plant(
            "partial-page-not-copied",
            "a hit inside a page misses that page's keys",
            state.partial_page_not_copied,
            {"prefix": "hit", "batch": 1},
        ),
        Plant(
            "page-freed-early",
            "a page that is in use goes to another request",
            state.page_freed_early,
            {},
        ),
        Plant(
            "wrong-page-in-table",
            "an entry of the page table repeats another",
            state.wrong_page_in_table,
            {"batch": 1},
        ),
        Plant(
            "kv-position-off-by-one",
            "decode rows turn and look one position too far",
            state.kv_position_off_by_one,
            {"batch": 1},
        ),
        Plant(
            "noise-position-off-by-one",
            "the target's noise is that of the next output position",
            draft.noise_position_off_by_one,
            {"sampling": "seeded"},
        ),
        Plant(
            "seed-ignored",
            "every request is sampled with seed 0",
            draft.seed_ignored,
            {"sampling": "seeded"},
        ),
        Plant(
            "resumed-noise-restarts",
            "after a preemption the output position starts at 0",
            draft.resumed_noise_restarts,
            {"sampling": "seeded", "preempted": True},
        ),
        Plant(
            "stop-clamp-skipped",
            "stop ids are forgotten on the device",
            draft.stop_clamp_skipped,
            {"ending": "stop"},
        ),
        Plant(
            "length-clamp-late",
            "the device allows one token more than max_tokens",
            draft.length_clamp_late,
            {},
        ),
        Plant(
            "drafts-kept-from-last-round",
            "a round verifies the drafts of the round before",
            draft.drafts_kept_from_last_round,
            {},
        ),
        Plant(
            "drafts-kept-from-last-request",
            "a request's first round verifies drafts of the row's last owner",
            draft.drafts_kept_from_last_request,
            {"batch": "ragged"},
        ),
        Plant(
            "stale-mtp-slot",
            "the MTP head keeps drafted entries where tokens were accepted",
            draft.stale_mtp_slot,
            {},
        ),
        Plant(
            "draft-hidden-one-token-late",
            "the MTP head is fed the hidden row of the wrong token",
            draft.draft_hidden_one_token_late,
            {},
        ),
    )
}
