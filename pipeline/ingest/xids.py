"""What an Xid code means for availability: the shipped table, or the user's own in its place.

In: a code and the text of its line. Out: `Meaning`: severity, scope, component and the action that is asked
for. The table is `tables/xid.csv`; `--xid-table` replaces it whole.
Easy to get wrong: a code that is not listed is unknown, not fatal. NVLink5 codes (144-150) mean nothing by
themselves: unit, sub-code (bits 20-25 of the first word) and status (the second word) decide; where no rule
fits, the line's own Fatal or Nonfatal does. Status words of the units are bits, so a word that is no rule's
takes the worst of the rules whose bits it holds.
Source: NVIDIA's Xid catalogue of October 2025 as read by leptonai/gpud (Apache-2.0).
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import InputError, nearest
from pipeline.ingest.parsing import Options
from pipeline.schema import COMPONENTS, SCOPES, SEVERITIES

TABLE = Path(__file__).parent / "tables" / "xid.csv"
# Written here, so that another table is another version of every stage that reads it; a test keeps it true.
TABLE_SHA256 = "61af0da30c5ff00298fe063e60e8bd8faf745e9dacd7ad1d2cabb5b71cf45dcc"
COLUMNS = ("code", "unit", "subcode", "status", "severity", "scope", "component", "action", "name", "note")
OPTIONAL = ("unit", "subcode", "status", "action", "name", "note")
HIGHEST = 9_999

# UNIT Fatal XC0 i0 Link 14 (0x0215c5c6 0x00000000 ...); blanks vary, the link may be -1.
_NVLINK5 = re.compile(
    r"([A-Z][A-Z0-9_]+)\s+(Non-?fatal|Fatal)\b.*?\(\s*(0x[0-9a-f]{1,8})\s+(0x[0-9a-f]{1,8})", re.IGNORECASE
)
_CODE = re.compile(r"[0-9]{1,4}")
_SUBCODE = re.compile(r"[0-9]|[1-5][0-9]|6[0-3]")
_STATUS = re.compile(r"0x[0-9a-fA-F]{1,8}")
_COMMENT = "#"


class Meaning(NamedTuple):
    """What a code means: for what, how badly, and what mends it."""

    severity: str
    scope: str
    component: str
    action: str = ""


class Rule(NamedTuple):
    """What a unit's sub-code means at one status word."""

    status: int
    meaning: Meaning


class Table(NamedTuple):
    """Meanings by code, and the rules of NVLink5 by (code, unit, sub-code)."""

    codes: Mapping[int, Meaning]
    rules: Mapping[tuple[int, str, int], tuple[Rule, ...]]
    ruled: frozenset[int] = frozenset()

    def has_rules(self, code: int) -> bool:
        """Return whether the line's words decide what a code means."""
        return code in self.ruled

    def meaning(self, code: int, text: str) -> Meaning:
        """Return what a code means on a line with this text."""
        known = self.codes.get(code, UNKNOWN)
        hit = _NVLINK5.search(text) if code in self.ruled else None
        if hit is None:
            return known
        unit, word, first, second = hit.groups()
        subcode, status = int(first, 16) >> 20 & 0x3F, int(second, 16)
        rules = self.rules.get((code, unit.upper(), subcode), ())
        exact = [rule.meaning for rule in rules if rule.status == status]
        bits = [rule.meaning for rule in rules if rule.status and rule.status & status == rule.status]
        if exact or bits:
            return min(exact or bits, key=lambda meaning: SEVERITIES.index(meaning.severity))
        return known._replace(severity="down" if word.lower() == "fatal" else "info")


UNKNOWN = Meaning("info", "gpu", "unknown")


def meaning(code: int, text: str, options: Options) -> Meaning:
    """Return what an Xid means by the table that holds: the user's, else the shipped one."""
    return table(options).meaning(code, text)


def text_of(path: Path, where: str) -> str:
    """Return the text of a user's table; raise InputError, told at `where`, when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(where, f"cannot be read ({error})", "a CSV file in UTF-8") from None


def table(options: Options) -> Table:
    """Return the table that holds: the user's, else the shipped one."""
    return _shipped() if options.xid_table is None else _parsed(options.xid_table, "--xid-table")


@functools.cache
def _shipped() -> Table:
    return parse(TABLE.read_text(encoding="utf-8"), TABLE.name)


@functools.lru_cache(maxsize=4)
def _parsed(text: str, where: str) -> Table:
    return parse(text, where)


def parse(text: str, where: str) -> Table:
    """Return a table from CSV; raise InputError naming the line and the column of the first mistake."""
    # A comment becomes a blank line, which csv leaves out, so that line numbers stay those of the file.
    lines = ["" if line.startswith(_COMMENT) else line for line in text.removeprefix("\ufeff").splitlines()]
    reader = csv.reader(io.StringIO("\n".join(lines)), strict=True)
    codes: dict[int, Meaning] = {}
    rules: dict[tuple[int, str, int], list[Rule]] = {}
    header: list[str] = []
    try:
        for cells in reader:
            if not cells:
                continue
            place = f"{where} line {reader.line_num}"
            if not header:
                header = _header(cells, place)
                continue
            if len(cells) != len(header):
                found = f"{len(cells)} fields, the header has {len(header)}"
                raise InputError(place, found, "one field a column")
            _add(dict(zip(header, map(str.strip, cells), strict=True)), place, codes, rules)
    except csv.Error as error:
        raise InputError(f"{where} line {reader.line_num}", f"not valid CSV ({error})", "a CSV") from None
    if not codes:
        raise InputError(where, "no codes", ",".join(COLUMNS), f"copy the shipped {TABLE.name} and change it")
    ruled = frozenset(code for code, _, _ in rules)
    return Table(codes, {key: tuple(found) for key, found in rules.items()}, ruled)


def _header(cells: list[str], place: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    expected = ",".join(COLUMNS)
    hint = f"copy the shipped {TABLE.name} and change it; {', '.join(OPTIONAL)} may be left out"
    for name in COLUMNS:
        if name not in OPTIONAL and name not in header:
            raise InputError(place, f"no column {name!r}", expected, hint)
    for name in header:
        if name not in COLUMNS:
            raise InputError(place, f"column {name!r}", expected, nearest(name, COLUMNS) or hint)
        if header.count(name) > 1:
            raise InputError(place, f"column {name!r} twice", "each column once")
    return header


def _add(
    row: Mapping[str, str],
    place: str,
    codes: dict[int, Meaning],
    rules: dict[tuple[int, str, int], list[Rule]],
) -> None:
    for name, words in (("severity", SEVERITIES), ("scope", SCOPES), ("component", COMPONENTS)):
        if row[name] not in words:
            hint = nearest(row[name], words)
            raise InputError(f"{place} column {name}", f"found {row[name]!r}", ", ".join(words), hint)
    code = int(_fitting(row, "code", _CODE, "a whole number", place))
    known = Meaning(row["severity"], row["scope"], row["component"], row.get("action", ""))
    unit = row.get("unit", "")
    if not unit:
        if row.get("subcode") or row.get("status"):
            raise InputError(f"{place} column unit", "empty beside a sub-code", "the unit of the rule")
        if code in codes:
            raise InputError(f"{place} column code", f"{code} twice", "each code once, its rules with a unit")
        codes[code] = known
        return
    subcode = int(_fitting(row, "subcode", _SUBCODE, "0 to 63", place))
    status = int(_fitting(row, "status", _STATUS, "a word such as 0x00000001", place), 16)
    rules.setdefault((code, unit.upper(), subcode), []).append(Rule(status, known))


def _fitting(row: Mapping[str, str], name: str, pattern: re.Pattern[str], expected: str, place: str) -> str:
    text = row.get(name, "")
    if not pattern.fullmatch(text):
        raise InputError(f"{place} column {name}", f"found {text!r}", expected)
    return text
