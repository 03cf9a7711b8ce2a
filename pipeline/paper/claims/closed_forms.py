"""Young, Daly, the renewal form and the bounds that follow from them, with the numbers of their sources.

Easy to get wrong: a number marked "derived" is no measurement; it is the exact or first-order value that our
functions and the replay must give.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from pipeline.paper import forms, jobs
from pipeline.paper.rows import Context, Row, of_mean
from pipeline.replay.interval import daly_us, young_us
from pipeline.units import S_PER_H, US_PER_H, US_PER_S

MIN_S = 60
DERIVED = "derived: renewal theory, model.md section 7"
NOTES = "public notes on the cost of checkpoints, as quoted"
FT = "arXiv 2602.00277 (FT-HSDP, about 100,000 GPUs), abstract"
STALL_NOTES = "changlan.org, notes on the best interval"
M_H, SAVE_S = Fraction("7.9"), 36


def _intervals() -> list[Row]:
    mtbi, save = M_H * US_PER_H, SAVE_S * US_PER_S
    return [
        Row(
            name="Young's interval, M 7.9 h, save 36 s",
            source=NOTES,
            printed="23.9",
            unit="min",
            ours=young_us(mtbi, save) / US_PER_S / MIN_S,
            how="pipeline.replay.interval.young_us",
            explanation="It is 23.8495, which rounds to 23.8; the notes round 23.85 a second time.",
        ),
        Row(
            name="Daly's interval, M 7.9 h, save 36 s",
            source="derived: Daly 2006, model.md section 7",
            printed="23.45",
            unit="min",
            ours=daly_us(mtbi, save) / US_PER_S / MIN_S,
            how="pipeline.replay.interval.daly_us",
        ),
        Row(
            name="best interval, faults every 6,000 s and 600 s to repair, save 10 s",
            source=STALL_NOTES,
            printed="6",
            unit="min",
            ours=young_us(Fraction(6_600) * US_PER_S, 10 * US_PER_S) / US_PER_S / MIN_S,
            how="pipeline.replay.interval.young_us",
            reason="Its M is the time from fault to fault, 6,600 s.",
        ),
        Row(
            name="the same in steps of 15 s",
            source=STALL_NOTES,
            printed="24",
            unit="steps",
            ours=young_us(Fraction(6_600) * US_PER_S, 10 * US_PER_S) / US_PER_S / 15,
            how="pipeline.replay.interval.young_us",
        ),
    ]


def _shares() -> list[Row]:
    def useful(mttf_h: float, printed: str) -> Row:
        return Row(
            name=f"useful time, M {mttf_h:g} h, save 0.01 h, restart 0.25 h, queue 0.05 h",
            source=NOTES,
            printed=printed,
            unit="fraction",
            ours=forms.multiplicative_frac(mttf_h, 0.01, 0.25, 0.05),
            how="pipeline.paper.forms.multiplicative_frac",
        )

    return [
        useful(7.9, "0.919"),
        useful(1.8, "0.786"),
        Row(
            name="saves and rework at Young's interval, M 2.3 h, save 60 s",
            source="derived: Young 1974, model.md section 7",
            printed="12.04",
            unit="%",
            ours=100 * forms.waste_at_best_frac(2.3 * S_PER_H, 60),
            how="pipeline.paper.forms.waste_at_best_frac",
        ),
        Row(
            name="the same by the exact form",
            source=DERIVED,
            printed="11.57",
            unit="%",
            ours=100 * (1 - forms.renewal_frac(2.3 * S_PER_H, sqrt(2 * 60 * 2.3 * S_PER_H), 0, 60)),
            how="pipeline.paper.forms.renewal_frac",
        ),
    ]


def _stalls() -> list[Row]:
    mtbf_min = forms.mtbf_of_stall(0.44, 10)
    return [
        Row(
            name="time between faults at which a 10-min stall leaves 44 %",
            source="derived: arXiv 2602.00277, model.md section 7",
            printed="17.9",
            unit="min",
            ours=mtbf_min,
            how="pipeline.paper.forms.mtbf_of_stall",
        ),
        Row(
            name="most that a 3-min stall can leave at that rate",
            source=FT,
            printed=">= 80",
            unit="%",
            ours=100 * forms.stall_bound_frac(mtbf_min, 3),
            how="pipeline.paper.forms.stall_bound_frac",
            reason="The paper reaches 80 %; a bound below that would contradict it.",
        ),
    ]


def _renewal(seeds: int) -> list[Row]:
    mttf_s = forms.mttf_h(16_384, 6.50) * S_PER_H  # 6.50 per 1,000 node-days, arXiv 2410.21680

    def row(interval_min: int, printed: str) -> Row:
        times = jobs.times_of(interval_s=interval_min * MIN_S, restart_s=5 * MIN_S)
        draws = [jobs.drawn_goodput_frac(mttf_s, 200 * mttf_s, times, seed) for seed in range(seeds)]
        found = of_mean(draws)
        return Row(
            name=f"replay against the renewal form, saves every {interval_min} min, restart 5 min",
            source=DERIVED,
            printed=printed,
            unit="fraction",
            ours=found.mean,
            low=found.low,
            high=found.high,
            how="pipeline.paper.jobs.drawn_goodput_frac",
            reason="2,048 nodes at 6.50 faults per 1,000 node-days.",
        )

    return [row(5, "0.9329"), row(60, "0.7144")]


def rows(context: Context) -> list[Row]:
    """Return intervals, shares, bounds, and the replay against the exact form."""
    return [*_intervals(), *_shares(), *_stalls(), *_renewal(context.seeds)]
