"""Reading query files: parents, parameters, order, and running them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest

from pipeline.errors import InputError
from pipeline.lake import sql


def query(name: str, body: str, folder: str = "3_metrics") -> sql.Query:
    return sql.Query(name, folder, Path(f"{name}.sql"), body, {})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("select 1", ""),
        ("select * from a", "a"),
        ("from a", "a"),
        ("from a select x where y", "a"),
        ("select * from a join b using (x) left join c on c.y = a.y", "a b c"),
        ("select * from a asof left join b on b.x = a.x and b.t <= a.t", "a b"),
        ("select * from a, lateral (select * from b where b.x = a.x)", "a b"),
        ("select * from a union all by name select * from b", "a b"),
        ("select * from a except (select * from b intersect select * from c)", "a b c"),
        ("select * from a where exists (select 1 from b where b.x = a.x)", "a b"),
        ("select * from a where x in (select x from b) and y > (select max(y) from c)", "a b c"),
        ("select (select count(*) from b) as n, x from a order by (select 1 from c)", "a b c"),
        ("with a as (select * from a) select * from a", "a"),
        ("with a as (select * from a), b as (select * from a) select * from b", "a"),
        ("with x as (select * from a), y as (select * from x join b using (k)) select * from y", "a b"),
        ("with x as (with y as (select * from a) select * from y) select * from x", "a"),
        ("with x as (with y as (select * from a) select * from y) select * from x, y", "a y"),
        ("select * from (with x as (from a) from x) join x using (k)", "a x"),
        ("with x as (from a) select * from b where exists (from x)", "a b"),
        ("with x as (from a) select * from (select * from (select * from x))", "a"),
        ("with recursive n as (select 1 as i union all select i + 1 from n) select * from n, a", "a"),
        ("select * from f('x') join a using (k)", "a f"),
        ("select * from range(3) join generate_series(1, 2) on true, unnest([1])", ""),
        ("select * from a where text = 'from b' -- from c\n/* from d */", "a"),
        ("select * from a where x = $one and y = $two", "a"),
        ("pivot a on x in (1, 2) using sum(y)", "a"),
        ("select * from (values (1)) as v(x)", ""),
        ('select * from "a b"', "a b!"),
    ],
)  # fmt: skip
def test_parents_are_what_a_query_reads(body: str, expected: str) -> None:
    """Parents are tables and table functions, however they are reached; common table expressions are not."""
    wanted = {expected[:-1]} if expected.endswith("!") else set(expected.split())
    assert sql.parents(body) == wanted


@pytest.mark.parametrize("body", ["select", "drop table a", "select 1; select 2x from", "copy a to 'b'"])
def test_parents_of_what_is_no_select_is_a_clear_error(body: str) -> None:
    """A file that is not one SELECT is refused."""
    with pytest.raises(InputError, match="not one SELECT"):
        sql.parents(body)


def test_parameters_are_those_outside_texts_and_comments() -> None:
    """`$name` in a text, a quoted name or a comment is no parameter; each counts once, in order."""
    body = "select $b, '$c', 'it''s $d', \"$e\" -- $f\n/* $g\n$h */ from t where x = $a and $b = '--' || $i"
    assert query("q", body).parameters == ("b", "a", "i")


def test_parameters_are_replaced_where_they_are_parameters() -> None:
    """Replacing touches parameters only; a replacement is not looked at again."""
    body = "select $a, '$a', $ab -- $a"
    assert query("q", body).with_parameters({"a": "$ab", "ab": "2"}) == "select $ab, '$a', 2 -- $a"


def test_header_lines_continue_until_the_first_line_of_sql(tmp_path: Path) -> None:
    """A header value may go on in the next comment line; comments below are not header."""
    file = tmp_path / "q.sql"
    file.write_text("-- title: A\n--   and B\n-- grain: row\n\nselect 1 as x -- reads: no\n-- units: no\n;\n")
    read = sql.read(file)
    assert read.header == {"title": "A and B", "grain": "row"}
    assert read.name == "q" and read.body.startswith("select 1 as x") and not read.body.endswith(";")


def chain(edges: Mapping[str, str]) -> dict[str, sql.Query]:
    """Return queries by name, each reading the names given."""
    return {
        name: query(name, f"select * from {reads.replace(' ', ', ')}" if reads else "select 1 as x")
        for name, reads in edges.items()
    }


def test_ordered_puts_parents_first() -> None:
    """The order follows from the SQL, not from names; tables that exist already are left out."""
    queries = chain({"a": "c given", "b": "", "c": "b"})
    assert [q.name for q in sql.ordered(queries, given=["given"])] == ["b", "c", "a"]


@pytest.mark.parametrize("edges", [{"a": "a2", "a2": "a3", "a3": "a"}, {"a": "a"}])
def test_a_cycle_is_named(edges: dict[str, str]) -> None:
    """A cycle, also of one query, is refused with its members."""
    with pytest.raises(InputError, match=r"cycle: a -> .*a\b"):
        sql.ordered(chain(edges))


def test_an_unknown_table_is_named_with_its_query() -> None:
    """A table nobody makes is refused: which file, which name, what there is."""
    with pytest.raises(InputError, match=r"3_metrics/a\.sql: reads unknown 'nope'[\s\S]*expected: a, given"):
        sql.ordered(chain({"a": "nope"}), given=["given"])


def test_two_queries_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name stands for one query in all folders."""
    for folder in ("3_metrics", "4_outcomes"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.sql").write_text("select 1")
    monkeypatch.setattr(sql.resources, "folder", lambda _: tmp_path)
    with pytest.raises(InputError, match="a second query named 'same'"):
        sql.load()


def test_build_gives_each_query_its_own_parameters() -> None:
    """DuckDB refuses unused parameters; a query gets those it names, its children see its table."""
    first = query("first", "select $x as x")
    second = query("second", "select x + $y as z from first")
    with sql.connect() as con:
        sql.build(con, [first, second], {"x": 1, "y": 2, "unused": 3})
        assert con.execute("select z from second").fetchall() == [(3,)]


def test_connections_are_utc_and_offline() -> None:
    """No result depends on the machine's zone, and nothing is fetched from outside."""
    with sql.connect() as con:
        ((zone, install, load),) = con.execute(
            "select current_setting('TimeZone'), current_setting('autoinstall_known_extensions'),"
            " current_setting('autoload_known_extensions')"
        ).fetchall()
        assert (zone, install, load) == ("UTC", False, False)
        with pytest.raises(duckdb.Error):
            con.execute("select * from read_xlsx('x.xlsx')")
