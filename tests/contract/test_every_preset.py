"""Every preset keeps the contract and says where its numbers are from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.synth import presets
from pipeline.synth.contract import Bursts, Lemons, problem
from pipeline.synth.distributions import Exponential, Fixed, Lognormal, Mix, Weibull
from pipeline.synth.run import assumptions


def test_presets_are_found_by_folder() -> None:
    """A module in the folder is a preset, with `-` for `_`; there is no registry."""
    stems = {path.stem for path in Path(presets.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in presets.names()} == stems
    assert {"llama3", "ntp-paper", "rsc-1", "rsc-2", "hbd-rates", "lanl-rates"} <= set(presets.names())


@pytest.mark.parametrize("name", presets.names())
def test_preset_is_whole(name: str) -> None:
    """A description, valid rates, and an origin for every number."""
    preset = presets.load(name)
    assert len(presets.descriptions()[name]) > 20
    assert problem(preset) == ""
    assert all(rate.origin for rate in preset.rates)
    assert len(presets.descriptions()[name]) <= 110
    for text in assumptions(preset, "clean"):
        assert text.endswith(".")


SOUND = presets.load("hbd-rates")
# (what is replaced in a sound preset, what the contract says)
BROKEN = [
    ({"rates": ()}, "no rates"),
    ({"rates": (replace(SOUND.rates[0], component="gpus"),)}, "component 'gpus'"),
    ({"rates": (replace(SOUND.rates[0], scope="domain"),)}, "scope 'domain'"),
    ({"rates": (replace(SOUND.rates[0], per_1000_node_d=0.0),)}, "not positive"),
    ({"rates": (replace(SOUND.rates[0], arrival=Weibull(0.0)),)}, "Weibull shape"),
    ({"rates": (replace(SOUND.rates[0], origin=""),)}, "no origin"),
    ({"rates": (replace(SOUND.rates[0], repair=Mix(((0.5, 1.0), (0.4, 2.0)))),)}, "repair weights"),
    ({"rates": (replace(SOUND.rates[0], repair=Fixed(0.0)),)}, "takes no time"),
    ({"rates": (replace(SOUND.rates[0], repair=Exponential(0.0)),)}, "takes no time"),
    ({"rates": (replace(SOUND.rates[0], repair=Lognormal(9.0, 3.0, 99.0)),)}, "quantiles that do not rise"),
    ({"lemons": Lemons(0.4, 0.1, "a test")}, "lemons"),
    ({"bursts": Bursts(0.1, 1.5, 100, "a test")}, "bursts"),
    ({"bursts": Bursts(0.1, 3.0, 100, "")}, "bursts"),
]


@pytest.mark.parametrize(("changed", "told"), BROKEN)
def test_the_contract_names_what_is_wrong(changed: dict[str, Any], told: str) -> None:
    """A rate, repair, lemon share or burst that makes no sense is said in one line."""
    assert problem(SOUND) == ""
    assert told in problem(replace(SOUND, **changed))


def test_an_unknown_preset_names_the_nearest() -> None:
    """A mistyped preset is told with the valid names."""
    with pytest.raises(InputError, match="did you mean 'llama3'"):
        presets.load("lama3")


@pytest.mark.parametrize(
    ("source", "told"), [("PRESET = 1\n", "no docstring"), ('"""Rates."""\nPRESET = 1\n', "not a Preset")]
)
def test_a_module_that_breaks_the_contract_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    """A preset that lacks something says what, by its name."""
    stem = f"broken_{abs(hash(told))}"
    (tmp_path / f"{stem}.py").write_text(source)
    monkeypatch.setattr(presets, "__path__", [*presets.__path__, str(tmp_path)])
    with pytest.raises(InputError, match=f"broken-.*{told}"):
        presets.load(stem.replace("_", "-"))
