"""Timing on a CUDA device: whole flows by wall time, single steps by wall time and events. Results are checked first."""

from __future__ import annotations

import functools
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from benchmarks.gpu.checks import CHECKED_STEPS, CHECKED_WAY, apart, check_flow
from benchmarks.gpu.contenders import Peer
from benchmarks.speed.timing import LIMITS, check
from benchmarks.speed.workloads import WORKLOADS, Workload
from slicewise.steps import best_step, rate_of_step

BY_NAME = {workload.name: workload for workload in WORKLOADS}

# Long steps are timed by events; short ones are bound by the host, and timed by wall time.
BY_EVENTS = ("E1000", "F1e5", "F1e6")
STEPPED = ("A2", "A50", "A100", "D", "E50", *BY_EVENTS)
# POT adds up sample weights in float32, which on CUDA costs digits at large n. That is measured in a
# section of its own and must not keep its time from being seen.
POT_LIMITS = (2e-2, 2e-2)
LARGE = 10_000

QUICK_STEPS = 500
# A flow longer than this is timed over a part and scaled up.
LONGEST = 8.0


@dataclass(frozen=True)
class FlowCase:
    """A whole flow: samples, how many steps, and the seeds of its runs."""

    workload: Workload  # of a step of the whole batch, for the floor
    steps: int
    seeds: tuple[int, int] | None = None  # None is one run; else the shape of 108 runs' seeds

    @property
    def name(self) -> str:
        return self.workload.name

    def samples(self) -> tuple[Tensor, Tensor]:
        """Return x and y of one run; rates and seeds make the batch."""
        x, y = replace(self.workload, batch=1).samples()
        return x.cuda(), y.cuda()

    def how(self, step: float) -> dict[str, Any]:
        """Return the arguments of `flow` for a dimensionless step, the largest of 36 rates."""
        rate = rate_of_step(step, self.workload.n)
        known: dict[str, Any] = {
            "n_slices": self.workload.n_slices,
            "recording": sw.Recording(progress_bar=False),
        }
        if self.seeds is None:
            return {**known, "lr": rate, "seeds": 0}
        seeds = torch.arange(self.seeds[0] * self.seeds[1]).reshape(self.seeds)
        return {**known, "lr": rate * torch.logspace(-3, 0, 36)[:, None], "seeds": seeds}


def _sweep(name: str, d: int, seeds: tuple[int, int]) -> FlowCase:
    return FlowCase(replace(BY_NAME["B"], name=name, d=d), 10_000, seeds)


FLOWS = (
    *(FlowCase(BY_NAME[name], 10_000) for name in ("A2", "A50", "A100")),
    *(_sweep(f"B{d}", d, (1, 3)) for d in (2, 50, 100)),
    *(_sweep(f"B{d}, 108 seeds", d, (36, 3)) for d in (2, 50, 100)),
    *(FlowCase(BY_NAME[name], 20_000) for name in ("C784", "C12288", "D")),
)


def time_flow(case: FlowCase, *, quick: bool) -> dict[str, Any]:
    """Check a flow, then time the whole call."""
    x, y = case.samples()
    d = case.workload.d
    errors = check_flow(x, y, case.name, **case.how(CHECKED_WAY * d / CHECKED_STEPS))
    steps = QUICK_STEPS if quick else case.steps
    # The step that contracts most: no run diverges, so all make every step.
    run = functools.partial(sw.flow, x, y, **case.how(best_step(case.workload.n_slices, d)))
    return {"errors": errors, **_timed(run, x, y, steps, repeats=3)}


def time_variant(name: str, *, quick: bool) -> dict[str, Any]:
    """Check a variant with the paper's settings on workload A50, then time the whole call."""
    x, y = FlowCase(BY_NAME["A50"], 0).samples()
    how: dict[str, Any] = {
        "seeds": 0,
        "defaults": "paper",
        "recording": sw.Recording(progress_bar=False),
    }
    checked = rate_of_step(CHECKED_WAY * x.shape[-1] / CHECKED_STEPS, len(x))
    errors = check_flow(x, y, name, variant=name, lr=checked, **how)
    run = functools.partial(sw.flow, x, y, name, lr=0.01, **how)
    steps = QUICK_STEPS if quick else 10_000
    return {"errors": errors, **_timed(run, x, y, steps, repeats=2)}


def _timed(
    run: Callable[..., Any], x: Tensor, y: Tensor, steps: int, repeats: int
) -> dict[str, Any]:
    """Return the median seconds of the whole call.

    Raises:
        RuntimeError: runs ended early, or did not come nearer.
    """
    run(max_steps=CHECKED_STEPS)  # compiles what the rates and shapes of this call need
    seconds, _ = _wall(run, CHECKED_STEPS)
    made = steps
    while made > 1000 and seconds / CHECKED_STEPS * made > LONGEST:
        made //= 2
    times: list[float] = []
    while len(times) < repeats and (not times or sum(times) + times[-1] < LONGEST):
        seconds, found = _wall(run, made)
        times.append(seconds)
        early = int((found.n_steps < made).sum())
        if early:
            raise RuntimeError(f"{early} runs ended before step {made}; no time is reported")
        if not bool((apart(found.particles, y) < apart(x, y)).all()):
            raise RuntimeError(f"not all runs came nearer in {made} steps; no time is reported")
    middle = statistics.median(times)
    return {
        "steps": steps,
        "timed_steps": made,  # fewer: the time of all is extrapolated
        "times": times,
        "seconds": middle * steps / made,
        "seconds_per_step": middle / made,
        "sw_before": apart(x, y).item(),
        "sw_after": apart(found.particles, y).max().item(),
    }


def _wall(run: Callable[..., Any], steps: int) -> tuple[float, Any]:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    found = run(max_steps=steps)
    torch.cuda.synchronize()
    return time.perf_counter() - begun, found


def time_step(workload: Workload, name: str, peer: Peer, *, quick: bool) -> dict[str, Any]:
    """Check a contender, then time its step: by wall time, by events, and on the device alone."""
    limits = POT_LIMITS if name == "POT" and workload.n > LARGE else LIMITS
    errors = check(workload, name, peer.checked, device="cuda", limits=limits)
    x, y = (t.cuda() for t in workload.samples())
    step = peer.prepare(x, y, workload.n_slices)
    once = _seconds_of(step, peer, 2) / 2  # compiles and allocates
    once = _seconds_of(step, peer, 1)
    budget = 0.1 if quick else 0.5
    repeats = max(3, min(200, round(budget / once)))
    if once < 5e-3 and not quick:
        repeats = max(100, repeats)  # the host's pace varies
    walls = [_seconds_of(step, peer, repeats) / repeats for _ in range(1 if once > 0.3 else 3)]
    found: dict[str, Any] = {
        "errors": errors,
        "repeats": repeats,
        "wall_seconds": statistics.median(walls),
    }
    if peer.torch_stream:
        found["event_seconds"] = _between_events(step, repeats)
    if name.startswith("slicewise"):
        found["device_seconds"] = _behind_other_work(step)
    by_events = workload.name in BY_EVENTS and peer.torch_stream
    found["seconds"] = found["event_seconds" if by_events else "wall_seconds"]
    return found


def _seconds_of(step: Callable[[], Any], peer: Peer, repeats: int) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    last = None
    for _ in range(repeats):
        last = step()
    peer.finish(last)
    return time.perf_counter() - begun


def _between_events(step: Callable[[], Any], repeats: int) -> float:
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    between = [a.elapsed_time(b) for a, b in itertools.pairwise(marks)]
    return statistics.median(between) * 1e-3


def _behind_other_work(step: Callable[[], Any], repeats: int = 7) -> float:
    """Return seconds on the device while the host is ahead; a large product keeps the queue full.

    A step that waits for the device is as slow as by the wall here too.
    """
    large = torch.randn(8192, 8192, device="cuda")
    out = torch.empty_like(large)
    times = []
    for _ in range(repeats):
        torch.mm(large, large, out=out)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        step()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)
