"""Figures of a run, from the results' own counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtpcore.api import RequestOutput


@dataclass(frozen=True)
class Stats:
    """Totals over requests; the acceptance length counts the base token and is 1 without drafts."""

    tokens_per_s: float
    mean_acceptance_length: float
    acceptance_per_position: list[float]
    cached_tokens: int
    num_steps: int

    @classmethod
    def of(cls, results: list[RequestOutput], seconds: float) -> Stats:
        """Figures of requests that took `seconds` together."""
        tokens = sum(len(result.outputs[0].token_ids) for result in results)
        steps = drafted = 0
        offered: list[int] = []
        accepted: list[int] = []
        for result in results:
            counts = result.metrics.speculation
            steps += counts.num_steps
            drafted += counts.num_accepted
            _add(offered, counts.num_drafts_per_position)
            _add(accepted, counts.num_accepted_per_position)
        shares = [a / o if o else 0.0 for a, o in zip(accepted, offered, strict=True)]
        return cls(
            tokens_per_s=tokens / seconds,
            mean_acceptance_length=1 + drafted / steps if steps else 1.0,
            acceptance_per_position=shares,
            cached_tokens=sum(result.num_cached_tokens for result in results),
            num_steps=steps,
        )


def _add(totals: list[int], counts: tuple[int, ...]) -> None:
    totals.extend([0] * (len(counts) - len(totals)))
    for position, count in enumerate(counts):
        totals[position] += count


def state_bytes_per_request(llm: Any) -> int:
    """Bytes of recurrent and conv state of one running request: a row of both pools."""
    state = llm.engine.worker.pools.state
    rows = (state.ssm[:, 0], state.conv[:, 0])
    return sum(row.numel() * row.element_size() for row in rows)
