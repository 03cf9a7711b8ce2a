"""mlsysim's closed forms: the same from our functions, apart from the rework that one of them leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.paper import claims, forms
from pipeline.paper.claims import peers
from pipeline.paper.rows import Context, Row, Verdict
from pipeline.units import S_PER_H

pytestmark = pytest.mark.usefixtures("mlsysim")


@pytest.fixture(scope="module")
def solved():
    """Return what mlsysim says of its Llama-3 fleet, as plain numbers."""
    from mlsysim import Systems
    from mlsysim.core.units import Q_
    from mlsysim.solvers import CheckpointIntervalModel, ReliabilityModel

    fleet = Systems.Clusters.Meta_Llama3_16K_H100
    found = ReliabilityModel().solve(fleet, 54 * 24, peers.SAVE_S, peers.RECOVERY_S)
    waste = CheckpointIntervalModel().solve(Q_(peers.SAVE_S, "second"), found.fleet_mtbf)
    assert (fleet.count, fleet.node.accelerators_per_node, fleet.node.nics_per_node) == (
        peers.NODES,
        peers.NODE_GPUS,
        peers.NODE_NICS,
    )
    return {
        "mtbf_h": found.fleet_mtbf.m_as("hour"),
        "interval_s": found.optimal_checkpoint_interval.m_as("second"),
        "goodput": found.goodput_ratio,
        "waste": waste.waste,
        "rework": waste.rework_share,
    }


def test_the_same_closed_forms(solved) -> None:
    """Mean time, Young's interval and waste from our functions are mlsysim's; the interval to 1 us."""
    mttf_s, best_s = peers.fleet_mttf_s(), peers.young_s()
    assert mttf_s / S_PER_H == pytest.approx(solved["mtbf_h"], rel=1e-8)
    assert best_s == pytest.approx(solved["interval_s"], abs=1e-6)
    assert forms.waste_at_best_frac(mttf_s, peers.SAVE_S) == pytest.approx(solved["waste"], rel=1e-8)
    form = forms.without_rework_frac(mttf_s, best_s, peers.RECOVERY_S, peers.SAVE_S)
    assert form == pytest.approx(solved["goodput"], rel=1e-8)


def test_the_rework_that_is_left_out(solved) -> None:
    """Its goodput less its own rework share is ours: 0.9033 - 0.0603 = 0.8429."""
    with_rework = forms.first_order_frac(
        peers.fleet_mttf_s(), peers.young_s(), peers.RECOVERY_S, peers.SAVE_S
    )
    assert solved["goodput"] - solved["rework"] == pytest.approx(with_rework, rel=1e-8)
    assert (round(solved["goodput"], 4), round(with_rework, 4)) == (0.9033, 0.8429)


def test_the_rows_print_what_mlsysim_prints(solved, tmp_path: Path) -> None:
    """Every printed number is the peer's own, rounded; what it leaves out is explained, not met."""
    made = claims.rows("peers", Context(tmp_path, seeds=40))
    rows = [row for row in made if row.source.startswith(peers.MLSYSIM)]

    def shown(row: Row, value: float) -> str:
        return f"{value:.{len(row.printed.split('.')[1])}f}"

    values = [solved[name] for name in ("mtbf_h", "interval_s", "waste", "goodput", "goodput", "goodput")]
    assert [row.printed for row in rows] == [
        shown(row, value) for row, value in zip(rows, values, strict=True)
    ]
    assert [row.verdict for row in rows] == [Verdict.MEETS] * 4 + [Verdict.EXPLAINED] * 2
