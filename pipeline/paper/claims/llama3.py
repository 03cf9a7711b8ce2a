"""Llama-3 405B: how often the run stopped and the shares of its causes, from the preset (2407.21783).

Easy to get wrong: the printed percentages are those of the report's table, ours the counts over their sum.
"""

from __future__ import annotations

from pipeline.paper.rows import Context, Row
from pipeline.synth import presets
from pipeline.units import H_PER_D

SOURCE = "arXiv 2407.21783 table 5"
GPUS = 16_384
HOW = "pipeline.synth.presets.load"

# the table's words -> its percentage; the six largest causes
PRINTED = {
    "Faulty GPU": "30.1",
    "GPU HBM3 Memory": "17.2",
    "Software Bug": "12.9",
    "Network Switch/Cable": "8.4",
    "Host Maintenance": "7.6",
    "GPU SRAM Memory": "4.5",
}
_DOES_NOT_ADD_UP = "The printed percentages do not add up: 148 of 419 is 35.3 %. The preset uses the counts."


def rows(context: Context) -> list[Row]:  # noqa: ARG001 - nothing is drawn here
    """Return the time between interruptions and the shares of the largest causes."""
    preset = presets.load("llama3")
    total = sum(rate.per_gpu_d for rate in preset.rates)
    between = Row(
        name="time between unexpected interruptions, 16,384 GPUs",
        source="arXiv 2407.21783, one every 3 hours",
        printed="3",
        unit="h",
        ours=H_PER_D / (total * GPUS),
        how=HOW,
    )
    shares = [
        Row(
            name=f"share of interruptions: {rate.reason}",
            source=SOURCE,
            printed=PRINTED[rate.reason],
            unit="%",
            ours=100 * rate.per_gpu_d / total,
            how=HOW,
            explanation=_DOES_NOT_ADD_UP if rate.reason == "Faulty GPU" else "",
        )
        for rate in preset.rates
        if rate.reason in PRINTED
    ]
    return [between, *shares]
