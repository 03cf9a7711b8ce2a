"""The longer iteration of a job with a reduced replica, as a policy has it: given, or modeled.

In: a scenario and one of its policies. Out: `reshard_overhead_frac`, exact. `"model"`: gradients of every
healthy replica go to the layout of the smallest reduced degree the policy allows and back (resharding.py),
from the first stage, which ends its backward pass last; the transfer hides behind the backward pass of one
microbatch, the way back behind nothing. Gradients are fp32, as the step-time model has them.
It is charged whenever a reduced replica is in use, at whatever degree: a bound from above.
"""

from __future__ import annotations

from fractions import Fraction

from pipeline import units
from pipeline.config import OVERHEAD_RULES, Policy, Scenario
from pipeline.errors import InputError
from pipeline.perf import pace
from pipeline.perf.resharding import ReshardCost, reshard_cost
from pipeline.perf.step_time import (
    GRADIENT_BYTES,
    gradient_sync_s,
    layer_time,
    stage_layers,
    weights_of_stage,
)


def overhead_frac(scenario: Scenario, policy: Policy) -> Fraction:
    """Return the policy's overhead; 0 by the model where it allows no reduced degree."""
    given = policy.reshard_overhead_frac
    if given not in OVERHEAD_RULES:
        return units.exact(float(given))
    found = cost(scenario, policy)
    return Fraction(0) if found is None else units.exact(round(found.overhead_frac, pace.DIGITS))


def check(place: str, scenario: Scenario, policy: Policy) -> None:
    """Raise InputError when the overhead is to be modeled and cannot be."""
    if policy.reshard_overhead_frac not in OVERHEAD_RULES:
        return
    found = pace.setup(scenario)
    if found is None:
        raise InputError(
            f"{place} reshard_overhead_frac", "model without [model] and [gpu]", "both tables, or a number"
        )
    for degree in policy.reduced_tp:
        if reasons := found.misfits(degree):
            raise InputError(
                f"{place} reduced_tp", f"{degree}: {'; '.join(reasons)}", "a degree that is legal"
            )


def cost(scenario: Scenario, policy: Policy) -> ReshardCost | None:
    """Return what resharding adds to an iteration by the model; None without a reduced degree or a model."""
    found = pace.setup(scenario)
    if found is None or not policy.reduced_tp:
        return None
    shape, gpu, plan = found.shape, found.gpu, found.plan
    _, backward = layer_time(shape, gpu, plan)
    layers = stage_layers(shape.layers, plan.pp)[0]
    computed_s = found.factors.compute * backward.compute_s
    return reshard_cost(
        shape,
        plan.tp,
        min(policy.reduced_tp),
        layers=layers,
        backward_s_per_layer=computed_s,
        iteration_s=found.iteration().total_s,
        link=gpu.scale_up,
        grad_bytes=GRADIENT_BYTES,
        dp_sync_s=gradient_sync_s(gpu, plan, weights_of_stage(shape, shape.widest(plan.tp), plan.pp, 0)),
        dp_sync_window_s=computed_s * layers if plan.overlap_gradients else 0.0,
    )
