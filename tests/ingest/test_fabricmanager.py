"""The source `fabricmanager`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import fabricmanager
from tests.ingest.mutations import survives

GIVEN = Options.of(tz="UTC", node="n1", as_of="2026-06-01T00:00Z")
FATAL = "[Mar 01 2026 10:00:00] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 port 33"
SERVICE = (
    "Mar  1 11:00:00 n7 systemd[1]: nvidia-fabricmanager.service: Control process exited, status=1/FAILURE"
)


def read(*lines: str, options: Options = GIVEN) -> Parsed:
    return fabricmanager.read("\n".join(lines).encode(), "n3.log", options)


def test_switch_errors_and_failures_of_the_service() -> None:
    """Fatal is down, non-fatal info, as another error; a service that fails is software."""
    parsed = read(
        FATAL,
        FATAL.replace("fatal error 20034", "non-fatal error 12028"),
        FATAL.replace("detected NVSwitch fatal error 20034", "lost a peer"),
        FATAL.replace("[ERROR]", "[INFO]"),
        "Message payload details: [ERROR]",
        "",
        SERVICE,
        SERVICE.replace("Control process exited, status=1/FAILURE", "Started"),
    )
    assert parsed.events.select("node", "severity", "component", "code", "scope").rows() == [
        ("n1", "down", "nvlink", "sxid 20034", "domain"),
        ("n1", "info", "nvlink", "sxid 12028 non-fatal", "domain"),
        ("n1", "info", "nvlink", "error", "node"),
        ("n7", "down", "software", "fabricmanager service", "node"),
    ]
    assert [f"{at:%Y-%m-%d %H:%M}" for at in parsed.events["t_start"]][::3] == [
        "2026-03-01 10:00",
        "2026-03-01 11:00",
    ]
    assert parsed.rejects.height == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(node="n"), "--tz"),
        (Options(tz="UTC"), "--node @file"),
        (Options(tz="UTC", node="n"), "--year"),
    ],
)
def test_what_the_log_lacks_is_given(options: Options, told: str) -> None:
    """One input error for the file names the option."""
    with pytest.raises(InputError, match=rf"^n3.log: (.|\n)*{told}"):
        read(FATAL, SERVICE, options=options)


def test_local_times_go_to_utc_or_are_refused() -> None:
    """A clock change makes an hour ambiguous; --fold says which."""
    zone = Options.of(tz="Europe/Berlin", node="n1")
    late = FATAL.replace("Mar 01 2026 10", "Oct 26 2025 02")
    assert f"{read(FATAL, options=zone).events['t_start'][0]:%H:%M}" == "09:00"
    assert read(late, options=zone).rejects["reason"].to_list() == [
        "ambiguous local time: clocks were set back"
    ]
    assert read(late, options=Options.of(tz="Europe/Berlin", node="n1", fold="later")).rejects.height == 0


@pytest.mark.parametrize(
    "line",
    [
        FATAL.replace("Mar", "Mrz"),
        FATAL.replace("Mar 01", "Feb 30"),
        FATAL.replace("[tid 841]", "[ti"),
        SERVICE.replace("Mar", "Mrz"),
    ],
)
def test_lines_that_claim_and_cannot_be_read_are_refused(line: str) -> None:
    """One row each."""
    parsed = read(line, FATAL)
    assert (parsed.rejects.height, parsed.events.height) == (1, 1)


def test_another_log_is_an_input_error() -> None:
    """Nothing of the fabric manager in it."""
    with pytest.raises(InputError, match=r"n3.log: nothing of the fabric manager"):
        read("hello", "Mar  1 11:00:00 n7 sshd[1]: failed")


@pytest.mark.shared
def test_the_public_excerpts_are_read(shared_data: Path) -> None:
    """Three switch errors and two failures of the service; the head of a log of news alone has no row."""
    folder = shared_data / "fabricmanager"
    given = Options.of(tz="UTC", node="n", year=2025)
    parsed = fabricmanager.read((folder / "fabricmanager_errors.txt").read_bytes(), "f", given)
    assert parsed.events.select("node", "severity", "code").rows() == [
        ("n", "down", "sxid 20034"),
        ("n", "info", "sxid 12028 non-fatal"),
        ("n", "info", "sxid 12028 non-fatal"),
        ("gpu-node-3", "down", "fabricmanager service"),
        ("gpu-node-3", "down", "fabricmanager service"),
    ]
    assert parsed.rejects.height == 0
    head = fabricmanager.read((folder / "gpud_fabricmanager_head40.log").read_bytes(), "f", given)
    assert head.rows_read == head.events.height + head.rejects.height


def test_any_damage_is_counted() -> None:
    """Damaged logs give rows and refusals, nothing else."""
    seed = (resources.folder("samples") / "fabricmanager.log").read_bytes() + SERVICE.encode()
    survives(fabricmanager, seed, Options.of(tz="UTC", node="n1", year=2026, as_of="2026-06-01T00:00Z"))
