"""The answer in words: from rows of the query `headline` to the page's cards and the command's last lines.

In: rows of `headline` and whether the log holds app-level faults. Out: text. Numbers come from the rows; this
module only rounds them. A share is of the pool's GPU-hours; differences are in percentage points.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import INTERVAL_RULES
from pipeline.perf import pace
from pipeline.report import theme
from pipeline.report.theme import percent, plural, points, short, spread, whole
from pipeline.schema import BUCKET_MEANING

if TYPE_CHECKING:
    from pipeline.config import Scenario
    from pipeline.lake.store import Record

Row = dict[str, Any]

RESPONSE_WORDS = {
    "rigid": "every replica must be whole, else the job waits",
    "dp-drop": "a replica that lost a group is left out",
    "ntp": "a wounded replica goes on at a smaller TP degree with fewer samples",
    "ntp-pw": "a wounded replica goes on at a smaller TP degree; its survivors draw more power to keep pace",
    "recycle": "the peers of a lost stage do its samples, in the idle time of their pipelines first",
    "oobleck": "a wounded replica goes on as a shorter pipeline; the others take over part of its samples",
}
LOWER_BOUND = (
    "The log holds no app-level fault (a crash or hang that takes no GPU away). The interruptions counted "
    "here are a lower bound, and goodput is an upper bound in that respect."
)
ASSUMED = (
    "{} at a rate of {:g} per 1,000 node-days {} (app_faults_per_1000_node_d in the scenario), "
    "beside {} in the trace. Their number and instants are drawn, not observed."
)
ALL_DOWN = (
    "Every outage counts as GPUs down, as the source says. Some kinds, such as a fan or a redundant power "
    "supply, may leave a node computing; [trace.severity] in the scenario tells them apart."
)
INTERVAL = (
    "The interval between saves is the best one for the failures that did happen (hindsight): a job that "
    "does not know them beforehand does a little worse."
)
IDEAL_PACE = (
    "A group at a reduced degree t is taken to be TP/t slower, no more. That flatters it where attention "
    "heads or shards do not divide evenly."
)
TABLE_PACE = "How much slower a group is at a reduced degree was measured ({}): {}."
MODEL_PACE = (
    "How much slower a group is at a reduced degree was computed from the model's shape and the GPU's data "
    "sheet{}: {}."
)
RECYCLE = (
    "recycle is an upper bound: it takes all idle time in pipelines to be usable, and the memory for that to "
    "be there."
)
TEMPLATES = (
    "A stage of a shorter pipeline is taken to be slower by as much as it holds more layers, no more. That "
    "flatters it where layers do not divide evenly."
)
BOOST = (
    "ntp-pw needs racks that let surviving GPUs draw up to {:g} times their design power, with {} of "
    "rack power in reserve. Where they make up for failed GPUs, faster repairs bring little, or even a "
    "little less: more GPUs at work are more GPUs that can fail."
)
MAY_COMPUTE = (
    "Every outage counts as GPUs down, as the source says. These kinds may leave a node computing: {}. "
    "The answer is given both ways."
)
_WHEN = {
    "elastic": "if the global batch may shrink",
    "pause": "if it is fixed and the job waits",
    "stretch": "if it is fixed and iterations get longer",
}
NO_LOG = "hours of the window without a log"
UNCOVERED_FRAC = 0.05  # a quiet week at the ends of a window of months is no gap
HINDSIGHT = "Each policy's spare domains were chosen with hindsight on the same failures."
ONE_PERIOD = (
    "The range over placements covers where the failed nodes lie in domains, not another period of failures."
)
DRAWS = "Further draws are other failures of the same kind, at the same split; their range is no bound."


def cards(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return what the page says for each batch rule, best first."""
    return [
        {
            "batch": row["batch"],
            "rule": theme.BATCH_WORDS.get(row["batch"], row["batch"]),
            "policy": row["policy"],
            "goodput": percent(row["goodput_frac"]),
            "words": RESPONSE_WORDS.get(row["response"], ""),
            "held": f"{_spares(row)}, {plural(row['dp'], 'replica')} (DP)",
            "items": [
                ("Kept", kept(row)),
                ("How sure", sure(row)),
                ("Largest loss", loss(row)),
                ("Main cause", component(row)),
                ("Half the repair time", half_repair(row)),
                *([("If wounded nodes compute", may_compute(row))] if may_compute(row) else []),
            ],
        }
        for row in rows
    ]


def lead(rows: Sequence[Row]) -> str:
    """Return the answer in one or two sentences."""
    if not rows:
        return "No policy was replayed."
    parts = [
        f"{percent(row['goodput_frac'])} {_WHEN.get(row['batch'], 'under ' + row['batch'])}" for row in rows
    ]
    policies = list(dict.fromkeys(_leaders(row) for row in rows))
    if len(policies) == 1:
        rules = " under every batch rule" if len(rows) > 1 else ""
        verb = "keep" if " and " in policies[0] else "keeps"
        return f"{policies[0]} {verb} most of the pool's GPU-hours{rules}: {theme.listing(parts)}."
    told = [f"{part}, by {_leaders(row)}" for row, part in zip(rows, parts, strict=True)]
    return f"The most that is kept of the pool's GPU-hours: {'; '.join(told)}."


def _leaders(row: Row) -> str:
    """Return the best policy, with the next one when both keep the same."""
    return f"{row['policy']} and {row['next_policy']}" if row["lead_frac"] == 0 else str(row["policy"])


def warnings(quality: Sequence[Row]) -> list[str]:
    """Return what is not in the answer: refused rows with the main reason, unplaced nodes and outages."""
    counts = {row["item"]: row for row in reversed(quality)}
    found = []
    refused = counts.get("rows rejected")
    if refused and refused["count"]:
        why = counts["rejected because"]
        most = ", most of them" if 2 * why["count"] > refused["count"] else ", for example"
        because = f"{'' if why['count'] == refused['count'] else most} because: {why['reason']}"
        share = f"{whole(refused['count'])} of {whole(refused['of_count'])} rows of the log"
        found.append(f"{share} were rejected and are not in the answer{because}")
    if counts["clears of no open fault"]["count"]:
        found.append(f"{plural(counts['clears of no open fault']['count'], 'clear')} closed no open fault")
    for item, words in (
        ("unplaced nodes", "fill no whole domain and are outside the pool"),
        ("unplaced outages", "lie on no GPU of the pool and count for nothing"),
    ):
        row = counts[item]
        if row["count"]:
            found.append(f"{whole(row['count'])} of {whole(row['of_count'])} {item.split()[1]} {words}")
    planned = counts.get("planned work set aside")
    if planned:
        verb = "is" if planned["count"] == 1 else "are"
        found.append(
            f"{plural(planned['count'], 'outage')} of planned work {verb} left out: it is no failure"
        )
    bare = [row["share_frac"] for row in quality if row["item"] == NO_LOG and row["share_frac"]]
    if sum(bare) > UNCOVERED_FRAC:
        found.append(
            f"{percent(sum(bare))} of the window lies before the first row of the log or after its last: "
            "failures there, if any, are not counted"
        )
    return found


def notes(scenario: Scenario, faults: Row) -> list[str]:
    """Return what a reader must know beside the numbers."""
    found = [assumed(scenario, faults) or ("" if faults["app_faults"] else LOWER_BOUND)]
    costs = [policy.costs for policy in scenario.policies]
    if (
        any(cost.checkpoint_interval_s in INTERVAL_RULES for cost in costs)
        and not scenario.trace.is_synthetic
    ):
        found.append(INTERVAL)
    if any(policy.reduced_tp for policy in scenario.policies):
        found.append(_pace_note(scenario))
    used = {policy.response for policy in scenario.policies}
    if "recycle" in used:
        found.append(RECYCLE)
    if "oobleck" in used and scenario.step_time.kind != "model":
        found.append(TEMPLATES)
    if any(policy.response == "ntp-pw" for policy in scenario.policies):
        found.append(BOOST.format(scenario.power.boost_cap, percent(scenario.power.rack_headroom_frac)))
    chosen = scenario.trace.severity or scenario.trace.exclude or scenario.trace.preset
    if scenario.trace.may_compute:
        found.append(MAY_COMPUTE.format(theme.listing(scenario.trace.may_compute)))
    elif faults["outages"] and faults["down"] == faults["outages"] and not chosen:
        found.append(ALL_DOWN)
    doubts = [HINDSIGHT]
    if len(scenario.cluster.placement_seeds) > 1:
        doubts.append(ONE_PERIOD)
    if scenario.trace.is_synthetic and scenario.trace.redraws:
        doubts.append(DRAWS)
    return [*filter(None, found), " ".join(doubts)]


def _pace_note(scenario: Scenario) -> str:
    """Return where the pace at reduced degrees is from, with each one beside TP/t."""
    kind, measured = scenario.step_time.kind, scenario.step_time.measured
    if kind == "ideal":
        return IDEAL_PACE
    tp = scenario.job.tp
    told = theme.listing(
        [
            f"TP{degree} {float(found):.3f} times (TP/t: {tp / degree:.3f})"
            for degree, found in pace.paces(scenario).items()
        ]
    )
    if kind == "table":
        return TABLE_PACE.format(Path(scenario.step_time.path or "").name, told)
    return MODEL_PACE.format(", calibrated on measured steps" if measured else "", told)


def assumed(scenario: Scenario, faults: Row) -> str:
    """Return how many app-level faults are assumed and at what rate; empty when none are."""
    rate = scenario.trace.assumed_per_1000_node_d
    if not rate:
        return ""
    count = faults["assumed_app_faults"]
    verb = "is assumed" if count == 1 else "are assumed"
    return ASSUMED.format(
        plural(count, "app-level fault"),
        rate,
        verb,
        whole(faults["logged_app_faults"]) if faults["logged_app_faults"] else "none",
    )


def headroom(scenario: Scenario, records: Sequence[Record]) -> list[str]:
    """Return what each reduced degree needs to keep the healthy pace, when a policy boosts power."""
    if not any(policy.response == "ntp-pw" for policy in scenario.policies):
        return []
    rows: list[Row] = next((r.facts["least_headroom"] for r in records if "least_headroom" in r.facts), [])
    given = scenario.power.rack_headroom_frac
    found = []
    for row in rows:
        if row["power_tdp"] is None:
            found.append(f"TP {row['degree']}: cannot keep the healthy pace within the boost cap.")
            continue
        enough = "within" if row["headroom_frac"] <= given else "beyond"
        found.append(
            f"TP {row['degree']}: keeps the healthy pace at {row['power_tdp']:.3f} TDP a GPU, with at least "
            f"{percent(row['headroom_frac'])} of rack headroom ({enough} the {percent(given)} given)."
        )
    return found


def lines(
    rows: Sequence[Row], quality: Sequence[Row], *, app_faults: bool, assumption: str = ""
) -> list[str]:
    """Return the answer as plain lines for a terminal; `assumption` tells of assumed app-level faults."""
    found = []
    for row in rows:
        share = f"{percent(row['goodput_frac'])} of the pool's GPU-hours"
        found += [
            f"{row['batch']} batch: {row['policy']} keeps {share}, {_spares(row)}",
            f"  how sure: {sure(row)}",
            f"  kept: {kept(row)}",
            f"  largest loss: {loss(row)}",
            f"  main cause: {component(row)}",
            f"  half the repair time: {half_repair(row)}",
        ]
        if may_compute(row):
            found.append(f"  if wounded nodes compute: {may_compute(row)}")
    if not rows:
        found.append("no policy was replayed")
    elif assumption:
        found.append(f"assumed: {assumption}")
    elif not app_faults:
        found.append("no app-level faults in the log: interruptions are a lower bound")
    found += [f"note: {text}" for text in warnings(quality)]
    return [plain(line) for line in found]


def plain(text: str) -> str:
    """Return text with the signs that every terminal has."""
    return text.replace(theme.THIN, " ").replace(theme.DASH, "-").replace(theme.MINUS, "-")


def kept(row: Row) -> str:
    """Return the GPU-hours kept."""
    return (
        f"{whole(row['productive_gpu_h_per_day'])} GPU-hours a day; "
        f"{short(row['productive_gpu_h'])} of {short(row['total_gpu_h'])} GPU-hours in all"
    )


def sure(row: Row) -> str:
    """Return the spread over placements and further draws, and the lead over the next policy."""
    if row["placements"] > 1:
        text = (
            f"{spread(row['goodput_low_frac'], row['goodput_high_frac'])} over {row['placements']} placements"
        )
    else:
        text = "one placement, so no spread is known"
    if row["redraws"]:
        draws = plural(row["redraws"], "further draw")
        text += f"; {spread(row['redraw_low_frac'], row['redraw_high_frac'])} over {draws} of failures"
    if row["next_policy"] is None:
        return f"{text}; the only policy under this rule"
    if not row["lead_frac"]:
        return f"{text}; level with {row['next_policy']}"
    where = f"in {row['lead_placements']} of {row['placements']}" if row["placements"] > 1 else "there"
    return f"{text}; {points(row['lead_frac']).lstrip('+')} ahead of {row['next_policy']} ({where})"


def loss(row: Row) -> str:
    """Return the largest loss and what it means."""
    bucket = row["largest_loss"]
    if bucket is None or not row["largest_loss_gpu_h"]:
        return "none"
    return f"{bucket}, {percent(row['largest_loss_frac'])} ({BUCKET_MEANING[bucket]})"


def component(row: Row) -> str:
    """Return the component whose absence would bring back most."""
    gain = row["worst_component_gain_gpu_h_per_day"]
    if gain is None:
        return "nothing failed"
    if gain <= 0:
        return "leaving out any one component brings back nothing"
    text = (
        f"{row['worst_component']} faults: without them {whole(gain)} GPU-hours a day more "
        f"({points(row['worst_component_gain_frac'])})"
    )
    second = row["second_component_gain_gpu_h_per_day"]
    return f"{text}; without {row['second_component']} faults {whole(second)}" if second else text


def half_repair(row: Row) -> str:
    """Return what repairs twice as fast would bring."""
    gain = row["half_repair_gain_gpu_h_per_day"]
    if gain is None:
        return "nothing to repair"
    if row["half_repair_gain_low_frac"] <= 0 <= row["half_repair_gain_high_frac"]:
        low, high = points(row["half_repair_gain_low_frac"]), points(row["half_repair_gain_high_frac"])
        if low == high:
            return "no change"
        return f"no clear change: {low.removesuffix(' points')} to {high} over placements"
    more = "more" if gain >= 0 else "fewer"
    low, high = points(row["half_repair_gain_low_frac"]), points(row["half_repair_gain_high_frac"])
    between = f", {low.removesuffix(' points')} to {high}" if row["placements"] > 1 and low != high else ""
    why = "" if gain >= 0 else ": more GPUs at work are more GPUs that can fail"
    return f"{whole(abs(gain))} GPU-hours a day {more} ({points(row['half_repair_gain_frac'])}{between}){why}"


def may_compute(row: Row) -> str:
    """Return the headline with the faults that may leave a node computing left out; empty without such."""
    if row["may_compute_goodput_frac"] is None:
        return ""
    return f"{percent(row['may_compute_goodput_frac'])} kept ({points(row['may_compute_gain_frac'])})"


def _spares(row: Row) -> str:
    """Return the domains held back, and those that fill no whole replica beside them."""
    held = plural(row["spare_domains"], "spare domain") if row["spare_domains"] else "no spare domain"
    return (
        f"{held}, {plural(row['idle_domains'], 'domain')} beyond the replicas"
        if row["idle_domains"]
        else held
    )
