"""What stands in for what a log does not tell: assumed repair times, and whether planned work is a failure.

In: the records of stage 1 and a scenario's [trace]. Out: the tables `onset_only_sources` and
`assumed_repairs` and the parameters that the queries from events to outages take. Timelines and the bootstrap
both run those.
Source: model.md section 2, rules 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.config import PLANNED_DOWN, PLANNED_IGNORE, Trace
from pipeline.lake.store import Record
from pipeline.schema import COMPONENTS

if TYPE_CHECKING:
    import duckdb


def onset_only(records: Iterable[Record]) -> list[str]:
    """Return the sources among these records that tell no ends, sorted."""
    return sorted({record.facts["source"] for record in records if record.facts.get("ends") is False})


def planned_aside(records: Iterable[Record], trace: Trace) -> list[str]:
    """Return the sources whose planned work is no failure, sorted.

    By default all, but for those that say of themselves that theirs is one (PLANNED), and drawn traces.
    """
    if trace.planned == PLANNED_DOWN:
        return []
    told = [record.facts for record in records if "source" in record.facts]
    is_chosen = trace.planned == PLANNED_IGNORE
    return sorted({facts["source"] for facts in told if is_chosen or facts.get("planned") != PLANNED_DOWN})


def register(con: duckdb.DuckDBPyConnection, sources: Sequence[str], trace: Trace) -> None:
    """Give a connection the sources that tell no ends, and the assumed repair times, hours."""
    import pyarrow as pa

    hours = [trace.repair_h(component) for component in COMPONENTS]
    repairs = {"component": pa.array(COMPONENTS), "repair_h": pa.array(hours, pa.float64())}
    con.register("assumed_repairs", pa.table(repairs))
    con.register("onset_only_sources", pa.table({"source": pa.array(sources, pa.string())}))


def parameters(trace: Trace, gpus_per_node: int, planned_aside: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that fold rows into incidents, lay logs together and number GPUs."""
    return {
        "gpus_per_node": gpus_per_node,
        "fold_s": trace.fold_s,
        "cause_lead_s": trace.cause_lead_s,
        "planned_aside": list(planned_aside),
    }
