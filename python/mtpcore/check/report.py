"""The report of a check: its JSON fields and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtpcore.check.cases import AXES, MAX_TIE_SHARE

if TYPE_CHECKING:
    from mtpcore.check.cases import CaseResult


def report(results: list[CaseResult], axes: dict[str, list[Any]] | None = None) -> dict[str, Any]:
    """JSON fields: ok, cases, equal, ties, axes, failed[]; acceptance by kind of pass."""
    failed = [
        {
            "case": result.name,
            "first_difference": result.difference.index,
            "reason": f"{result.where}: {result.difference.reason}",
        }
        for result in results
        if result.difference is not None
    ]
    with_tie = sum(result.ties > 0 for result in results)
    if with_tie > MAX_TIE_SHARE * len(results):
        reason = f"{with_tie} of {len(results)} cases have a tie, more than 2 %"
        failed.append({"case": "all", "first_difference": -1, "reason": reason})
    return {
        "ok": not failed,
        "cases": len(results),
        "equal": sum(result.difference is None and not result.ties for result in results),
        "ties": with_tie,
        "axes": axes or AXES,
        "failed": failed,
        "requests": sum(result.requests for result in results),
        "acceptance_per_position": acceptance_by_kind(results),
    }


def acceptance_by_kind(results: list[CaseResult]) -> dict[str, list[float]]:
    """Share of verified drafts that were accepted, by draft position, for each kind of pass."""
    offered: dict[str, list[int]] = {}
    accepted: dict[str, list[int]] = {}
    for result in results:
        for totals, parts in ((offered, result.offered), (accepted, result.accepted)):
            for kind, counts in parts.items():
                total = totals.setdefault(kind, [0] * max(AXES["mtp_step"]))
                for j, count in enumerate(counts):
                    total[j] += count
    return {
        kind: [round(a / o, 3) for a, o in zip(accepted[kind], counts, strict=True) if o]
        for kind, counts in offered.items()
        if any(counts)
    }
