"""Steps and seconds of flows with computed steps, against targets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.lab.data import TOYS, digit, toy

Row = dict[str, Any]
ELEVEN = (
    "sw", "maxsw", "dsw", "maxksw", "imsw", "vimsw", "omsw", "rmsw", "ebsw", "rpsw", "ebrpsw",
)  # fmt: skip
# Seeds on which nothing was tuned.
HELD_OUT = tuple(range(90210, 90220))


def count(
    x: Tensor, y: Tensor, seeds: Sequence[int], goal: float | Tensor, steps: int, **how: Any
) -> Row:
    """Run a batch of flows until their exact W_2 is at most `goal`; return the numbers of steps and the seconds."""
    begun = time.perf_counter()
    found = sw.flow(
        x,
        y,
        seeds=list(seeds),
        max_steps=steps,
        stopping=sw.Stopping(w2=float(goal), tolerance=None),
        **how,
    )
    seconds = time.perf_counter() - begun
    taken = found.n_steps.tolist()
    return {
        "median": float(found.n_steps.double().quantile(0.5)),
        "most": max(taken),
        "steps": taken,
        "arrived": int(found.converged.sum()),
        "runs": len(taken),
        "seconds": seconds,
        "k": max(found.dimensions.tolist()),
        "w2": float(found.w2.max()),
    }


def toys(*, quick: bool) -> list[Row]:
    """Swiss roll, eight gaussians, knot, n = 300: steps of the default, of sliced steps alone and of plain Cauchy
    steps to W_2 ≤ 1e-3."""
    seeds = HELD_OUT  # all ten, also at a glance: one run in five needs an escape, so a median of three says little
    rows = []
    for name in TOYS:
        for d in (2, 50, 100):
            pairs = [toy(name, 300, d, seed) for seed in seeds]
            x, y = (torch.stack([getattr(p, side) for p in pairs]) for side in "xy")
            row = count(x, y, seeds, 1e-3, 1000)
            limit = 80 if name == "knot" else 60
            good = row["median"] <= limit and row["arrived"] == row["runs"]
            default = sw.flow(x, y, seeds=list(seeds))
            usual = float(default.n_steps.double().quantile(0.5))
            good &= usual <= 60 and bool(default.converged.all())
            rows.append(
                {
                    "what": f"{name}, d = {d}",
                    "default": usual,
                    **row,
                    "target": f"default ≤ 60, sliced alone: median ≤ {limit}, all ≤ 1000",
                    "met": good,
                }
            )
            if not quick:
                plain = count(x, y, seeds, 1e-3, 2000, step_rule="cauchy", reduce=False)
                rows[-1]["plain"] = plain["median"]
    return rows


def palette(name: str, n: int, seed: int = 0) -> Tensor:
    """Return colors of random pixels, (n, 3) in [0, 255], of a photograph of scikit-learn or scikit-image."""
    if name in ("china", "flower"):
        from sklearn.datasets import load_sample_image

        image = load_sample_image(f"{name}.jpg")
    else:
        from skimage import data

        image = getattr(data, name)()
    pixels = torch.tensor(image).reshape(-1, 3)
    generator = torch.Generator().manual_seed(seed)
    return pixels[torch.randperm(len(pixels), generator=generator)[:n]].double()


def colors(*, quick: bool) -> list[Row]:
    """Colors of photographs, n = 3000, on the scale 0 to 255: W_2 ≤ 0.05."""
    pairs = [
        ("china", "flower"),
        ("astronaut", "coffee"),
        ("chelsea", "rocket"),
        ("coffee", "china"),
    ]
    seeds = HELD_OUT[:1] if quick else HELD_OUT[:2]
    taken: list[int] = []
    rows = []
    for one, other in pairs[: 1 if quick else None]:
        x, y = (
            torch.stack([palette(name, 3000, seed + shift) for seed in seeds])
            for shift, name in ((0, one), (100, other))
        )
        row = count(x, y, seeds, 0.05, 2000)
        taken += row["steps"]
        rows.append({"what": f"{one} to {other}", **row})
    median = float(torch.tensor(taken).double().quantile(0.5))
    rows.append(
        {
            "what": "all",
            "median": median,
            "most": max(taken),
            "target": "median ≤ 600",
            "met": median <= 600,
        }
    )
    return rows


def clouds(*, quick: bool) -> list[Row]:
    """Full-rank clouds: a normal cloud to two blobs; W_2 ≤ 1e-3. Targets are the prototypes' medians."""
    promised = {4: 184, 5: 310, 10: 508, 50: 1561}
    rows = []
    for k in (4, 5, 10) if quick else promised:
        x, y = (
            torch.stack(side)
            for side in zip(*(two_blobs(k, seed) for seed in HELD_OUT[:3]), strict=True)
        )
        row = count(x, y, HELD_OUT[:3], 1e-3, 3000)
        rows.append(
            {
                "what": f"k = d = {k}",
                **row,
                "target": f"most ≤ {promised[k]}",
                "met": row["most"] <= promised[k],
            }
        )
    return rows


def two_blobs(k: int, seed: int, n: int = 300) -> tuple[Tensor, Tensor]:
    """A standard normal cloud in R^k, and two narrower ones around random centers."""
    g = torch.Generator().manual_seed(seed)
    x, y, centers = (torch.randn(m, k, generator=g, dtype=torch.float64) for m in (n, n, 2))
    return x, 0.3 * y + centers[torch.randint(2, (n,), generator=g)]


def variants(*, quick: bool) -> list[Row]:
    """All eleven methods: W_2 ≤ 1e-2 within 1,000 steps, n = 150."""
    rows = []
    seeds = HELD_OUT[:3]
    for variant in ELEVEN:
        row: Row = {"what": variant, "met": True, "target": "all ≤ 1000", "seconds": 0.0}
        for name in ("swiss", "8gaussians"):
            for d in (2, 50):
                pairs = [toy(name, 150, d, seed) for seed in seeds]
                x, y = (torch.stack([getattr(p, side) for p in pairs]) for side in "xy")
                for reduce in (True,) if quick else (True, False):
                    found = count(x, y, seeds, 1e-2, 1000, variant=variant, reduce=reduce)
                    key = f"{name}, d = {d}" + ("" if reduce else ", ambient")
                    row[key] = found["steps"]
                    row["seconds"] += found["seconds"]
                    if reduce:
                        row["met"] &= found["arrived"] == found["runs"]
        rows.append(row)
    return rows


def digits(*, quick: bool) -> list[Row]:
    """50 handwritten zeros to 50 ones, d = 784: W_2 ≤ 1e-3 of its start, reduced and ambient."""
    x, y = (torch.from_numpy(digit(value).pixels[:50].reshape(50, -1) / 255.0) for value in (0, 1))
    goal = 1e-3 * float(sw.wasserstein(x, y))
    seeds = HELD_OUT[:1] if quick else HELD_OUT[:3]
    rows = []
    # Ambient with its own default too, though a few slices a step get there sooner.
    ways: list[tuple[str, dict[str, Any]]] = [("reduced", {"reduce": True})]
    for n_slices in (200,) if quick else (50, 200, None):
        ways.append(
            (f"ambient, L = {n_slices or 'default'}", {"reduce": False, "n_slices": n_slices})
        )
    for name, how in ways:
        runs = [count(x, y, [seed], goal, 20_000, **how) for seed in seeds]
        middle = sorted(runs, key=lambda row: row["seconds"])[len(runs) // 2]
        rows.append({"what": name, **middle, "steps": [r["steps"][0] for r in runs]})
    gain = min(row["seconds"] for row in rows[1:]) / rows[0]["seconds"]
    good = gain >= 10 and all(row["arrived"] for row in rows)
    rows[0] |= {"target": "10 × faster than ambient", "met": good, "gain": gain}
    return rows
