"""Host lists: what Slurm's short form stands for, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import hostlist
from pipeline.hostlist import HostListError, expand

# (list, names), as `scontrol show hostnames` prints them
GOOD = [
    ("", []),
    ("login1", ["login1"]),
    ("c[1-2]", ["c1", "c2"]),
    ("b04-[09-10]", ["b04-09", "b04-10"]),
    ("node[8-11]", ["node8", "node9", "node10", "node11"]),
    ("n[008-010,3]", ["n008", "n009", "n010", "n3"]),
    ("n[099-101]", ["n099", "n100", "n101"]),
    ("node[001-002,010]-ib", ["node001-ib", "node002-ib", "node010-ib"]),
    ("nodeA,nodeB[001,003],nodeC", ["nodeA", "nodeB001", "nodeB003", "nodeC"]),
    ("rack[0-1]_blade[0-1]", ["rack0_blade0", "rack0_blade1", "rack1_blade0", "rack1_blade1"]),
    ("r[1-2]n[01-02]x[7]y", ["r1n01x7y", "r1n02x7y", "r2n01x7y", "r2n02x7y"]),
    ("[1-2]a", ["1a", "2a"]),
    ("a, b[1-2]\n c", ["a", "b1", "b2", "c"]),
    ("a,,b,", ["a", "b"]),
    ("a,a", ["a", "a"]),
    ("n[5-5]", ["n5"]),
]
# (list, what was found, what may stand there)
BAD = [
    ("n[3-1]", "the range 3-1 in 'n[3-1]' runs backwards", "1-3"),
    ("n[]", "'' between the brackets of 'n[]'", "numbers and ranges"),
    ("n[1-]", "'1-' between the brackets", "numbers and ranges"),
    ("n[-3]", "'-3' between the brackets", "numbers and ranges"),
    ("n[1-2-3]", "'1-2-3' between", "numbers and ranges"),
    ("n[a-c]", "'a-c' between", "numbers and ranges"),
    ("n[1, 2]", "' 2' between", "numbers and ranges"),
    ("n[\u0661-\u0663]", "between the brackets", "numbers and ranges"),
    ("n[1", "'[' without ']'", "brackets in pairs"),
    ("n1]", "']' without '['", "brackets in pairs"),
    ("n[1-[2-3]]", "a bracket within brackets", "brackets in pairs"),
    ("n[0-1000000]", "more than 1,000,000 hosts", "at most 1,000,000"),
    ("n[0-999999999999999999]", "more than 1,000,000 hosts", "at most 1,000,000"),
    ("n[1-" + "9" * 5000 + "]", "between the brackets", "at most 18 digits"),
    ("n" + "[0-9]" * 5000, "more than 1,000,000 hosts", "at most 1,000,000"),
    ("a[1-600000],b[1-600000]", "more than 1,000,000 hosts", "at most 1,000,000"),
]


@pytest.mark.parametrize(("text", "names"), GOOD)
def test_a_list_is_expanded_as_slurm_does(text: str, names: list[str]) -> None:
    """Padding is the width of a range's first number; several groups vary from the right."""
    assert expand(text) == names


@pytest.mark.parametrize(("text", "found", "expected"), BAD, ids=[text[:16] for text, _, _ in BAD])
def test_a_bad_list_is_told(text: str, found: str, expected: str) -> None:
    """A bad or huge range says what was found and what may stand there, at once and not after an hour."""
    with pytest.raises(HostListError) as caught:
        expand(text)
    assert found in caught.value.found
    assert expected in caught.value.expected
    assert len(str(caught.value)) < 400


def test_the_limit_counts_all_entries() -> None:
    """As many names as the limit are expanded, one more is refused."""
    assert len(expand("a[1-3],b", 4)) == 4
    with pytest.raises(HostListError, match="more than 4 hosts"):
        expand("a[1-3],b,c", 4)
    assert len(expand(f"n[1-{hostlist.LIMIT}]")) == hostlist.LIMIT


@pytest.mark.shared
def test_public_lists_have_their_published_expansion(shared_dir: Path) -> None:
    """Lists quoted in public issues expand to the names stated there."""
    folder = shared_dir / "cases" / "B06-hostlist-expansion"
    expected = json.loads((folder / "expected.json").read_text("utf-8"))["expected"]
    lists = (folder / "hostlists.txt").read_text("utf-8").split("\n")
    lists = [line for line in lists if line]
    assert [len(expand(line)) for line in lists] == expected["counts"]
    for item in expected["expanded"]:
        if isinstance(item["hosts"], list):
            assert expand(item["expr"]) == item["hosts"]


# -- against a naive expansion -------------------------------------------------------------------

_LITERAL = st.text("ab-_.1", max_size=3)
_RANGE = st.tuples(st.integers(0, 120), st.integers(0, 4), st.integers(1, 4), st.booleans())
_ENTRY = st.tuples(
    _LITERAL, st.lists(st.tuples(st.lists(_RANGE, min_size=1, max_size=3), _LITERAL), max_size=3)
)


def spelt(entry: tuple[str, list[tuple[list[tuple[int, int, int, bool]], str]]]) -> tuple[str, list[str]]:
    """Return an entry as Slurm writes it and its names, one digit string at a time."""
    text, names = entry[0], [entry[0]]
    for ranges, behind in entry[1]:
        items, numbers = [], []
        for first, more, width, is_alone in ranges:
            last = first if is_alone else first + more
            low = str(first).rjust(width, "0")
            items.append(low if is_alone else f"{low}-{str(last).rjust(width, '0')}")
            numbers += [str(number).rjust(len(low), "0") for number in range(first, last + 1)]
        text += f"[{','.join(items)}]{behind}"
        names = [name + number + behind for name in names for number in numbers]
    return text, names


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(entries=st.lists(_ENTRY, max_size=4))
def test_any_list_equals_its_naive_expansion(entries: list[tuple[str, list[object]]]) -> None:
    """However prefixes, groups, paddings and suffixes are joined, the names are those written out."""
    pairs = [spelt(entry) for entry in entries]
    assert expand(",".join(text for text, _ in pairs)) == [
        name for text, names in pairs if text for name in names
    ]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(text=st.text("[]-,0123 n\n", max_size=14))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    """No text raises anything but HostListError, or yields an empty name."""
    try:
        names = expand(text)
    except HostListError:
        return
    assert all(names)
