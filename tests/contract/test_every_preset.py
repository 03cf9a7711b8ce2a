"""Every preset keeps the contract and says where its numbers are from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.synth import presets
from pipeline.synth.contract import problem
from pipeline.synth.run import assumptions


def test_presets_are_found_by_folder() -> None:
    """A module in the folder is a preset, with `-` for `_`; there is no registry."""
    stems = {path.stem for path in Path(presets.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in presets.names()} == stems
    assert {"llama3", "ntp-paper"} <= set(presets.names())


@pytest.mark.parametrize("name", presets.names())
def test_preset_is_whole(name: str) -> None:
    """A description, valid rates, and an origin for every number."""
    preset = presets.load(name)
    assert len(presets.descriptions()[name]) > 20
    assert problem(preset) == ""
    assert all(rate.origin for rate in preset.rates)
    for text in assumptions(preset, "clean"):
        assert text.endswith(".")


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
