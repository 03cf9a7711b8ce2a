"""A scenario: every wrong value is named with its key, what was found, what is allowed."""

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import config
from pipeline.errors import InputError

BASE = """
[trace]
source = "intervals"
path = "log.csv"
window = ["2024-01-01T00:00Z", "2024-02-01T00:00Z"]
[cluster]
nodes = 16
domain_size = 16
[job]
tp = 16
pp = 2
[[policy]]
name = "drop"
response = "dp-drop"
"""

# (what is replaced, by what, what the message must name)
WRONG = [
    ("tp = 16", "tp = 17", ["[job] tp", "17", "at most domain_size (16)"]),
    ("tp = 16", 'tp = "16"', ["[job] tp", "'16'", "whole number"]),
    ("tp = 16", "tp = 16.0", ["[job] tp", "16.0", "whole number"]),
    ("tp = 16", "tp = true", ["[job] tp", "True", "whole number"]),
    ("tp = 16", "tp = 0", ["[job] tp", "0", "at least 1"]),
    ("nodes = 16", "nodes = 2", ["[cluster] nodes", "smaller than one replica", "at least 2 domains"]),
    ("nodes = 16", "node = 16", ["node", "unknown key", "did you mean 'nodes'"]),
    ("nodes = 16", "", ["nodes", "missing"]),
    ("domain_size = 16", "domain_size = 12", ["domain_size", "12", "straddle"]),
    ("[job]", "[jobs]", ["jobs", "unknown key", "did you mean 'job'"]),
    ('response = "dp-drop"', 'response = "dp-drop"\nbatch = "elastik"', ["batch", "elastik", "elastic"]),
    ('response = "dp-drop"', 'response = "dp-drop"\nspare_domains = 7', ["spare_domains", "7", "0 replicas"]),
    ('response = "dp-drop"', 'response = "dp-drop"\nreduced_tp = [16]', ["reduced_tp", "16", "below tp"]),
    ('response = "dp-drop"', 'response = "dp-drop"\nreduced_tp = [8, 8]', ["reduced_tp", "each degree once"]),
    ('name = "drop"', 'name = " "', ["name", "empty"]),
    ("[job]", "[costs]\ndetect_s = -1\n[job]", ["detect_s", "-1", "at least 0"]),
    ("[job]", "[costs]\ndetect_s = nan\n[job]", ["detect_s", "nan"]),
    ("[job]", "[costs]\ndetect_s = inf\n[job]", ["detect_s", "inf"]),
    ("[job]", '[costs]\ncheckpoint_interval_s = "yung"\n[job]', ["yung", "did you mean 'young'"]),
    ("[job]", "[costs]\ncheckpoint_interval_s = 0\n[job]", ["checkpoint_interval_s", "0", "more than 0"]),
    ("[job]", "[costs]\ncheckpoint_save_s = 0\n[job]", ["checkpoint_interval_s", "young", "best interval"]),
    ("[job]", "[power]\ncurve = [[1, 1], [0.9, 1.1]]\n[job]", ["curve", "[1, 1]", "rise"]),
    ("[job]", "[power]\nboost_cap = 9\n[job]", ["boost_cap", "9", "at most 3"]),
    ('path = "log.csv"', 'path = "log.csv"\ndays = 3', ["days", "only with preset"]),
    ('source = "intervals"', 'source = "intervals"\npreset = "llama3"', ["both source and preset"]),
    ('source = "intervals"\n', "", ["neither source nor preset"]),
    ('path = "log.csv"', 'path = "log.csv"\nseed = 3', ["seed", "given beside source", "only with preset"]),
    ('window = ["2024-01-01T00:00Z", "2024-02-01T00:00Z"]', "", ["no window"]),
    ('"2024-02-01T00:00Z"', '"2024-02-01T00:00"', ["window", "no zone", "write 2024-02-01T00:00Z"]),
    ('"2024-02-01T00:00Z"', '"2023-02-01T00:00Z"', ["window", "from before to"]),
    ('"2024-02-01T00:00Z"', '"yesterday"', ["window", "yesterday", "ISO instant"]),
    ("[cluster]", "[cluster]\nplacement_seeds = []", ["placement_seeds"]),
    ("[cluster]", "[cluster]\nplacement_seeds = [1, 1]", ["placement_seeds", "different"]),
    ("[cluster]", '[cluster]\nplacement = "listed"\nplacement_seeds = [1, 2]', ["listed", "one seed"]),
    ("[cluster]", '[trace.severity]\ngpu = "dead"\n[cluster]', ["severity", "gpu", "dead", "degraded"]),
    ("[cluster]", '[trace.severity]\ngpu = "donw"\n[cluster]', ["donw", "did you mean 'down'"]),
    ("tp = 16", 'tp = "16"', ["a whole number, at least 1"]),
    ("[cluster]", '[cluster]\nplacement_seeds = "0"', ["placement_seeds", "'0'", "a list of whole numbers"]),
    ("[cluster]", "[cluster]\nplacement = 1", ["placement", "1", "one of listed, random, topology"]),
    ("[cluster]", "[cluster]\nblast_radius = 1", ["blast_radius", "1", "a table"]),
    ("[job]", "[power]\ncurve = 1\n[job]", ["curve", "1", "a list of [a number, a number]"]),
    (
        "[job]",
        "[costs]\ncheckpoint_interval_s = []\n[job]",
        ["checkpoint_interval_s", "[]", "a number, more than 0", "or one of daly, young"],
    ),
    (
        'window = ["2024-01-01T00:00Z", "2024-02-01T00:00Z"]',
        "window_d = [0, 50000]",
        ["window_d", "[0, 50000]", "0 <= from < to < 40,000"],
    ),
]


def parse(text: str) -> config.Scenario:
    return config.parse(tomllib.loads(text), name="case", path=Path("case.toml"))


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_a_wrong_value_is_named(old: str, new: str, said: list[str]) -> None:
    """A wrong key or value is one message with the place, what was found and what is allowed."""
    assert old in BASE
    with pytest.raises(InputError) as caught:
        parse(BASE.replace(old, new, 1))

    text = str(caught.value)
    assert all(part in text for part in said), text
    assert text.startswith("case.toml")


def test_two_policies_cannot_share_a_name() -> None:
    """Policy names are unique, because tables and charts tell policies apart by name."""
    twice = BASE + '[[policy]]\nname = "drop"\nresponse = "ntp"\n'

    with pytest.raises(InputError, match=r"\[policy 1\] name: 'drop' twice"):
        parse(twice)


def test_policy_costs_override_the_scenarios() -> None:
    """[policy.costs] changes the keys it names and keeps the rest of [costs]."""
    text = BASE.replace("[job]", "[costs]\ndetect_s = 7\nrestart_s = 9\n[job]")
    scenario = parse(text + "[policy.costs]\nrestart_s = 11\n")

    assert (scenario.costs.detect_s, scenario.costs.restart_s) == (7, 9)
    assert (scenario.policies[0].costs.detect_s, scenario.policies[0].costs.restart_s) == (7, 11)


def test_comments_and_order_do_not_change_the_fingerprint() -> None:
    """The fingerprint follows the values: comments, spacing and the order of keys do not count."""
    moved = BASE.replace("nodes = 16\ndomain_size = 16", "domain_size   = 16 # GPUs\nnodes = 16")

    assert parse(moved).fingerprint() == parse(BASE).fingerprint()
    assert parse(BASE.replace("pp = 2", "pp = 1")).fingerprint() != parse(BASE).fingerprint()


def test_every_shipped_scenario_loads() -> None:
    """The shipped scenarios are valid and named like their files."""
    assert {"demo", "hbd64", "hbd72"} <= set(config.available())
    for name in config.available():
        assert config.load(name).name == name


def test_a_scenario_of_ones_own_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Results go by the file's name, so a file of one's own may not be named like a shipped scenario."""
    path = tmp_path / "demo.toml"
    path.write_text(BASE)
    with pytest.raises(InputError, match="the name of a shipped scenario"):
        config.load(str(path))


def test_every_key_is_listed_with_its_meaning() -> None:
    """The list of keys comes from the code: each dataclass field with its default."""
    listed = dict(config.keys())
    assert listed["[job] tp"] == "tensor-parallel degree (required)"
    assert listed["[costs] detect_s"].endswith("(default 120)")
    assert listed["[cluster] nodes"].endswith("left out: those of the topology")
    assert all(listed.values())


def test_an_unknown_scenario_names_the_nearest() -> None:
    """An unknown scenario lists the shipped ones and the closest name."""
    with pytest.raises(InputError, match="did you mean 'hbd64'"):
        config.load("hbd46")


@given(st.text(max_size=60))
def test_no_text_raises_anything_but_an_input_error(text: str) -> None:
    """Whatever stands in the file, the answer is a scenario or an InputError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    with pytest.raises(InputError):
        config.parse(document, name="case", path=Path("case.toml"))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_PLACES = [
    (table, key)
    for table, keys in {
        "trace": ("source", "window", "window_d", "seed", "severity", "exclude", "preset", "days"),
        "cluster": ("nodes", "gpus_per_node", "domain_size", "placement", "placement_seeds"),
        "job": ("tp", "pp", "cp", "dp", "samples_per_replica", "virtual_stages"),
        "costs": ("detect_s", "checkpoint_interval_s"),
        "power": ("curve", "boost_cap", "tdp_w"),
        "policy": ("name", "response", "batch", "costs", "reduced_tp"),
    }.items()
    for key in keys
]


@given(st.sampled_from(_PLACES), _VALUES)
def test_any_value_in_any_place_is_accepted_or_named(place: tuple[str, str], value: object) -> None:
    """Any value under any key gives a scenario or an InputError, never another exception."""
    table, key = place
    document = tomllib.loads(BASE)
    target = document["policy"][0] if table == "policy" else document.setdefault(table, {})
    target[key] = value
    with contextlib.suppress(InputError):
        config.parse(document, name="case", path=Path("case.toml"))
