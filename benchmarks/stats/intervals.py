"""How often `interval(level)` covers: with few slices, and after `n_slices="auto"` has stopped."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import slicewise as sw
from benchmarks.stats.cells import Cell, Row, added, chunks, run
from slicewise.distance import simulated
from slicewise.problem import label_free

# Every estimator that states an error. Slices of the first are independent; the others come in chains of ten, frames of
# d, and along great circles or stereographic lines of samples on a sphere.
SINGLE = ("sw", "ebsw", "rpsw", "ebrpsw", "phisw", "gsw", "lcvsw", "ucvsw", "gaussiansw")
CHAINS = ("omsw", "rmsw", "imsw", "vimsw")
FRAMES = ("orthosw",)
SPHERES = ("ssw", "linearssw", "s3w", "ris3w")
# The value of so many slices is taken for the truth; its standard error is in the record.
MANY_SLICES, MANY_CIRCLES = 40_000, 20_000
AUTO_RTOL = 0.1  # what `n_slices="auto"` is asked for
# 22,100 monomials of degree 3 in d = 50: pairs of sets of a batch would take 0.1 GB each.
MANY_MONOMIALS = 10


def least(variant: str, d: int) -> int:
    """Ten slices, or five independent groups."""
    return 50 if variant in CHAINS else 5 * d if variant in FRAMES else 10


@functools.cache
def problems() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of sets of 200 and 150 samples that differ in several ways."""
    g = torch.Generator().manual_seed(0)

    def normal(n: int, d: int) -> torch.Tensor:
        return torch.randn(n, d, generator=g)

    x, y = normal(200, 10), normal(150, 10)
    found = {
        "shift, d = 10": (x, y + 1.5 * torch.eye(10)[0]),
        "shift and scale, d = 10": (x, 1.5 * y * torch.linspace(0.5, 2, 10) + 0.3),
        "equal laws, d = 10": (x, y),
    }
    x, y = normal(200, 3), normal(150, 3)
    found["shift, d = 3"] = (x, y + 2 * torch.eye(3)[0])
    x, y = normal(200, 50), normal(150, 50)
    found["shift, d = 50"] = (x, y + 3 * torch.eye(50)[0])
    found["scale, d = 50"] = (x, 1.3 * y)
    x, y = normal(200, 50), normal(150, 50)
    found["one wide coordinate, d = 50"] = (x, y * torch.cat([torch.tensor([4.0]), torch.ones(49)]))
    return found


@functools.cache
def spheres() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The same on spheres: normals with one mean moved, projected."""
    g = torch.Generator().manual_seed(5)
    found = {}
    for name, d, shift in (("d = 3", 3, 1.5), ("d = 10", 10, 2.0), ("equal laws, d = 10", 10, 0.0), ("d = 50", 50, 3.0)):  # fmt: skip
        x, y = torch.randn(200, d, generator=g), torch.randn(150, d, generator=g)
        y[:, 0] += shift
        found["sphere, " + name] = tuple(torch.nn.functional.normalize(s, dim=1) for s in (x, y))
    return found  # type: ignore[return-value]


def pair(problem: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The two sets of a problem."""
    return {**problems(), **spheres()}[problem]


def truth(problem: str, variant: str, more: dict[str, Any]) -> Row:
    """The value of many slices, Σ weights · costs, and its standard error."""
    x, y = pair(problem)
    d = x.shape[-1]
    whole = 800 * d if variant in FRAMES else MANY_CIRCLES if variant in SPHERES else MANY_SLICES
    if variant != "gsw" or d <= MANY_MONOMIALS:
        found = sw.evaluate(x, y, variant, n_slices=whole, generator=1, **more)
        return {
            "value": float(found.value),
            "power": float(found.power),
            "error": float(found.stderr),
        }
    # So many directions in 22,100 dimensions are too much at once.
    parts = [sw.evaluate(x, y, variant, n_slices=400, generator=k, **more) for k in range(50)]
    powers = torch.stack([part.power for part in parts])
    power = float(powers.mean())
    return {"value": power**0.5, "power": power, "error": float(powers.std() / len(parts) ** 0.5)}


def covered(problem: str, variant: str, times: int, repeats: int, more: dict[str, Any]) -> Row:
    """How often the 95 % interval covers the value of very many slices, and how often ± 2 standard errors do."""
    x, y = pair(problem)
    d = x.shape[-1]
    name, true = variant, truth(problem, variant, more)
    value, power = true["value"], true["power"]
    n_slices = times * least(variant, d)
    batch = 10 if variant == "gsw" and d > MANY_MONOMIALS else 250 if n_slices * d < 5000 else 50
    if (
        variant == "gsw" and d <= MANY_MONOMIALS
    ):  # the same, with monomials made once for all repeats
        lifted = sw.evaluate(x, y, "gsw", n_slices=2).problem
        x, y, variant = lifted.x, lifted.y, "sw"
    hits = plain = above = 0
    width = 0.0
    for start, end in chunks(repeats, batch):
        found = sw.evaluate(
            x.expand(end - start, -1, -1), y, variant, n_slices=n_slices, generator=100 + start, **more
        )  # fmt: skip
        low, high = found.interval(0.95)
        hits += int(((low <= value) & (value <= high)).sum())
        above += int((low > value).sum())
        plain += int(((found.power - power).abs() <= 2 * found.stderr).sum())
        width += float((high - low).sum())
    return {"problem": problem, "variant": name, "options": more, "slices": n_slices, "repeats": repeats,
            "interval": hits / repeats, "interval above": above / repeats, "mean width / value": width / repeats / value,
            "two stderr": plain / repeats, "error of the truth": true["error"] / power}  # fmt: skip


def coverage(repeats: int, jobs: int, kept: Path, brief: bool = False) -> list[Row]:
    """Coverage with ten slices or five groups, three times and ten times as many; and for other orders and objectives.

    In brief: only the fewest slices, of the shifts in d = 3 and 10.
    """
    cells: list[Cell] = []
    for problem in problems():
        for variant in SINGLE + CHAINS + FRAMES:
            huge = variant == "gsw" and problem.endswith("50")
            for times in (1,) if huge else (1, 3, 10) if variant in SINGLE else (1, 3):
                cells.append((f"{problem}, {variant} × {times}", covered, (problem, variant, times, repeats, {})))  # fmt: skip
    for problem in spheres():
        for variant in SPHERES:
            cells.append((f"{problem}, {variant}", covered, (problem, variant, 1, repeats, {})))
    for more in ({"p": 1.0}, {"p": 3.0}, {"objective": "mean_root"}, {"objective": "power"}):
        for problem in ("shift, d = 10", "equal laws, d = 10", "shift, d = 50"):
            for variant in ("sw", "lcvsw", "rmsw"):
                cells.append((f"{problem}, {variant}, {more}", covered, (problem, variant, 1, repeats, more)))  # fmt: skip
    if brief:
        cells = [
            cell
            for cell in cells
            if cell[2][0] in ("shift, d = 3", "shift, d = 10") and cell[2][2] == 1
        ]
    # What matters most first, the fewest slices; gsw in d = 50, which takes longest, last.
    cells.sort(key=lambda cell: (cell[2][1] == "gsw" and cell[2][0].endswith("50"), cell[2][2]))
    return run(cells, jobs, kept)


@contextlib.contextmanager
def simulated_once() -> Iterator[None]:
    """Let repeats share what is simulated: its seed is fixed, so that it depends on the two sets alone.

    Not where slices ascend: that simulation has the noise of the gradients that were observed.
    """
    plan, known = simulated._Plan, {}
    simulate = plan.simulated

    def looked_up(self: Any, problem: Any, slices: torch.Tensor) -> simulated.Simulated:
        if not label_free(self.recipe.slicer):
            return simulate(self, problem, slices)
        key = (self.sets, self.groups, self.size, self.each)
        if key not in known:
            known[key] = simulate(self, problem, slices)
        return known[key]

    with mock.patch.object(plan, "simulated", looked_up):
        yield


def covered_after_stopping(
    problem: str, variant: str, value: float, rtol: float, start: int, end: int
) -> Row:
    """How often the interval covers after slices were added until it was narrow enough, counted over some seeds."""
    x, y = pair(problem)
    hits = slices = above = 0
    with simulated_once():
        for k in range(start, end):
            found = sw.evaluate(x, y, variant, n_slices="auto", rtol=rtol, generator=10_000 + k)
            low, high = found.interval(0.95)
            hits += bool(low <= value <= high)
            above += bool(low > value)
            slices += found.costs.shape[-1]
    return {"problem": problem, "variant": variant, "rtol": rtol, "repeats": end - start, "interval": hits,
            "interval above": above, "slices": slices}  # fmt: skip


def coverage_of_auto(repeats: int, jobs: int, kept: Path) -> list[Row]:
    """The same after `n_slices="auto"` has stopped, with the mean number of slices it took, in two settings each."""
    plain, round_ones = ("shift, d = 3", "shift, d = 50"), ("sphere, d = 3", "sphere, d = 50")
    cases = [(problem, variant) for problem in round_ones for variant in SPHERES]
    cases += [(problem, variant) for problem in plain for variant in SINGLE + CHAINS + FRAMES]
    # In d = 50 one call of gsw makes 22,100 monomials of each sample: too long for thousands of calls.
    cases.remove(("shift, d = 50", "gsw"))
    # Ascents last, whose simulations are not shared.
    cases.sort(key=lambda case: (case[1] in ("imsw", "vimsw"), case[1] == "vimsw", case[0]))
    found = run(
        [(f"{problem}, {variant}", truth, (problem, variant, {})) for problem, variant in cases],
        jobs,
        kept,
    )
    truths = dict(zip(cases, found, strict=True))
    cells: list[Cell] = [
        (f"{case[0]}, {case[1]}, rtol {AUTO_RTOL:g}, {start}", covered_after_stopping,
         (*case, truths[case]["value"], AUTO_RTOL, start, end))
        for case in cases
        for start, end in chunks(repeats, max(1, repeats // 16))
    ]  # fmt: skip
    rows = added(run(cells, jobs, kept), ("problem", "variant", "rtol"))
    for row in rows:
        for name in ("interval", "interval above", "slices"):
            row[name] /= row["repeats"]
    return rows
