"""What a policy takes from the model of the job: pipelines that hold it, and the cost of resharding."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import Scenario, parse
from pipeline.errors import InputError
from pipeline.perf import overhead, pace, templates
from pipeline.perf.memory import too_large
from pipeline.perf.resharding import reshard_cost
from pipeline.perf.step_time import layer_time
from pipeline.replay import run as replay
from pipeline.replay.study import Study

MODEL = {"model": {"preset": "llama3-70b"}, "gpu": {"preset": "h100"}}


def scenario(*policies: dict[str, Any], job: dict[str, Any] | None = None, **tables: Any) -> Scenario:
    """Return a job of TP8 and eight stages on nodes of 8 GPUs."""
    document = {
        "trace": {"preset": "llama3", "days": 1},
        "cluster": {"nodes": 32, "domain_size": 8},
        "job": {"tp": 8, "pp": 8, "samples_per_replica": 16, **(job or {})},
        "policy": [
            {"name": f"p{number}", "response": "oobleck", **policy} for number, policy in enumerate(policies)
        ],
        **tables,
    }
    return parse(document, name="s", path=Path("s.toml"))


# -- pipelines of fewer stages -----------------------------------------------------------------------------


def test_without_a_model_a_stage_slows_by_the_layers_it_gains() -> None:
    """Eight stages' layers on p' stages: pace 8/p', of the stages that the policy names."""
    mine = scenario({"templates_pp": [7, 4]}, {"templates_pp": [2]})
    assert templates.by_policy(mine) == {
        (7, 4): {7: Fraction(8, 7), 4: Fraction(2)},
        (2,): {2: Fraction(4)},
    }
    replay.check_policies(mine)


def test_with_the_model_whole_layers_count() -> None:
    """80 layers on 8 stages are 10 each, on 7 they are 12 in the fullest: 1.2 times the time, not 8/7."""
    mine = scenario({"templates_pp": [7, 5]}, step_time={"kind": "model"}, **MODEL)
    found = templates.by_policy(mine)[7, 5]
    assert float(found[7]) == pytest.approx(12 / 10, abs=1e-6)
    assert float(found[5]) == pytest.approx(16 / 10, abs=1e-6)


def test_left_out_templates_are_all_that_fit_into_memory() -> None:
    """Fewer stages hold more layers each; from some number down they no longer fit."""
    mine = scenario({}, **MODEL)
    replay.check_policies(mine)
    found, setup = templates.by_policy(mine)[()], pace.setup(mine)
    assert setup is not None
    fits = [n for n in range(1, 8) if not too_large(setup.shape, setup.gpu, replace(setup.plan, pp=n))]
    assert sorted(found) == fits
    assert 0 < len(fits) < 7
    assert fits == list(range(fits[0], 8))


@pytest.mark.parametrize(
    ("policy", "tables", "told"),
    [
        ({}, {}, r"\[policy 1\] templates_pp: missing with response oobleck.*templates_pp = \[7, 6, 5\]"),
        ({"templates_pp": [8]}, {}, r"stages below pp \(8\)"),
        ({"templates_pp": [4, 4]}, {}, "each number once"),
        ({"templates_pp": [1]}, MODEL, "1: needs [0-9]+ GB a GPU, .*stages that hold the model"),
        ({"templates_pp": [1]}, {"job": {"pp": 1}}, r"stages below pp \(1\)"),
        ({}, {"job": {"pp": 1}}, "'oobleck' with pp = 1"),
    ],
)
def test_templates_that_cannot_be_are_told(policy: dict[str, Any], tables: dict[str, Any], told: str) -> None:
    """One message with the key, what was found and what to write."""
    with pytest.raises(InputError, match=f"(?s){told}"):
        replay.check_policies(scenario(policy, **tables))


def test_a_study_hands_each_policy_its_own_templates() -> None:
    """Two policies of one response differ by their templates alone."""
    mine = scenario({"templates_pp": [7]}, {"templates_pp": [2]})
    study, found = Study(mine), []
    for policy in mine.policies:
        table, packing = study.packing(policy, 32)
        packing.change(0, table[0], table[1])
        found.append(packing.candidate().gpus_used)
    assert found == [8 * 31, 8 * 26]


# -- resharding --------------------------------------------------------------------------------------------


def ntp(**keys: Any) -> Scenario:
    """Return a scenario of one NTP policy of the model."""
    return scenario({"response": "ntp", "reduced_tp": [7, 4], **keys}, **MODEL)


def test_a_number_is_taken_as_it_is() -> None:
    """The default is 0.01, exactly, with a model or without."""
    for mine in (ntp(), scenario({"response": "ntp", "reduced_tp": [7]})):
        assert overhead.overhead_frac(mine, mine.policies[0]) == Fraction(1, 100)


def test_the_model_reshards_to_the_smallest_degree() -> None:
    """It is `reshard_cost` of the first stage at the smallest degree, over the modeled iteration."""
    mine = ntp(reshard_overhead_frac="model")
    setup = pace.setup(mine)
    assert setup is not None
    _, backward = layer_time(setup.shape, setup.gpu, setup.plan)
    alone = reshard_cost(
        setup.shape,
        8,
        4,
        layers=10,
        backward_s_per_layer=backward.compute_s,
        iteration_s=setup.iteration().total_s,
        link=setup.gpu.scale_up,
        grad_bytes=4,
    )
    found = overhead.cost(mine, mine.policies[0])
    assert found is not None
    assert (found.before_sync_s, found.after_sync_s) == (alone.before_sync_s, alone.after_sync_s)
    assert found.larger_sync_s >= 0
    given = overhead.overhead_frac(mine, mine.policies[0])
    assert float(given) == pytest.approx(found.overhead_frac, abs=1e-6)
    assert 0 < given < Fraction(1, 10)
    packer = Study(mine).packing(mine.policies[0], 32)[1].packer
    assert packer.reshard_overhead_frac == given


def test_without_a_reduced_degree_nothing_is_resharded() -> None:
    """A policy that allows none has no overhead by the model."""
    mine = scenario({"response": "dp-drop", "reshard_overhead_frac": "model"}, **MODEL)
    replay.check_policies(mine)
    assert overhead.overhead_frac(mine, mine.policies[0]) == 0


def test_the_model_needs_its_tables() -> None:
    """Without [model] and [gpu] a number has to stand there."""
    with pytest.raises(InputError, match=r"reshard_overhead_frac: model without \[model\] and \[gpu\]"):
        replay.check_policies(
            scenario({"response": "ntp", "reduced_tp": [7], "reshard_overhead_frac": "model"})
        )
    with pytest.raises(InputError, match="reshard_overhead_frac"):
        ntp(reshard_overhead_frac="modl")
