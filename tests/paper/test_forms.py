"""Claims from closed forms, rates and the public trace: every row is met, or explained with its distance."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from pipeline.paper import claims, forms, jobs
from pipeline.paper.rows import Context, Row, Verdict

MEETS, EXPLAINED = Verdict.MEETS, Verdict.EXPLAINED
TOPICS = ("closed-forms", "llama3", "rsc", "peers")
NOT_MET = {
    "Young's interval, M 7.9 h, save 36 s",
    "share of interruptions: Faulty GPU",
    "mean time to failure, 1,024 GPUs on RSC-1",
    "mean time to failure, 8 GPUs on RSC-1",
    "useful time, 4,096 GPUs at the RSC-1 rate, saves every 60 min, restart 20 min",
    "useful time, 5 stops that lose no step",
    "goodput to first order, with the rework",
    "goodput replayed under drawn faults",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Return the rows of the topics, from 40 seeds."""
    context = Context(tmp_path_factory.mktemp("claims"), seeds=40)
    return [row for topic in TOPICS for row in claims.rows(topic, context)]


def test_what_is_met_and_what_is_explained(made: list[Row]) -> None:
    """All but the listed rows meet their sources; those are explained, and no explanation is spare."""
    assert {row.name for row in made if row.verdict is not MEETS} == NOT_MET
    assert {row.verdict for row in made if row.name in NOT_MET} == {EXPLAINED}
    assert all(row.name in NOT_MET for row in made if row.explanation)
    assert len({(row.name, row.source) for row in made}) == len(made)


def test_every_row_says_what_made_its_number(made: list[Row]) -> None:
    """`how` begins with the dotted name of a function that exists."""
    for row in made:
        module, _, name = row.how.split()[0].rpartition(".")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (forms.mttf_h(16_384, 6.5), 24 / (2_048 * 0.0065)),
        (forms.series_mttf([(2, 10.0), (1, 5.0)]), 2.5),
        (forms.first_order_frac(100, 10, 5, 1), 1 - 0.05 - 0.05 - 0.1),
        (forms.without_rework_frac(100, 10, 5, 1), 1 - 0.05 - 0.1),
        (forms.multiplicative_frac(100, 2, 5, 5), 1 / 1.3),
        (forms.waste_at_best_frac(100, 2), 0.2),
        (forms.mtbf_of_stall(0.44, 10), 10 / 0.56),
        (forms.stall_bound_frac(10 / 0.56, 3), 0.832),
    ],
)
def test_forms_by_hand(found: float, wanted: float) -> None:
    """Small numbers worked out beside the formula."""
    assert found == pytest.approx(wanted)


def test_the_exact_form_tends_to_the_first_order() -> None:
    """Where faults are rare the exact form and the first-order one agree, and rework is never left out."""
    exact, first = forms.renewal_frac(1e6, 100, 50), forms.first_order_frac(1e6, 100, 50)
    assert exact == pytest.approx(first, abs=1e-8) and exact < forms.without_rework_frac(1e6, 100, 50, 0)


def test_the_small_jobs() -> None:
    """One fault after 1,000 s, the last save at 600 s, restart 120 s; two repairs are two planned stops."""
    times = jobs.times_of(interval_s=600, restart_s=120)
    ledger = jobs.with_app_faults([1_000, 1_060], 3_000, times)
    assert float(ledger.goodput_frac) == pytest.approx(2_420 / 3_000)
    ledger = jobs.with_repairs([700, 1_500], 3_000, times)
    assert (ledger.interruptions, ledger.planned_stops, float(ledger.ettr_frac)) == (0, 2, 2_760 / 3_000)


@pytest.mark.shared
@pytest.mark.slow
def test_the_public_trace(shared_data: Path, tmp_path: Path) -> None:
    """What fails and the shares of GPUs in no full group: every row is met."""
    traces = {"infinitehbd": shared_data / "infinitehbd" / "fault_trace.json"}
    rows = claims.rows("hbd", Context(tmp_path, traces=traces))
    assert [row.verdict for row in rows] == [MEETS] * 13


def test_without_the_trace_rows_are_not_run(tmp_path: Path) -> None:
    """The rows stay on the page and say what they need."""
    rows = claims.rows("hbd", Context(tmp_path))
    assert {row.verdict for row in rows} == {Verdict.NOT_RUN} and all(row.reason for row in rows)
