"""Presets of GPUs and models: every number says where it is from, and unknown names are told."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.perf import presets

FILES = sorted(Path(presets.__file__).parent.glob("*/*.toml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_number_has_a_source(path: Path) -> None:
    """A line of a preset without a comment is a number that nobody can check."""
    for line in path.read_text(encoding="utf-8").splitlines():
        key, _, rest = line.partition(" = ")
        assert key == "about" or re.fullmatch(r"\S+ +# \S.*", rest), line


def test_every_preset_loads() -> None:
    """All GPUs and models are read, with a line about each."""
    assert {path.stem for path in FILES} == {*presets.gpus(), *presets.models()}
    for name in presets.gpus():
        gpu = presets.gpu(name)
        assert gpu.peak_flop_per_s("bf16") > gpu.gemm_flop_per_s("bf16") > 0
        assert presets.about("gpus", name)
    for name in presets.models():
        assert presets.model(name).weights > 1e9
        assert presets.about("models", name)


def test_an_unknown_preset_names_the_nearest() -> None:
    """A slip in a name is one message with the name that was meant."""
    with pytest.raises(InputError, match="did you mean 'h100'"):
        presets.gpu("h10")


def test_a_type_the_gpu_lacks_is_refused() -> None:
    """The A100 has no fp8."""
    with pytest.raises(InputError, match="fp8 on a100-80gb"):
        presets.gpu("a100-80gb").peak_flop_per_s("fp8")


def test_numbers_that_derive_from_each_other_agree() -> None:
    """head_dim * heads is the width of attention as published: that of the hidden states."""
    for path in FILES:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        if "heads" in values:
            assert values["heads"] * values["head_dim"] == values["hidden"], path.name
