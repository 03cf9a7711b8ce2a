"""Errors that were easy to make, each as exact replacements of source text.

Every one of them yields a ledger that adds up and looks plausible; only the reference simulator tells.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """Replacements (old, new) in one file of the tree, and the battery that must notice."""

    file: str
    replacements: tuple[tuple[str, str], ...]
    battery: str = "engine"


ENGINE, PACKING = "pipeline/replay/engine.py", "pipeline/replay/packing.py"
PACKED, FIXED = "pipeline/replay/packed.py", "pipeline/replay/fixed.py"
CONTRACT, SAVES = "pipeline/replay/contract.py", "pipeline/replay/saves.py"
SQL = "queries/2_timelines"

MUTATIONS = {
    "a save that completes at the instant of a fault counts": Mutation(
        ENGINE,
        (("(max(0, wall - 1) if fault else wall) // cycle", "wall // cycle"),),
    ),
    "a start that completes at the instant of a fault is done first": Mutation(
        ENGINE,
        (("while self.until < tick:", "while self.until <= tick:"),),
    ),
    "an interrupted save for a change counts": Mutation(
        ENGINE,
        (
            (
                "self.state, self.until = SAVING",
                "self.saves.complete(self.now)\n            self.state, self.until = SAVING",
            ),
        ),
    ),
    "the highest GPUs are in use, not the lowest": Mutation(
        ENGINE,
        (
            (
                "mask = healthy & ((1 << reach) - 1)",
                "mask = healthy & ~((1 << max(0, healthy.bit_length() - reach)) - 1)",
            ),
        ),
    ),
    "a repaired GPU is in use at once": Mutation(
        ENGINE,
        (("self.chosen_down.get(domain, self.down.get(domain, 0))", "self.down.get(domain, 0)"),),
    ),
    "of several faults the last that is noticed stops the job": Mutation(
        ENGINE,
        (("detect = min(self.times.detect_by", "detect = max(self.times.detect_by"),),
    ),
    "saves since a silent fault count": Mutation(
        ENGINE,
        (("min(fault.onset, self.now - self.times.durable)", "self.now - self.times.durable"),),
    ),
    "a fault of the application needs a durable save": Mutation(
        ENGINE,
        (("if fault.struck else fault.onset", "if fault.struck else fault.onset - self.times.durable"),),
    ),
    "a GPU is down before its silent fault is found": Mutation(
        ENGINE,
        (("mask & ~self._hidden(domain) if self.corruptions else mask", "mask"),),
    ),
    "a silent fault is detected once more when it is found": Mutation(
        ENGINE,
        (("self.corruptions.pop(0), 0, True", "self.corruptions.pop(0), detect, True"),),
    ),
    "a save is durable when its time is up at the instant of a fault": Mutation(
        SAVES,
        (("(horizon - self.first - 1) // self.every", "(horizon - self.first) // self.every"),),
    ),
    "what was saved before a stop can't be lost later": Mutation(
        ENGINE,
        (
            (
                "self.saves.forget(min([self.now - self.times.durable, *onsets]))",
                "self.saves.forget(self.now)",
            ),
        ),
    ),
    "the first save after a replica stopped keeps only the work since then": Mutation(
        ENGINE,
        (
            (
                "            self.saves.complete(first)\n",
                "            self.saves.saved.append(Saved(*self.saves.unsaved.pop(), first))\n",
            ),
        ),
    ),
    "the interval begins anew when a replica has stopped": Mutation(
        ENGINE,
        (("            self.offset = self._file(fault=True)", "            self._file(fault=True)"),),
    ),
    "a replica that stopped is back without detection": Mutation(
        ENGINE,
        (
            (
                "self.joining = self.now + detect + self._restart()",
                "self.joining = self.now + self._restart()",
            ),
        ),
    ),
    "groups of one domain share their GPUs": Mutation(
        ENGINE,
        (("                healthy &= ~mask\n", ""),),
    ),
    "a join does not wait for the save under way": Mutation(
        ENGINE,
        (
            (
                "elif inside > self.times.interval:",
                "elif inside > 2 * (self.times.interval + self.times.save):",
            ),
        ),
    ),
    "a hit during a start does not begin it again": Mutation(
        ENGINE,
        (
            (
                "if (struck or instant.app_fault) and self.state != PAUSED:",
                "if (struck or instant.app_fault) and self.state in (RUNNING, SAVING):",
            ),
        ),
    ),
    "a hit during a start is an interruption": Mutation(
        ENGINE,
        (
            (
                "        if self.state in (RUNNING, SAVING):\n            self.ledger.interruptions += 1\n",
                "        self.ledger.interruptions += 1\n",
            ),
        ),
    ),
    "a paused job starts with detect": Mutation(
        ENGINE,
        (("self._start(0)", "self._start(self.times.detect)"),),
    ),
    "the configuration is chosen at the end of a start": Mutation(
        ENGINE,
        (
            (
                "self.state, self.since, self.until = RUNNING",
                "self._choose()\n        self.state, self.since, self.until = RUNNING",
            ),
        ),
    ),
    "ties in packing go to the highest domain": Mutation(
        PACKED,
        (
            ("return -can.reduced, domain, can.full", "return -can.reduced, -domain, can.full"),
            ("reduced[domain] = -minus", "reduced[-domain] = -minus"),
        ),
    ),
    "reduced groups are idle spares too": Mutation(
        ENGINE,
        (
            (
                "max(0, self.full_groups - self",
                "max(0, self.full_groups + len(getattr(self.packing, 'offers', ())) - self",
            ),
        ),
    ),
    "the change to a better configuration does not wait for a save": Mutation(
        ENGINE,
        (("elif immediate and inside <= interval:", "elif immediate and inside < 0:"),),
    ),
    "static is not capped by the domain's remainder": Mutation(
        PACKING,
        (("min(left, size - most * tp)", "left"),),
    ),
    "a whole domain offers its remainder as a reduced group": Mutation(
        PACKING,
        ((" if full < most else 0", ""),),
    ),
    "pause stops at DP replicas": Mutation(
        PACKING,
        (
            (
                "self._handed_out([(part, part.samples) for part in parts])",
                "self._handed_out([(part, part.samples) for part in self._first(parts)])",
            ),
        ),
    ),
    "stretch uses replicas beyond DP": Mutation(
        PACKING,
        (("for part in self._first(parts) if part.kind.work", "for part in parts if part.kind.work"),),
    ),
    "spare domains stand in for the best of the wounded": Mutation(
        FIXED,
        (("in zip(worst_first, spares", "in zip(worst_first[::-1], spares"),),
    ),
    "a reduced group takes a position of its own slot only when it is the first": Mutation(
        FIXED,
        (("if place == full and reduced else None", "if place == full == 0 and reduced else None"),),
    ),
    "stretch adds no fill time": Mutation(
        PACKING,
        (("return (sum(paces) - slowest) / virtual_stages, slowest", "return Fraction(0), slowest"),),
    ),
    "whole replicas pay the resharding overhead": Mutation(
        PACKING,
        (("(1 + self.reshard_overhead_frac) if resharding else x_raw", "(1 + self.reshard_overhead_frac)"),),
    ),
    "no gain from boosted clocks": Mutation(
        PACKING,
        (("gain += many * max(", "gain += 0 * max("),),
    ),
    "the boost limit ignores the full groups of the rack": Mutation(
        CONTRACT,
        ((" - offer.full_beside * self.tp", ""),),
    ),
    "a stage is as fast as its first group": Mutation(
        CONTRACT,
        (("one[first : first + cp]", "one[first : first + 1]"),),
    ),
    "virtual stages do not shorten the fill": Mutation(
        CONTRACT,
        (("(sum(paces) - slowest) / self.shape.virtual_stages", "sum(paces) - slowest"),),
    ),
    "downtime before the window is a failure at its start": Mutation(
        "pipeline/replay/history.py",
        (("if begin <= 0:", "if begin < 0:"),),
        "log",
    ),
    "an outage of no length interrupts nothing": Mutation(
        f"{SQL}/onsets.sql",
        (
            (
                "    from segment_outages\n    where ",
                "    from segment_outages\n    where t_end_us > t_start_us and ",
            ),
        ),
        "log",
    ),
    "the union looks back one outage only": Mutation(
        f"{SQL}/downtime_us.sql",
        (("rows between unbounded preceding and 1 preceding", "rows between 1 preceding and 1 preceding"),),
        "log",
    ),
    "degraded nodes are down": Mutation(
        f"{SQL}/placed_outages.sql",
        (("where severity = 'down'", "where severity in ('down', 'degraded')"),),
        "log",
    ),
}
