"""Checks that a flow on a CUDA device agrees with one in float64, before it is timed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from benchmarks.speed.contenders import torch_sort

# Flows are checked over so many steps, enough for a CUDA graph, that cover a tenth of the way: rounding
# swaps near-ties, and over longer ways that takes float32 and float64 to different ends.
CHECKED_STEPS = 200
CHECKED_WAY = 0.1
MOVE_LIMIT, FALL_LIMIT = 1e-2, 5e-2
# Their slices are found by ascent, in which rounding grows: only how far they fall can be compared.
CLIMBING = ("maxsw", "maxksw", "dsw", "imsw", "vimsw")
OTHER_SEEDS = 8  # of plain float32 flows that say how far rounding alone carries


def check_flow(x: Tensor, y: Tensor, label: str, **how: Any) -> dict[str, float]:
    """Compare a float32 flow with one in float64 by plain torch, with the same seeds; raise if they differ much.

    A near-tie that rounding swaps turns samples another way, and more of them after it: at d = 12288 plain
    torch's own float32 ends 5e-6 to 2e-2 of the way apart, by the seed. Where a flow is further off than the
    limit, it may be as far off as plain float32 has been seen to be from other seeds, twice over.
    """
    fast, plain = _ends(x, y, "auto", **how), _ends(x.double(), y.double(), "torch", **how)
    before, ended, expected = (apart(points, y) for points in (x, fast, plain))
    errors = {
        "move": _off(fast, plain, x),
        "fall": ((ended - expected).norm() / (before - expected).norm()).item(),
    }
    limit = MOVE_LIMIT
    if errors["move"] > limit and how.get("variant") not in CLIMBING:
        errors["move_of_plain_float32"] = _carried_by_rounding(x, y, **how)
        limit = max(limit, 2 * errors["move_of_plain_float32"])
    moves = errors["move"] < limit or how.get("variant") in CLIMBING
    if not (errors["fall"] < FALL_LIMIT and moves):
        raise RuntimeError(f"flow is wrong on {label}: errors {errors}; no time is reported")
    return errors


def _ends(x: Tensor, y: Tensor, backend: str, **how: Any) -> Tensor:
    return sw.flow(x, y, max_steps=CHECKED_STEPS, backend=backend, **how).particles.double()


def _off(ended: Tensor, expected: Tensor, start: Tensor) -> float:
    return ((ended - expected).norm() / (expected - start.double()).norm()).item()


def _carried_by_rounding(x: Tensor, y: Tensor, **how: Any) -> float:
    """Return the largest distance between plain float32 and float64, over some other seeds."""
    pairs = ((x, y), (x.double(), y.double()))
    ends = (
        [_ends(*pair, "torch", **{**how, "seeds": how["seeds"] + shift}) for pair in pairs]
        for shift in range(1, OTHER_SEEDS + 1)
    )
    return max(_off(single, double, x) for single, double in ends)


def apart(points: Tensor, y: Tensor) -> Tensor:
    """Return SW_2 in float64, (*batch,), on fixed slices."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(100, y.shape[-1], generator=generator, dtype=torch.float64)
    slices = torch.nn.functional.normalize(drawn, dim=-1).to(y.device)
    return torch_sort(points.double(), y.double(), len(slices), slices)[0]
