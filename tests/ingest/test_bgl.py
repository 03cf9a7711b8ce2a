"""The source `bgl`: Blue Gene/L and Thunderbird."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import bgl
from tests.ingest.mutations import survives

SAMPLE = (resources.folder("samples") / "bgl.log").read_bytes()
CHIP = "R30-M0-N9-C:J16-U01"
CLOCK = "2005-06-11-17.32.07.581048"


def read(text: str | bytes) -> Parsed:
    return bgl.read(text.encode() if isinstance(text, str) else text, "log", Options())


def line(tag: str = "KERNDTLB", epoch: str = "1118536327", place: str = CHIP, clock: str = CLOCK) -> str:
    return f"{tag} {epoch} 2005.06.11 {place} {clock} {place} RAS KERNEL FATAL text of it\n"


def case(shared_dir: Path, name: str, file: str) -> tuple[str, dict[str, Any]]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    return (folder / file).read_text(encoding="utf-8"), wanted


@pytest.mark.parametrize(
    ("tag", "severity", "component", "code"),
    [
        ("-", "info", "unknown", "none"),
        ("APPREAD", "app", "software", "APPREAD"),
        ("KERNMNTF", "down", "storage", "KERNMNTF"),
        ("NEWTAG", "down", "unknown", "NEWTAG"),
    ],
)
def test_the_tag_decides(tag: str, severity: str, component: str, code: str) -> None:
    """Not the word FATAL: a line without a tag is information."""
    (event,) = read(line(tag)).events.to_dicts()
    assert (event["severity"], event["component"], event["code"]) == (severity, component, code)
    assert event["reason"] == "RAS KERNEL FATAL text of it"


@pytest.mark.parametrize(
    ("tags", "component"),
    [
        (
            "KERNDTLB KERNTLBE KERNSTOR KERNMC KERNFLOAT KERNBIT MMCS R_DDR_EXC R_DDR_STR CPU R_ECC NMI",
            "host",
        ),
        ("KERNPOW KERNSERV MONPOW", "power"),
        (
            "KERNMNTF KERNMNT EXT_FS R_EXT_FS_ABRT1 R_EXT_FS_IO R_EXT_INODE2 R_SCSI0 MPT N_NFS N_LUS_LBUG",
            "storage",
        ),
        ("KERNNOETH KERNSOCK KERNCON KERNREC KERNEXT APPTORUS VAPI", "nic"),
        ("LINKDISC LINKIAP LINKPAP LINKBLL", "cable"),
        ("APPSEV APPALLOC KERNPAN KERNTERM MASNORM MONILL PBS_CON N_PBS_BFD2 N_OOM R_PAN N_AUTH", "software"),
        ("R_MTT R_SERR NEWTAG", "unknown"),
    ],
)
def test_what_a_tag_is_about(tags: str, component: str) -> None:
    """As the lines with the tag read; Thunderbird's, with and without what its raw files add."""
    events = read("".join(line(tag) for tag in tags.split())).events
    assert events["code"].to_list() == tags.split()
    assert set(events["component"]) == {component}
    assert set(events["severity"]) <= {"down", "app"}


@pytest.mark.parametrize(
    ("place", "scope", "node", "domain"),
    [
        (CHIP, "node", CHIP, None),
        ("R04-M1-N4-I:J18-U11", "node", "R04-M1-N4-I:J18-U11", None),
        ("R04-M1-N4", "domain", None, "R04-M1-N4"),
        ("R04", "domain", None, "R04"),
        ("dn228", "node", "dn228", None),
    ],
)
def test_a_location_that_names_a_chip_is_a_node(
    place: str, scope: str, node: str | None, domain: str | None
) -> None:
    """What is shorter is a rack, midplane or board."""
    (event,) = read(line(place=place)).events.to_dicts()
    assert (event["scope"], event["node"], event["domain"]) == (scope, node, domain)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("free text\n", "no line of Blue Gene/L or Thunderbird"),
        (line(clock="noon"), "no clock time after the node"),
        (line(epoch="1118536328"), "epoch and clock time differ"),
        (line(epoch="100000327", clock="1973-03-03-09.52.07.581048"), "before 2000-01-01"),
        (line(epoch="9999999927", clock="2286-11-20-17.45.27.581048"), "in the future"),
        (line(place="NULL"), "no node name"),
    ],
)
def test_a_line_that_cannot_be_dated_or_placed_is_refused(text: str, reason: str) -> None:
    """The epoch is checked by the minutes and seconds of the clock, whatever the zone."""
    parsed = read(line() + text)
    assert parsed.events.height == 1
    assert parsed.rejects["reason"].to_list()[0].startswith(reason)


def test_information_needs_no_place() -> None:
    """A line without an alert is kept even when it names no location."""
    (event,) = read(line("-", place="NULL")).events.to_dicts()
    assert (event["node"], event["domain"], event["severity"]) == (None, None, "info")


def test_a_log_without_such_a_line_is_another_log() -> None:
    """One error for the file, not a reject a line."""
    with pytest.raises(InputError, match="log: no line of Blue Gene/L"):
        read("Jun 11 17:32:07 dn228 kernel: text\n")


@pytest.mark.shared
def test_d17_epochs_date_the_lines(shared_dir: Path) -> None:
    """Epoch and microseconds of the clock give the instant; the clock agrees with Los Angeles throughout."""
    text, wanted = case(shared_dir, "D17", "BGL.log")
    parsed = read(text)
    events = parsed.events.to_dicts()
    assert parsed.rows_read == len(events) == wanted["lines"]
    alerts = [event["code"] for event in events if event["severity"] != "info"]
    assert (len(alerts), alerts) == (wanted["alerts"], wanted["alert_labels"])
    untagged = [f"- {line.partition(' ')[2]}\n" for line in text.splitlines() if " FATAL " in line]
    assert (set(read("".join(untagged)).events["severity"]) == {"info"}) is wanted["fatal_word_is_not_label"]
    assert events[0]["t_start"].isoformat() + "Z" == wanted["ts_line1_utc"]
    zone = ZoneInfo(wanted["zone"])
    offsets = []
    for event, told in zip(events, text.splitlines(), strict=True):
        local = event["t_start"].replace(tzinfo=UTC).astimezone(zone)
        assert f"{local:%Y-%m-%d-%H.%M.%S.%f}" == told.split()[4]
        offsets.append(-int((local.utcoffset() or zone.utcoffset(None)).total_seconds()))
    assert offsets == wanted["offset_s_by_line"]


@pytest.mark.shared
def test_d18_the_site_does_not_date_the_lines(shared_dir: Path) -> None:
    """Thunderbird's clock was eight hours behind, whatever the zone of its site: the epoch dates it."""
    text, wanted = case(shared_dir, "D18", "Thunderbird.log")
    events = read(text).events
    assert {instant.isoformat() + "Z" for instant in events["t_start"]} == {wanted["ts_utc"]}
    hour = int(text.split()[6][:2])
    assert (events["t_start"][0].hour - hour) * 3600 == wanted["offset_s"] != wanted["expected_if_mountain_s"]
    assert events["node"].unique().to_list() == ["dn228"]
    assert set(events["severity"]) == {"info"}


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a log, every line is accounted for."""
    survives(bgl, SAMPLE, Options())
