"""A scenario's pace: ideal, measured or modeled, from the file to the outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import cli, config
from pipeline.errors import InputError
from pipeline.perf import pace
from pipeline.replay import responses
from pipeline.replay.contract import Offer, Shape
from pipeline.replay.packing import Packer
from pipeline.report import answer, assumptions
from tests import small_lake
from tests.replay.cases import CURVE

LOG = """node,gpu,start,end,component
n01,0,2025-03-01T02:00Z,2025-03-01T20:00Z,gpu
n01,1,2025-03-01T05:00Z,2025-03-01T15:30Z,gpu
n05,3,2025-03-01T09:00Z,2025-03-02T09:00Z,gpu
n02,7,2025-03-02T01:00Z,2025-03-02T02:00Z,hbm
n07,2,2025-03-02T11:00Z,,gpu
n07,3,2025-03-02T12:00Z,,gpu
n07,5,2025-03-02T13:00Z,,gpu
"""
SCENARIO = """title = "Pace"
[trace]
source = "intervals"
path = "log.csv"
window = ["2025-03-01T00:00Z", "2025-03-04T00:00Z"]
[cluster]
nodes = 8
domain_size = 16
[job]
tp = 16
samples_per_replica = 24
[costs]
checkpoint_interval_s = 1800
[[policy]]
name = "ntp"
response = "ntp"
reduced_tp = [15, 14, 12]
[[policy]]
name = "ntp-pw"
response = "ntp-pw"
batch = "stretch"
reduced_tp = [15, 14, 12]
"""
TABLE = '[step_time]\nkind = "table"\npath = "steps.csv"\n'
MODEL = '[step_time]\nkind = "model"\n[model]\npreset = "llama3-8b"\nkv_heads = 32\n[gpu]\npreset = "h100"\n'
# 1680 / t: the ideal law in whole numbers.
STEPS = {16: 105, 15: 112, 14: 120, 12: 140}


def written(folder: Path, extra: str = "", steps: dict[int, float] | None = None) -> config.Scenario:
    """Return a scenario with its log, `extra` tables and a CSV of steps."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.csv").write_text(LOG)
    rows = "".join(f"{number},{tp},{s}\n" for number, (tp, s) in enumerate((steps or STEPS).items()))
    (folder / "steps.csv").write_text(f"step, tp, seconds\n{rows}")
    (folder / "pace.toml").write_text(SCENARIO + extra)
    return config.load(str(folder / "pace.toml"))


# -- from the file to c(t) -----------------------------------------------------------------------


def test_ideal_is_the_default_and_gives_nothing(tmp_path: Path) -> None:
    """Without [step_time] the replay takes TP/t, as ever."""
    scenario = written(tmp_path)
    assert scenario.step_time.kind == "ideal"
    assert pace.paces(scenario) == {}
    assert pace.setup(scenario) is None


def test_a_table_gives_exact_ratios(tmp_path: Path) -> None:
    """c(t) is the ratio of two rows as they stand in the file, decimals and all."""
    scenario = written(tmp_path, TABLE, {16: 0.3, 15: 0.34, 14: 0.36, 12: 0.45, 8: 0.7})
    assert pace.paces(scenario) == {15: Fraction(17, 15), 14: Fraction(6, 5), 12: Fraction(3, 2)}


def test_a_degree_takes_the_median_of_its_rows(tmp_path: Path) -> None:
    """A step log has many rows a degree; one with a save in it does not count."""
    written(tmp_path)
    (tmp_path / "steps.csv").write_text("seconds,tp,loss\n1.0,16,3\n9.0,16,3\n1.2,16,2\n2,8,1\n")
    from pipeline.config import steps

    assert steps.read(tmp_path / "steps.csv", "here") == {16: 1.2, 8: 2.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp,second\n16,1\n", "no column 'seconds'"),
        ("tp,seconds\n16,zero\n", "steps.csv line 2 seconds: found 'zero'"),
        ("tp,seconds\n16,-1\n", "a number above 0"),
        ("tp,seconds\n16,nan\n", "a number above 0"),
        ("tp,seconds\n16\n", "steps.csv line 2 seconds: found None"),
        ("tp,seconds\n15.5,1\n", "a whole number"),
        ("tp,seconds\n", "no row"),
        ("", "no column 'tp'"),
        ("tp,seconds\n16,1\n15,1.1\n", "no row for tp 14, 12"),
    ],
)
def test_a_bad_table_is_one_message(tmp_path: Path, text: str, words: str) -> None:
    """What is wrong is told with its line."""
    written(tmp_path)
    (tmp_path / "steps.csv").write_text(text)
    (tmp_path / "pace.toml").write_text(SCENARIO + TABLE)
    with pytest.raises(InputError) as raised:
        pace.paces(config.load(str(tmp_path / "pace.toml")))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ('[step_time]\nkind = "table"\n', "missing with kind table"),
        ('[step_time]\npath = "steps.csv"\n', "given with kind ideal"),
        ('[step_time]\nkind = "table"\npath = "none.csv"\n', "none.csv: No such file"),
        ('[step_time]\nkind = "model"\n', "model without [model] and [gpu]"),
        ('[step_time]\nkind = "model"\n[model]\npreset = "llama3-8b"\n', "[gpu] processors: missing"),
        (
            '[step_time]\nkind = "model"\n[model]\nlayers = 3\n[gpu]\npreset = "h100"\n',
            "[model] hidden: missing",
        ),
        (MODEL.replace("llama3-8b", "lama3-8b"), "did you mean 'llama3-8b'"),
        (MODEL.replace("kv_heads = 32\n", ""), "8 KV heads cannot have equally many copies on 15 GPUs"),
        (MODEL + "hbm_bytes = 1e9\n", "[job] tp: 16: needs"),
    ],
)
def test_what_does_not_fit_together_is_one_message(tmp_path: Path, extra: str, words: str) -> None:
    """Keys, presets, heads and memory are checked before a replay begins."""
    with pytest.raises(InputError) as raised:
        pace.paces(written(tmp_path, extra))
    assert words in str(raised.value)


def test_the_model_gives_its_own_ratios(tmp_path: Path) -> None:
    """c(t) is the time of a microbatch at t over that at TP, to a millionth; heads are whole."""
    scenario = written(tmp_path, MODEL)
    found, made = pace.paces(scenario), pace.setup(scenario)
    assert made is not None
    for degree, value in found.items():
        assert float(value) == pytest.approx(made.microbatch_s(degree) / made.microbatch_s(16), abs=1e-6)
        assert value > 1
    assert made.shape.widest(15).heads == 3
    assert made.gpu.domain_size == 16


def test_measured_steps_calibrate_the_model(tmp_path: Path) -> None:
    """With kind model a table is what the factors are fitted to, and the pace follows them."""
    plain = written(tmp_path / "plain", MODEL)
    made = pace.setup(plain)
    assert made is not None
    healthy_s = made.iteration().total_s
    iteration_s = {16: 1.3 * healthy_s, 8: 2.5 * healthy_s}  # made up
    extra = MODEL.replace('kind = "model"\n', 'kind = "model"\npath = "steps.csv"\n')
    fitted = pace.setup(written(tmp_path / "fitted", extra, iteration_s))
    assert fitted is not None and fitted.calibration is not None
    assert fitted.factors != made.factors
    assert {row.degree: row.measured_s for row in fitted.calibration.rows} == iteration_s


# -- from c(t) to the outcomes -------------------------------------------------------------------


def outcomes(folder: Path, extra: str = "", steps: dict[int, float] | None = None) -> dict[str, pl.DataFrame]:
    """Return the tables of the replay."""
    written(folder, extra, steps)
    built = small_lake.build(folder, LOG, SCENARIO + extra)
    names = ("outcomes", "outcome_timeline", "splits", "what_ifs", "stops")
    return {name: pl.read_parquet(built.lake.table(built.replay, name), glob=False) for name in names}


def test_a_table_of_the_ideal_law_changes_nothing(tmp_path: Path) -> None:
    """With seconds of 1680/t every table of the replay equals that of `ideal`, to the last digit."""
    ideal = outcomes(tmp_path / "ideal")
    table = outcomes(tmp_path / "table", TABLE)
    assert ideal["outcomes"]["goodput_frac"].n_unique() > 1
    for name, frame in ideal.items():
        assert frame.equals(table[name]), name


def test_a_slower_table_costs_goodput(tmp_path: Path) -> None:
    """Half as slow again at every reduced degree, and the reduced policies keep less."""
    slow = {tp: s * (1.5 if tp < 16 else 1) for tp, s in STEPS.items()}
    ideal, slower = (
        frames["outcomes"].sort("policy")["goodput_frac"]
        for frames in (outcomes(tmp_path / "ideal"), outcomes(tmp_path / "slow", TABLE, slow))
    )
    assert (slower < ideal).all()


CURVE_FLAT = CURVE[:1]
groups = st.lists(st.sampled_from([16, 15, 14, 12]), min_size=2, max_size=2)


@given(
    replicas=st.lists(groups, min_size=1, max_size=4),
    slower=st.fractions(1, 3, max_denominator=100),
    more=st.fractions(1, 3, max_denominator=100),
    b=st.integers(1, 24),
    v=st.integers(1, 3),
    batch=st.sampled_from(["elastic", "pause", "stretch"]),
)
def test_a_larger_c_never_raises_throughput(
    replicas: list[list[int]], slower: Fraction, more: Fraction, b: int, v: int, batch: str
) -> None:
    """At fixed power a configuration of ntp does no more when c(t) grows, under any batch rule.

    Goodput over time need not follow: a job that waits restarts with all it has, one that limps on does not.
    """

    def throughput(factor: Fraction) -> Fraction:
        slowdown = {t: max(Fraction(1), factor * Fraction(16, t)) for t in (15, 14, 12)}
        shape = Shape(16, 2, 1, b, v, 16, Fraction(1), Fraction(0), CURVE_FLAT, slowdown)
        packer = Packer(shape, responses.load("ntp"), batch, len(replicas), Fraction(0))
        parts = [
            packer.part(first, 1, tuple(Offer(degree) for degree in sorted(pair, reverse=True)))
            for first, pair in enumerate(replicas)
        ]
        return packer.setting("key", lambda: parts).x_raw

    assert throughput(slower * more) <= throughput(slower)


def test_a_boost_covers_the_pace_it_is_told() -> None:
    """ntp-pw draws the power that makes up for c(t), not for TP/t."""
    ideal = Shape(16, 1, 1, 8, 1, 16, Fraction(2), Fraction(1), CURVE)
    slower = replace(ideal, slowdown={15: Fraction("1.1")})
    offer = Offer(15)
    assert ideal.speed(ideal.boosted(offer)) == Fraction(16, 15)
    assert slower.speed(slower.boosted(offer)) == Fraction("1.1")
    assert slower.pace(14) == Fraction(16, 14)


# -- what people see -----------------------------------------------------------------------------


def test_the_page_says_where_the_pace_is_from(tmp_path: Path) -> None:
    """Ideal says that it flatters; a table and the model name themselves and each degree's c(t)."""
    faults = {"app_faults": 1, "outages": 0, "down": 0}
    told = {}
    for name, extra in (("ideal", ""), ("table", TABLE), ("model", MODEL)):
        scenario = written(tmp_path / name, extra)
        told[name] = " ".join(answer.notes(scenario, faults))
        sections = {row.section for row in assumptions.values(scenario)}
        assert ("step_time" in sections) == (name != "ideal")
        assert ("gpu" in sections) == (name == "model")
    assert "TP/t slower, no more" in told["ideal"]
    assert "measured (steps.csv): TP15 1.067 times (TP/t: 1.067)" in told["table"]
    assert "the GPU's data sheet: TP15" in told["model"]


@pytest.fixture
def goodput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call the command in process; return stdout."""

    def call(*arguments: str) -> str:
        assert cli.main(["--root", str(tmp_path / "root"), *arguments]) == 0
        return capsys.readouterr().out

    return call


def test_perf_lists_the_presets(goodput: Callable[..., str]) -> None:
    """Without a scenario every preset stands with a line about it."""
    told = goodput("perf")
    assert "ntp-480b" in told and "gb200-nvl72" in told
    assert set(json.loads(goodput("--json", "perf"))) == {"model", "gpu"}


def test_perf_tells_every_degree(goodput: Callable[..., str], tmp_path: Path) -> None:
    """Pace beside TP/t, time, memory, and why a degree is not legal; the calibration with its errors."""
    written(tmp_path / "ideal")
    assert "not known" in goodput("perf", str(tmp_path / "ideal" / "pace.toml"))
    extra = MODEL.replace("kv_heads = 32\n", "").replace(
        'kind = "model"\n', 'kind = "model"\npath = "steps.csv"\n'
    )
    written(tmp_path / "model", extra)
    path = str(tmp_path / "model" / "pace.toml")
    told = goodput("perf", path)
    assert "8 KV heads cannot have equally many copies on 15 GPUs" in told
    assert "s measured" in told
    plain = json.loads(goodput("--json", "perf", path))
    assert [row["degree"] for row in plain["degrees"]] == [16, 15, 14, 12]
    assert plain["degrees"][0]["pace"] == 1
    assert len(plain["calibration"]["rows"]) == len(STEPS)
