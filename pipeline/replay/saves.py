"""What a job has done and when it was saved: what a rollback takes back.

In: runs (one configuration at work, with regular saves) as they end, and saves that are made beside them.
Out: how long each configuration ran in vain when the job goes back to a save. Times are ticks.
A save counts when it has completed before the `horizon`: the instant of the fault, or earlier, when the write
must have reached durable storage or the state has been corrupt for some time (model.md section 7).
Easy to get wrong: a run may begin in the middle of an interval, after a stall that lost nothing. Its first
save then keeps the work of the runs before it, too.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.replay.packing import Setting

NEVER = 1 << 100


class Piece(NamedTuple):
    """Running time of one configuration: `many` times `ticks`, saved at `first` and then every `every`."""

    setting: Setting
    ticks: int
    first: int = NEVER
    every: int = 1
    many: int = 1

    def saved_before(self, horizon: int) -> int:
        """Return how many of the parts were saved before an instant."""
        return max(0, min(self.many, (horizon - self.first - 1) // self.every + 1))

    @property
    def last(self) -> int:
        """When the last part was saved."""
        return self.first + (self.many - 1) * self.every


class Saves:
    """The work that a rollback may still take back, in order."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def ran(self, setting: Setting, ticks: int, first: int = NEVER, every: int = 1, many: int = 1) -> None:
        """Add running time and when it was saved; NEVER: not yet."""
        if ticks and many:
            self.pieces.append(Piece(setting, ticks, first, every, many))

    def save(self, tick: int) -> None:
        """Note that a save has completed: it keeps all that was not saved yet."""
        self.pieces = [piece._replace(first=tick) if piece.first == NEVER else piece for piece in self.pieces]

    def roll_back(self, horizon: int) -> list[tuple[Setting, int]]:
        """Go back to the last save that completed before an instant; return what ran in vain since then."""
        lost, kept = [], []
        for piece in self.pieces:
            many = piece.saved_before(horizon)
            if many < piece.many:
                lost.append((piece.setting, (piece.many - many) * piece.ticks))
            if many:
                kept.append(piece._replace(many=many))
        self.pieces = kept
        return lost

    def forget(self, horizon: int) -> None:
        """Drop what no rollback can take back: all that was saved before an instant."""
        self.pieces = [piece for piece in self.pieces if piece.last >= horizon]
