"""Slurm's words for a node's state, and components by reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_logs import case

from pipeline.ingest import slurm_states
from pipeline.ingest.parsing import RefusedError
from pipeline.ingest.slurm_states import component_of, judge, judge_bits
from pipeline.schema import COMPONENTS, SEVERITIES

STATES = [
    ("DOWN", "DOWN", "down", None),
    ("DOWN*", "DOWN", "down", None),
    ("down~", "DOWN", "down", None),
    ("DOWN$", "DOWN", "down", "planned"),
    ("DOWN*+DRAIN", "DOWN", "down", None),
    ("DOWN+REBOOT_ISSUED", "DOWN", "down", "planned"),
    ("drain", "DRAIN", "down", None),
    ("DRAINED*", "DRAIN", "down", None),
    ("IDLE+DRAIN", "DRAIN", "down", None),
    ("IDLE+DRAIN+MAINT", "DRAIN", "down", "planned"),
    ("drng@", "DRAINING", "degraded", None),
    ("MIXED+DRAIN", "DRAINING", "degraded", None),
    ("ALLOCATED+COMPLETING+DRAIN", "DRAINING", "degraded", None),
    ("drng$", "DRAINING", "degraded", "planned"),
    ("fail*", "FAIL", "down", None),
    ("failg", "FAILING", "degraded", None),
    ("inval", "INVAL", "down", None),
    ("maint", "MAINT", "down", "planned"),
    ("alloc$", "MAINT", "down", "planned"),
    ("boot^", "REBOOT", "down", "planned"),
    ("idle^", "REBOOT", "down", "planned"),
    ("idle*", "NOT_RESPONDING", "degraded", None),
    ("idle~", "POWER", "info", "planned"),
    ("mix#", "POWER", "info", "planned"),
    ("idle#*", "POWER", "info", "planned"),
    ("idle%", "POWER", "info", "planned"),
    ("powering_do", "POWER", "info", "planned"),  # cut to eleven columns by sinfo -l
    ("FUTURE", "FUTURE", "info", "planned"),
    ("unk", "UNKNOWN", "info", None),
]


@pytest.mark.parametrize(("state", "code", "severity", "component"), STATES)
def test_states_that_are_not_up(state: str, code: str, severity: str, component: str | None) -> None:
    """Long and compact words, flags and suffixes lead to one verdict."""
    assert judge(state) == (code, severity, component)


@pytest.mark.parametrize(
    "state",
    ["idle", "IDLE-", "mix-", "alloc", "ALLOC+", "COMP", "resv", "plnd", "MIXED@", "idle!", "IDLE+CLOUD"],
)
def test_states_in_which_a_node_works(state: str) -> None:
    """Planned by the scheduler, reserved, about to reboot or to power down: the node can still work."""
    assert judge(state) is None


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("", slurm_states.NO_STATE),
        (" ", slurm_states.NO_STATE),
        ("IDLE+", slurm_states.CUT_STATE),
        ("main*", slurm_states.UNKNOWN_STATE),
        ("draine", slurm_states.UNKNOWN_STATE),  # too short to be a word that was cut
        ("?", slurm_states.UNKNOWN_STATE),
        ("*", slurm_states.UNKNOWN_STATE),
        ("DOWN++DRAIN", slurm_states.UNKNOWN_STATE),
    ],
)
def test_what_is_no_state_is_refused(state: str, reason: str) -> None:
    """A word that is unknown, or cut off where flags would follow, is never taken for one that is known."""
    with pytest.raises(RefusedError, match=f"^{reason}$".replace("+", r"\+")):
        judge(state)


def test_bits_of_state_raw() -> None:
    """The base is in the lowest four bits; drain on an allocated node still computes."""
    verdicts = [judge_bits(str(bits)) for bits in (1, 2, 2 | 1 << 9, 3 | 1 << 9, 1 | 1 << 11, 2 | 1 << 12)]
    assert [verdict and verdict.code for verdict in verdicts] == [
        "DOWN", None, "DRAIN", "DRAINING", "DOWN", "POWER",
    ]  # fmt: skip
    for text in ("", "-1", "9", "4294967296", "1.5", "\u0661"):
        with pytest.raises(RefusedError):
            judge_bits(text)


@pytest.mark.parametrize(
    ("reason", "component"),
    [
        ("Not responding", "unknown"),
        ("node unexpected reboot", "unknown"),
        ("gres/gpu count reported lower than configured (0 < 8)", "gpu"),
        ("Xid 79 | rack 4 | ticket 88", "gpu"),
        ("health_cuda___nvidia", "gpu"),
        ("health_BEEGFS__tcp_c", "storage"),
        ("Kill task failed", "software"),
        ("Prolog error", "software"),
        ("Low RealMemory (reported:1 < 100.00% of configured:2)", "host"),
        ("row remap pending", "hbm"),
        ("NVLink down", "nvlink"),
        ("ib0 link down", "nic"),
        ("maintenance of rack 4", "planned"),
        ("unmaintained", "unknown"),
        ("calibration", "unknown"),  # holds `ib`, in the middle of a word
    ],
)
def test_components_by_the_words_of_a_reason(reason: str, component: str) -> None:
    """Whole words decide, Slurm's own messages among them; a cause that is not told is unknown."""
    assert component_of(reason) == component


def test_tables_use_the_words_of_the_schema() -> None:
    """Every severity and component is one the events may hold."""
    verdicts = [verdict for _, verdict in slurm_states.VERDICTS]
    assert {verdict.severity for verdict in verdicts} <= set(SEVERITIES)
    assert {verdict.component for verdict in verdicts} - {None} <= set(COMPONENTS)
    assert {component for component, _ in slurm_states.REASONS} <= set(COMPONENTS)


@pytest.mark.shared
def test_public_states_with_suffixes(shared_dir: Path) -> None:
    """Case B05: who is available, who is not, who is powered down, who does not respond."""
    folder, expected = case(shared_dir, "B05")
    states = dict(line.split("|") for line in (folder / "sinfo.txt").read_text().splitlines())
    verdicts = {node: judge(state) for node, state in states.items()}
    # Powering up (n13) is no failure; nor is it available.
    told = {
        "available": [node for node, verdict in verdicts.items() if verdict is None],
        "unavailable": [node for node, verdict in verdicts.items() if verdict and verdict.severity != "info"],
        "powered_down_not_failed": [
            node for node, verdict in verdicts.items() if verdict and verdict.code == "POWER"
        ],
    }
    assert told == {key: expected[key] for key in told}
    planned = [node for node, verdict in verdicts.items() if verdict and verdict.component == "planned"]
    assert planned == ["n03", "n04", "n06", "n13"]  # maintenance can be told from failures
    assert [node for node, state in states.items() if "*" in state] == expected["not_responding"]
