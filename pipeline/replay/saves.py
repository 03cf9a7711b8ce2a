"""What a job has done and when it was saved: what a rollback takes back.

In: work that was saved, with its saves, and work that was not. Out: how long each configuration ran in vain
when the job goes back to a save. Times are ticks.
A save counts when it has completed before the `horizon`: the instant of the fault, or earlier, when the write
must have reached durable storage or the state has been corrupt for some time (model.md section 7).
Easy to get wrong: the first save after a stall that lost nothing keeps the work of before the stall, too.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.replay.packing import Setting


class Saved(NamedTuple):
    """Running time of one configuration: `many` times `ticks`, saved at `first` and then every `every`."""

    setting: Setting
    ticks: int
    first: int
    every: int = 1
    many: int = 1

    def before(self, horizon: int) -> int:
        """Return how many of the parts were saved before an instant."""
        return max(0, min(self.many, (horizon - self.first - 1) // self.every + 1))

    @property
    def last(self) -> int:
        """When the last part was saved."""
        return self.first + (self.many - 1) * self.every


class Saves:
    """The work that a rollback may still take back: saved, in order, and not saved since then."""

    def __init__(self) -> None:
        self.saved: list[Saved] = []
        self.unsaved: list[tuple[Setting, int]] = []

    def complete(self, tick: int) -> None:
        """Note that a save has completed: it keeps all that was not saved yet."""
        self.saved += [Saved(setting, ticks, tick) for setting, ticks in self.unsaved]
        self.unsaved = []

    def roll_back(self, horizon: int) -> list[tuple[Setting, int]]:
        """Go back to the last save that completed before an instant; return what ran in vain since then."""
        lost, self.unsaved = self.unsaved, []
        if self.saved:
            kept = []
            for work in self.saved:
                many = work.before(horizon)
                if many < work.many:
                    lost.append((work.setting, (work.many - many) * work.ticks))
                if many:
                    kept.append(work._replace(many=many))
            self.saved = kept
        return lost

    def forget(self, horizon: int) -> None:
        """Drop what no rollback can take back: all that was saved before an instant."""
        self.saved = [work for work in self.saved if work.last >= horizon]
