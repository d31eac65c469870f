"""The loss of a training loop on a CUDA device: `loss(x, y).backward()` beside `value_and_grad`, a sort by hand, JAX."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import slicewise as sw

Step = Callable[[], Any]
ROUNDS = 5


@dataclass(frozen=True)
class LossCase:
    """Samples x (n, d) that ask for a gradient, against y (m, d), on fresh slices."""

    n: int
    m: int
    d: int
    n_slices: int
    name: str = ""
    weighted: bool = False

    @property
    def label(self) -> str:
        """Its sizes, or the name by which other sections know them."""
        sizes = f"{self.n}, {self.m}, {self.d}, {self.n_slices}"
        return (self.name or sizes) + (", weighted" if self.weighted else "")

    def samples(self) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Return x, y and their weights, if they have any."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.n, self.d, generator=generator)
        y = 1.2 * torch.randn(self.m, self.d, generator=generator) + 0.3
        weights = {}
        if self.weighted:
            for side, n in (("x_weights", self.n), ("y_weights", self.m)):
                weights[side] = torch.rand(n, generator=generator).add(0.5).cuda()
                weights[side] /= weights[side].sum()
        return x.cuda().requires_grad_(), y.cuda(), weights


# What people train with, and the workloads of the other sections.
TRAINED = (
    LossCase(512, 512, 128, 100),
    LossCase(1000, 1000, 32, 200),
    LossCase(700, 300, 16, 100),
    LossCase(5000, 4000, 8, 100),
    LossCase(128, 128, 3, 500),
)
KNOWN = (
    LossCase(300, 300, 2, 50, "A2"),
    LossCase(300, 300, 50, 50, "A50"),
    LossCase(300, 300, 100, 50, "A100"),
    LossCase(50, 50, 784, 50, "C784"),
    LossCase(50, 50, 12288, 50, "C12288"),
    LossCase(3000, 3000, 3, 50, "D"),
    LossCase(2048, 2048, 512, 50, "E50"),
    LossCase(2048, 2048, 512, 1000, "E1000"),
)
# Weights and n ≠ m, each beside the same sizes without.
UNEVEN = tuple(
    LossCase(n, m, d, n_slices, weighted=weighted)
    for n, m, d, n_slices in ((700, 300, 16, 100), (700, 700, 16, 100), (5000, 4000, 8, 100), (5000, 5000, 8, 100))
    for weighted in (False, True)
)  # fmt: skip
CASES = (*TRAINED, *KNOWN, *(case for case in UNEVEN if case not in TRAINED))
FASTER_THAN_SORT = 5.0
OVER_FUNCTION, OVER_CLASSIC, OVER_EVEN = 1.3, 1.5, 1.5
OVER_FUNCTION_VARIANTS = 1.5


def sort_by_hand(x: Tensor, y: Tensor, n_slices: int) -> Tensor:
    """SW_2² in plain torch, as it is written by hand: project, sort, pair; for n ≠ m on the merged levels."""
    slices = torch.nn.functional.normalize(
        torch.randn(n_slices, x.shape[1], device=x.device), dim=1
    )
    u, v = (slices @ x.mT).sort(dim=1).values, (slices @ y.mT).sort(dim=1).values
    n, m = len(x), len(y)
    if n == m:
        return (u - v).square().mean()
    ends = [torch.arange(1, k + 1, device=x.device, dtype=torch.float64) / k for k in (n, m)]
    levels = torch.cat(ends).sort().values
    i, j = (torch.searchsorted(end, levels - 1e-12).clamp(max=len(end) - 1) for end in ends)
    width = torch.diff(levels, prepend=levels.new_zeros(1)).to(x.dtype)
    return (width * (u[:, i] - v[:, j]).square()).sum(dim=1).mean()


def contenders(case: LossCase) -> dict[str, Step]:
    """Return the steps that are timed: value and gradient in x."""
    x, y, weights = case.samples()
    still, n_slices = x.detach(), case.n_slices

    def backward(loss: Callable[[], Tensor]) -> Step:
        def step() -> None:
            x.grad = None
            loss().backward()

        return step

    found: dict[str, Step] = {
        "value_and_grad": lambda: sw.value_and_grad(
            still, y, n_slices=n_slices, objective="power", **weights
        )
    }
    for scale in ("classic", "displacement"):
        loss = sw.SlicedWasserstein(n_slices=n_slices, scale=scale)
        found[scale] = backward(lambda loss=loss: loss(x, y, **weights))  # type: ignore[misc]
    found["engine alone"] = backward(x.sum)
    if not case.weighted:
        found["torch sort"] = backward(lambda: sort_by_hand(x, y, n_slices))
    return found


def time_losses(
    case: LossCase, jax_step: Step | None, finish: Callable[[Any], None]
) -> dict[str, float]:
    """Return the median µs of a step of each contender, in interleaved rounds; the host's work is in it."""
    steps = contenders(case)
    if jax_step is not None:
        steps["jax jit"] = jax_step
    times = interleaved(steps, finish)
    return {name: 1e6 * seconds for name, seconds in times.items()}


def interleaved(steps: dict[str, Step], finish: Callable[[Any], None]) -> dict[str, float]:
    """Return the median seconds of each step, over rounds in which all take their turns."""
    repeats = {}
    for name, step in steps.items():
        for _ in range(5):
            last = step()  # compiles, captures, allocates
        torch.cuda.synchronize()
        finish(last)
        repeats[name] = max(20, min(300, round(0.05 / _seconds(step, finish, 5))))
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            times[name].append(_seconds(step, finish, repeats[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _seconds(step: Step, finish: Callable[[Any], None], repeats: int) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(repeats):
        last = step()
    torch.cuda.synchronize()
    finish(last)
    return (time.perf_counter() - begun) / repeats


def time_variant_loss(name: str, m: int) -> dict[str, float]:
    """Return µs of `value_and_grad` and of the loss with `backward()`, for a variant on n = 300, d = 50."""
    x, y, _ = LossCase(300, m, 50, 50).samples()
    still, loss = x.detach(), sw.SlicedWasserstein(name)

    def step() -> None:
        x.grad = None
        loss(x, y).backward()

    steps: dict[str, Step] = {
        "value_and_grad": lambda: sw.value_and_grad(still, y, name, objective=loss.objective),
        "loss": step,
    }
    found = interleaved(steps, lambda last: None)
    return {who: 1e6 * seconds for who, seconds in found.items()}


def loss_targets(
    losses: dict[str, Any], variants: dict[str, Any]
) -> list[tuple[str, float, float | None, bool]]:
    """Return (what, limit, reached, at most) of every promise about losses; None where it was not measured."""
    rows: list[tuple[str, float, float | None, bool]] = []

    def ratio(label: str, above: str, below: str, other: str = "") -> float | None:
        one, two = losses.get(label, {}), losses.get(other or label, {})
        return one[above] / two[below] if above in one and below in two else None

    for case in (*TRAINED, *KNOWN):
        label = case.label
        rows.append(
            (
                f"{label}: loss over value_and_grad",
                OVER_FUNCTION,
                ratio(label, "classic", "value_and_grad"),
                True,
            )
        )
        rows.append(
            (
                f"{label}: displacement over classic",
                OVER_CLASSIC,
                ratio(label, "displacement", "classic"),
                True,
            )
        )
        for scale in ("classic", "displacement"):
            if case in TRAINED or case.name[0] in "AD":
                rows.append(
                    (
                        f"{label}: sort over {scale}",
                        FASTER_THAN_SORT,
                        ratio(label, "torch sort", scale),
                        False,
                    )
                )
            if case.name[:1] in "ADE" and case.name:
                rows.append(
                    (f"{label}: jax over {scale}", 1.0, ratio(label, "jax jit", scale), False)
                )
    for case in UNEVEN:
        even = LossCase(case.n, case.n, case.d, case.n_slices).label
        if case.label != even:
            for scale in ("classic", "displacement"):
                what = f"{case.label}: {scale} over n = m"
                rows.append((what, OVER_EVEN, ratio(case.label, scale, scale, even), True))
    for name, found in variants.items():
        reached = found["loss"] / found["value_and_grad"]
        rows.append((f"{name}: loss over value_and_grad", OVER_FUNCTION_VARIANTS, reached, True))
    return rows
