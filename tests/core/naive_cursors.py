"""Naive rows in memory, one for each way to store a recurrent state, and a naive draft window.

Nothing here counts modulo anything or keeps cursors: a row holds token lists where a device holds
states, and says which slots it used. A state is the list of the tokens that it has consumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KEPT = 3  # conv columns that a kernel of width 4 looks back on
START = ["conv-of-nothing"] * KEPT


@dataclass
class NaiveRow:
    """One row: `width` is T, `capacity` is L."""

    mode: str
    width: int
    capacity: int
    committed: list[int] = field(default_factory=list)
    # (slot, token) of committed records that no state has consumed, oldest first.
    pending: list[tuple[int, int]] = field(default_factory=list)
    next_slot: int = 0
    live: int = 0
    next_token: int = 0

    def __post_init__(self) -> None:
        slots = self.width if self.mode == "native" else 1
        ring = {"native": 0, "compact": self.width, "replay": self.capacity + self.width}
        self.states: list[list[int] | None] = [[]] + [None] * (slots - 1)
        self.records: list[int | None] = [None] * ring[self.mode]
        self.conv: list[object] = [*START, *[None] * (self.width - 1)]

    def state(self) -> list[int]:
        state = self.states[self.live if self.mode == "native" else 0]
        assert state is not None
        return state

    def window(self, tokens: list[int]) -> list[object]:
        return [*START, *tokens][-KEPT:]

    def fold(self) -> list[int]:
        """Everything pending goes into the state; gives the slots."""
        slots = [slot for slot, _ in self.pending]
        self.states[0] = self.state() + [token for _, token in self.pending]
        self.pending = []
        return slots

    def draw(self, count: int) -> list[int]:
        self.next_token += count
        return list(range(self.next_token - count, self.next_token))

    def slots_from(self, count: int) -> list[int]:
        """The next record slots, going round."""
        slots, slot = [], self.next_slot
        for _ in range(count):
            slots.append(slot)
            slot = 0 if slot + 1 == len(self.records) else slot + 1
        return slots

    def begin(self, count: int) -> list[int]:
        """Slots folded at the start of a decode step of `count` rows."""
        full = self.mode == "replay" and count > 0
        return self.fold() if full and len(self.pending) + count > self.capacity else []

    def run(self, tokens: list[int]) -> list[int]:
        """Writes a state or a record for each row; gives the slots."""
        if self.mode == "native":
            base = list(self.state())
            for row in range(len(tokens)):
                self.states[row] = base + tokens[: row + 1]
            return list(range(len(tokens)))
        slots = list(range(len(tokens)))
        if self.mode == "replay":
            slots = self.slots_from(len(tokens))
            held = {slot for slot, _ in self.pending}
            assert not held & set(slots), "a row is written over a pending record"
        for slot, token in zip(slots, tokens, strict=True):
            self.records[slot] = token
        return slots

    def accept(self, slots: list[int], tokens: list[int], count: int) -> None:
        """Commits the first `count` rows."""
        if count == 0:
            return
        kept = tokens[:count]
        self.conv = [*self.window(self.committed), *tokens][1:]
        self.committed += kept
        self.live = count - 1
        if self.mode == "compact":
            self.states[0] = self.state() + kept
        if self.mode == "replay":
            self.pending += zip(slots[:count], kept, strict=True)
            self.next_slot = self.slots_from(count + 1)[-1]

    def prefill(self, tokens: list[int]) -> list[int]:
        """A chunk; gives the slots folded before it."""
        if not tokens:
            return []
        folded = self.fold()
        state = self.state() + tokens
        self.committed += tokens
        self.live = 0
        self.states[0] = state
        self.conv = self.window(self.committed)
        return folded

    def cursor(self) -> dict[str, int]:
        """What the core's cursor must be."""
        start = self.pending[0][0] if self.pending else self.next_slot
        return {
            "accepted": self.live,
            "history_start": start,
            "history_len": len(self.pending),
        }


@dataclass
class NaiveWindow:
    """All positions whose rows were written or restored, in a ring of `size` rows."""

    size: int
    rows: dict[int, int] = field(default_factory=dict)  # ring row -> position
    known: list[int] = field(default_factory=list)  # positions, ascending
    end: int = 0

    def restore(self, boundary: int, count: int) -> None:
        self.known = list(range(boundary - count, boundary))
        self.rows = dict(enumerate(self.known))
        self.end = boundary

    def visible(self) -> list[int]:
        """The last positions that may be attended to."""
        return self.known[-self.size :]

    def commit(self, first: int, count: int, rows: dict[int, int]) -> list[int]:
        """Writes positions first..first + count at the ring rows given; gives those written."""
        positions = list(range(first, first + count))
        self.end = max(self.end, first + count)
        start = self.known[0] if self.known else first
        self.known = sorted({*self.known, *[p for p in positions if p >= start]})
        written = [p for p in positions if p >= start and p > self.end - 1 - self.size]
        for position in written:
            self.rows[rows[position]] = position
        return written
