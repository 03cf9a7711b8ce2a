"""The shipped presets say what their publications say."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pipeline.synth import presets

LLAMA3_PER_GPU_D = 419 / 54 / 16_384


@pytest.mark.parametrize("name", ["llama3", "ntp-paper"])
def test_total_rate_is_that_of_the_llama3_report(name: str) -> None:
    """Both presets add up to 419 interruptions in 54 days on 16,384 GPUs."""
    assert presets.load(name).per_gpu_d == pytest.approx(LLAMA3_PER_GPU_D, rel=1e-12)


@pytest.mark.shared
def test_llama3_rows_are_the_counts_of_the_table(shared_data: Path) -> None:
    """Rates are the table's counts, row by row, not its printed percentages."""
    with (shared_data / "logbooks" / "llama3_table.csv").open() as stream:
        table = {row["component"]: int(row["count"]) for row in csv.DictReader(stream)}
    found = {rate.reason: rate.per_gpu_d * 54 * 16_384 for rate in presets.load("llama3").rates}
    assert found == pytest.approx(table)
    assert sum(table.values()) == 419


def test_llama3_repair_times_are_borrowed_and_split_as_in_the_ntp_paper() -> None:
    """Every repair time names where it is borrowed from; the long ones are 78 % of the counts."""
    preset = presets.load("llama3")
    assert all("2504.06095" in rate.borrowed_from for rate in preset.rates)
    hardware = sum(rate.per_gpu_d for rate in preset.rates if len(rate.repair.parts) == 2)
    assert hardware / preset.per_gpu_d == pytest.approx(328 / 419)


def test_ntp_paper_split_and_repair() -> None:
    """78 % hardware with 3 or 5 days at equal odds, 22 % software with 3 h, one GPU each."""
    hardware, software = presets.load("ntp-paper").rates
    assert hardware.per_gpu_d / (hardware.per_gpu_d + software.per_gpu_d) == pytest.approx(0.78)
    assert hardware.repair.parts == ((0.5, 72), (0.5, 120))
    assert software.repair.parts == ((1, 3),)
    assert {hardware.scope, software.scope} == {"gpu"}
