"""The source `mira`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import mira
from tests.ingest.mutations import survives

SAMPLE = (resources.folder("samples") / "mira.csv").read_text(encoding="utf-8")
GOOD = SAMPLE.splitlines()[1]
UTC_ZONE = Options(tz="UTC")
PERIODS = "2013-04-01 14:00:09,2013-04-02 01:13:42\n2013-04-08 14:00:17,2013-04-09 00:34:52\n"


def read(text: str | bytes, options: Options = UTC_ZONE) -> Parsed:
    return mira.read(text.encode() if isinstance(text, str) else text, "mira.csv", options)


def test_the_control_system_says_what_is_lost() -> None:
    """FATAL ends a job; hardware is lost where an action put it in error; a warning is information."""
    events = read(SAMPLE).events
    assert events["severity"].to_list() == ["down", "app", "info"]
    assert events["component"].to_list() == ["host", "host", "nic"]
    assert events["code"].to_list() == ["000400ED", "00090216", "00061001"]
    assert events["reason"][1] == "END_JOB,A node stopped answering, twice", "commas of the message stay"
    assert str(events["t_start"][0]) == "2015-04-20 21:38:10.221308"


@pytest.mark.parametrize(
    ("categories", "component"),
    [
        ("BQC DDR Card Node_Board IO_Board Service_Card PCI Clocks Clock_FPGA Icon Palomino", "host"),
        ("BQL Message_Unit InfiniBand Infiniband Ethernet", "nic"),
        ("Cable Optical_Module", "cable"),
        ("DCA AC_TO_DC_PWR DC_TO_DC_PWR", "power"),
        ("Coolant_Monitor Fan Fan_Assembly Temp_Sensor", "cooling"),
        ("Software_Error Process Job ELF_Image Block", "software"),
        ("Other", "unknown"),
    ],
)
def test_every_category_of_the_data_dictionary_is_known(categories: str, component: str) -> None:
    """Padded with blanks, as the database writes them."""
    before, _, rest = GOOD.partition("BQC")
    assert rest
    lines = [f"{before}{name:<16}{rest[rest.index(',') :]}" for name in categories.split()]
    events = read("\n".join(lines)).events
    assert events.height == len(lines)
    assert set(events["component"]) == {component}


def test_a_header_is_no_row() -> None:
    """Some exports begin with the names of the columns."""
    header = "RECID,MSG_ID,CATEGORY,COMPONENT,SEVERITY,EVENT_TIME\n"
    assert read(header + SAMPLE).events.height == read(SAMPLE).events.height


@pytest.mark.parametrize(
    ("place", "scope", "node", "domain"),
    [
        ("R00-M1-N03-J17", "node", "R00-M1-N03-J17", None),
        ("R00-M1-N03-J17-C05", "node", "R00-M1-N03-J17", None),
        ("Q0G-I1-J04", "node", "Q0G-I1-J04", None),
        ("R1F-M1-N00-U07", "domain", None, "R1F-M1-N00"),
        ("R1F-M1", "domain", None, "R1F-M1"),
        ("R1F-B1-P2", "domain", None, "R1F"),
        ("Q2G-I6", "domain", None, "Q2G-I6"),
    ],
)
def test_a_location_with_a_card_is_a_node(
    place: str, scope: str, node: str | None, domain: str | None
) -> None:
    """What is shorter is the board, midplane, rack or drawer that it lies in."""
    (event,) = read(GOOD.replace("R00-M1-N03-J17", place)).events.to_dicts()
    assert (event["scope"], event["node"], event["domain"]) == (scope, node, domain)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("FATAL", "BAD  ", "severity is not"),
        ("2015-04-20-22.00.00.000001", "2015-04-20 22:00:00", "not a time such as"),
        ("2015-04-20-22.00.00.000001", "2015-02-30-22.00.00.000001", "no such date"),
        ("2015-04-20-22.00.00.000001", "0001-01-01-00.00.00.000000", "before 2000-01-01"),
        ("R00-M1-N03-J17", "", "no node name"),
        (",F, 900000002                       ,74", "", "no RAS row"),
    ],
)
def test_a_damaged_row_is_refused(old: str, new: str, reason: str) -> None:
    """What cannot be read is refused with the reason."""
    assert old in GOOD
    parsed = read(SAMPLE + GOOD.replace(old, new))
    assert parsed.rejects["row"].to_list() == [4]
    assert parsed.rejects["reason"][0].startswith(reason)


def test_maintenance_is_planned_and_of_the_whole_machine() -> None:
    """A period is an interval of component planned; a damaged one is refused."""
    parsed = read(
        PERIODS + "2013-04-15 14:00:04,\n,2013-04-15 21:27:55\n2013-04-02 00:00:00,2013-04-01 00:00:00\n"
    )
    assert parsed.rejects["reason"].to_list() == ["end is empty", "start is empty", "end before start"]
    event = parsed.events.to_dicts()[0]
    assert (event["kind"], event["component"], event["scope"]) == ("interval", "planned", "domain")
    assert (event["domain"], event["node"]) == ("Mira", None)
    assert (event["t_end"] - event["t_start"]).total_seconds() == 40_413


def test_the_zone_must_be_given() -> None:
    """Times without a zone are one error for the file, which names the option."""
    for text in (SAMPLE, PERIODS):
        with pytest.raises(InputError, match=r"(?s)mira.csv.*--tz"):
            read(text, Options())
    with pytest.raises(InputError, match=r"mira\.csv: no row of RAS events"):
        read("1,2,3,4\n")


@pytest.mark.shared
def test_the_public_files_are_read_whole(shared_data: Path) -> None:
    """Three RAS rows, and 161 periods in order, one of which is told twice with another end."""
    folder = shared_data / "mira"
    rows = read((folder / "ras_sample_rows.csv").read_bytes())
    assert rows.events["severity"].to_list() == ["down", "down", "app"]
    assert rows.rejects.is_empty()
    periods = read((folder / "maintenance_periods.csv").read_bytes())
    assert (periods.events.height, periods.rejects.height) == (161, 0)
    assert (periods.events["t_start"][1:] < periods.events["t_end"][:-1]).sum() == 1


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(mira, SAMPLE.encode(), UTC_ZONE)
    survives(mira, PERIODS.encode() * 2, UTC_ZONE, examples=80)


@pytest.mark.parametrize("line", ["[12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1", "n[01-02,04]", "1,2"])
def test_lines_with_a_comma_are_no_periods(line: str) -> None:
    """Another log is a mistake of the file, not refused rows."""
    with pytest.raises(InputError, match="no row of RAS events or of maintenance"):
        read(f"{line}\n{line}\n")
