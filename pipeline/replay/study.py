"""One scenario's replays: policies, batch rules, splits of the pool and what-ifs on shared histories.

All policies of a scenario see the same failures and the same pool. A policy states its spares; DP
follows from the rest of the pool (model.md section 6), and the save interval from DP and the rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

from pipeline import units
from pipeline.config import INTERVAL_RULES, Policy, Scenario
from pipeline.perf import pace, templates
from pipeline.perf.overhead import overhead_frac
from pipeline.replay import engine, fabrics, interval, luck, responses
from pipeline.replay.contract import Shape
from pipeline.replay.engine import History, Times
from pipeline.replay.fixed import Fixed
from pipeline.replay.ledger import Ledger, Span, Stop
from pipeline.replay.packed import Packed
from pipeline.replay.packing import Capability, Packer, Packing, capabilities
from pipeline.replay.reach import Reach
from pipeline.schema import BUCKETS

PACKINGS: dict[str, Callable[[Packer, int], Packing]] = {"packed": Packed, "fixed": Fixed}
DENSE_SPLITS = 16
MOST_SPARE_FRAC = Fraction(2, 5)


@dataclass(frozen=True)
class Failures:
    """The histories of a trace by placement seed, with the onsets in each pool."""

    histories: Mapping[int, History]
    onsets: Mapping[int, int]
    rate_per_gpu_d: float | None = None


class Study:
    """Replays of one scenario; `like` is one whose paces stand in place of the scenario's own."""

    def __init__(self, scenario: Scenario, like: Study | None = None) -> None:
        self.scenario = scenario
        self.templates: Mapping[tuple[int, ...], Mapping[int, Fraction]] = (
            templates.by_policy(scenario) if like is None else like.templates
        )
        cluster, job, power = scenario.cluster, scenario.job, scenario.power
        self.shape: Shape = Shape(
            # A group that spans whole domains is that many groups of one domain, needed together as CP's are.
            tp=job.tp // scenario.domains_per_group,
            pp=job.pp,
            cp=job.cp * scenario.domains_per_group,
            samples_per_replica=job.samples_per_replica,
            virtual_stages=job.virtual_stages,
            domain_size=cluster.domain_size,
            boost_cap=units.exact(power.boost_cap),
            rack_headroom_frac=units.exact(power.rack_headroom_frac),
            curve=tuple((units.exact(p), units.exact(s)) for p, s in power.curve),
            boosted_domains=None
            if power.boosted_domains_frac == 1
            else int(units.exact(power.boosted_domains_frac) * cluster.pool_domains),
            slowdown=pace.paces(scenario) if like is None else like.shape.slowdown,
        )
        self._packer = cache(self._new_packer)
        self._capability = cache(self._new_capability)

    def dp_of(self, policy: Policy) -> int:
        """Return the replicas of the healthy job."""
        return self.scenario.job.dp or self.scenario.replicas_beside(policy.spare_domains)

    def batch_of(self, policy: Policy) -> str:
        """Return the policy's batch rule, or its response's default."""
        batches: tuple[str, ...] = responses.load(policy.response).BATCHES
        return policy.batch or batches[0]

    def replay(
        self,
        policy: Policy,
        failures: Failures,
        seed: int,
        spans: list[Span] | None = None,
        stops: list[Stop] | None = None,
    ) -> tuple[Ledger, Times]:
        """Replay a policy on the failures of one placement; fill the lists that are given."""
        history = failures.histories[seed]
        times = self._times(policy, self.dp_of(policy), failures, seed)
        capability, packing = self.packing(policy, history.domains)
        ledger = engine.replay(
            history,
            capability,
            packing,
            times,
            policy.reexpand,
            by_replica=policy.stops == "replica",
            spans=spans,
            stops=stops,
        )
        return ledger, times

    def packing(self, policy: Policy, domains: int) -> tuple[Sequence[Capability], Packing]:
        """Return what domains offer by their failed GPUs, and a packing of that many healthy domains."""
        overhead = overhead_frac(self.scenario, policy)
        dp, batch = self.dp_of(policy), self.batch_of(policy)
        packer = self._packer(policy.response, batch, dp, overhead, policy.reduced_tp, policy.templates_pp)
        capability = self._capability(policy.response, policy.reduced_tp)
        cut_off = getattr(fabrics.load(self.scenario.cluster.fabric), "cut_off", None)
        each = self.scenario.domains_per_group
        if cut_off is None or each == 1:
            return capability, PACKINGS[policy.packing](packer, domains)
        hops = self.scenario.cluster.k_hop
        return capability, Reach(packer, domains, lambda down: cut_off(down, domains, each, hops))

    def row(
        self,
        policy: Policy,
        failures: Failures,
        seed: int,
        spans: list[Span] | None = None,
        stops: list[Stop] | None = None,
    ) -> dict[str, Any]:
        """Return a policy's row of `outcomes` for one placement; fill the lists that are given."""
        ledger, times = self.replay(policy, failures, seed, spans, stops)
        power = self.scenario.power
        tdp_ticks = ledger.energy(
            units.exact(power.draw_frac),
            units.exact(power.idle_frac),
            units.exact(power.overhead_w) / units.exact(power.tdp_w),
        )
        kwh = tdp_ticks * units.exact(power.tdp_w) / (units.US_PER_H * units.W_PER_KW)
        return {
            "scenario": self.scenario.name,
            "policy": policy.name,
            "response": policy.response,
            "batch": self.batch_of(policy),
            "spare_domains": policy.spare_domains,
            "placement_seed": seed,
            "replication": 0,
            "dp": self.dp_of(policy),
            "idle_domains": self._idle_domains(policy),
            "checkpoint_interval_s": times.interval / units.US_PER_S,
            "goodput_frac": float(ledger.goodput_frac),
            "ettr_frac": float(ledger.ettr_frac),
            "interruptions": ledger.interruptions,
            "planned_stops": ledger.planned_stops,
            "total_gpu_h": ledger.total_gpus * ledger.window / units.US_PER_H,
            **{f"{bucket}_gpu_h": float(ledger.buckets[bucket] / units.US_PER_H) for bucket in BUCKETS},
            "energy_kwh": float(kwh),
        }

    def lines(self) -> Iterator[Policy]:
        """Yield the scenario's policies under every batch rule that splits are compared for."""
        for policy in self.scenario.policies:
            for batch in responses.load(policy.response).BATCHES:
                if batch in {"elastic", "pause", self.batch_of(policy)}:
                    yield replace(policy, batch=batch)

    def splits(self) -> list[int]:
        """Return the spare counts worth comparing: those at which DP changes, dense first, then coarser."""
        scenario = self.scenario
        if scenario.job.dp is not None:
            return sorted({0, *(policy.spare_domains for policy in scenario.policies)})
        groups = self.shape.domain_size // self.shape.tp
        most = scenario.replicas_beside(0)
        spares, fewer, step = {policy.spare_domains for policy in scenario.policies}, 0, 1
        while fewer < most:
            kept = -(-(most - fewer) * self.shape.groups_per_replica // groups)
            spare = scenario.cluster.pool_domains - kept if fewer else 0
            if spare > MOST_SPARE_FRAC * scenario.cluster.pool_domains:
                break
            spares.add(spare)
            step = 1 if fewer < DENSE_SPLITS else step * 2
            fewer += step
        return sorted(spares)

    def least_headroom(self, reduced_tp: tuple[int, ...]) -> list[dict[str, Any]]:
        """Return, for each reduced degree, the power and the least rack headroom that make it whole.

        The least h with (G * (1 + h) - a * TP) / t at or above the power of the healthy pace, beside
        the a full groups that fit (model.md section 5); None where the curve or the cap ends before.
        """
        shape, found = self.shape, list[dict[str, Any]]()
        for degree in sorted(reduced_tp, reverse=True):
            power = shape.power_for(shape.pace(degree))
            if power is None or power > shape.boost_cap:
                found.append({"degree": degree, "power_tdp": None, "headroom_frac": None})
                continue
            beside = (shape.domain_size - degree) // shape.tp
            drawn = (beside * shape.tp + degree * power) / shape.domain_size
            headroom = max(Fraction(0), drawn - 1)
            found.append({"degree": degree, "power_tdp": float(power), "headroom_frac": float(headroom)})
        return found

    def _idle_domains(self, policy: Policy) -> int:
        groups = self.shape.domain_size // self.shape.tp
        used = -(-self.dp_of(policy) * self.shape.groups_per_replica // groups)
        return self.scenario.cluster.pool_domains - policy.spare_domains - used

    def _new_packer(
        self,
        response: str,
        batch: str,
        dp: int,
        overhead: Fraction,
        _reduced: tuple[int, ...],
        stages: tuple[int, ...],
    ) -> Packer:
        shape = replace(self.shape, templates=self.templates.get(stages, {}))
        return Packer(shape, responses.load(response), batch, dp, overhead)

    def _new_capability(self, response: str, reduced_tp: tuple[int, ...]) -> tuple[Capability, ...]:
        module: ModuleType = responses.load(response)
        return capabilities(self.shape, reduced_tp if module.USES_REDUCED else ())

    def _times(self, policy: Policy, dp: int, failures: Failures, seed: int) -> Times:
        costs = policy.costs
        save = units.seconds_to_us(costs.checkpoint_save_s)
        every = costs.checkpoint_interval_s
        if every in INTERVAL_RULES:
            mtbi = self.mtbi_us(dp, failures, seed)
            rule = interval.young_us if every == "young" else interval.daly_us
            window = failures.histories[seed].window
            ticks = window if mtbi is None else max(1, min(window, rule(mtbi, save)))
        else:
            ticks = max(1, units.seconds_to_us(float(every)))
        return Times(
            detect=units.seconds_to_us(costs.detect_s),
            restart=units.seconds_to_us(costs.restart_s),
            reconfigure=units.seconds_to_us(costs.reconfigure_s),
            interval=ticks,
            save=save,
            detect_by={name: units.seconds_to_us(found) for name, found in costs.detect_by_component.items()},
            silent=frozenset(costs.silent_components),
            durable=units.seconds_to_us(costs.checkpoint_durable_s),
            regroup=units.seconds_to_us(costs.regroup_s),
            rejoin=units.seconds_to_us(costs.rejoin_s),
            attempts=luck.attempts(costs.restart_fail_frac, self.scenario.trace.seed, seed),
        )

    def mtbi_us(self, dp: int, failures: Failures, seed: int) -> Fraction | None:
        """Return the job's mean time between interruptions, or None when nothing ever fails.

        From the rates when the trace is synthetic, else window / onsets in the pool * pool GPUs /
        job GPUs, which is hindsight (model.md section 7).
        """
        job_gpus = dp * self.shape.groups_per_replica * self.shape.tp
        if failures.rate_per_gpu_d is not None:
            rate = units.exact(failures.rate_per_gpu_d) * job_gpus
            return Fraction(units.US_PER_D) / rate if rate else None
        onsets = failures.onsets[seed]
        if not onsets:
            return None
        pool_gpus = self.scenario.cluster.pool_gpus
        return Fraction(failures.histories[seed].window * pool_gpus, onsets * job_gpus)
