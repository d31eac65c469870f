"""The theory of steps near a solution, against simulation; and computed steps against a search."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import slicewise as sw
from slicewise.sampling import Randomness, orthonormal, uniform
from slicewise.steps import theory

Row = dict[str, Any]
SHARES = (1 / 8, 1 / 4, 1 / 2, 0.71, 1.0, 1.41, 1.9)


def edges(*, quick: bool) -> list[Row]:
    """From y plus noise of 1e-4: 0.8 of the limit n L d / (L + d − 1) contracts, 1.3 of it diverges."""
    rows = []
    n, n_slices, seeds = 300, 50, [1, 2, 3]
    for d in (2, 50, 100):
        g = torch.Generator().manual_seed(d)
        y = torch.randn(n, d, generator=g, dtype=torch.float64)
        x = y + 1e-4 * torch.randn(n, d, generator=g, dtype=torch.float64)
        edge = theory.rate_of_step(theory.stability_limit(n_slices, d), n)
        rates = edge * torch.tensor([[0.8], [1.3]], dtype=torch.float64)
        found = sw.flow(
            x, y, lr=rates, seeds=seeds, max_steps=50 if quick else 200, n_slices=n_slices
        )
        ratio = (found.particles - y).flatten(-2).norm(dim=-1) / (x - y).norm()
        rows.append(
            {
                "what": f"edge, d = {d}",
                "rate": edge,
                "at 0.8": float(ratio[0].max()),
                "at 1.3": float(ratio[1].min()),
                "target": "below 1, above 1",
                "met": bool((ratio[0] < 1).all() and (ratio[1] > 1).all()),
            }
        )
    return rows


def contractions(*, quick: bool) -> list[Row]:
    """Mean of |e′|² / |e|² at a* over many draws, beside 1 − L / (L + d − 1): within 5 %."""
    rows = []
    for d, n_slices in ((2, 50), (10, 10), (50, 50), (100, 50), (100, 10), (784, 50)):
        draws = 1000 if quick else 5000
        rng = Randomness(torch.Generator().manual_seed(d + n_slices), torch.device("cpu"))
        e = rng.normal(d).double()
        a, total = theory.best_step(n_slices, d), 0.0
        for _ in range(draws // 100):
            slices = uniform((100, n_slices, d), rng)
            pulled = (slices.mT @ (slices @ e.unsqueeze(-1))).squeeze(-1) / n_slices
            total += float(((e - a * pulled).square().sum(-1) / e.square().sum()).sum())
        wanted, seen = theory.contraction(a, n_slices, d), total / draws
        rows.append(
            {
                "what": f"contraction, d = {d}, L = {n_slices}",
                "seen": seen,
                "theory": wanted,
                "target": "within 5 %",
                "met": abs(seen / wanted - 1) <= 0.05,
            }
        )
    return rows


def floors(*, quick: bool) -> list[Row]:
    """Where a constant rate on the root ends, beside h (L + d − 1) / (2 n L √d)."""
    rows = []
    n, n_slices = 300, 50
    for d in (50, 100):
        g = torch.Generator().manual_seed(d)
        y = torch.randn(n, d, generator=g, dtype=torch.float64)
        rates = torch.tensor([0.5, 1.0], dtype=torch.float64)
        count = 300 if quick else 2000
        at = range(count - 100, count + 1, 10)
        found = sw.flow(
            y + 1e-6,
            y,
            lr=rates,
            objective="root",
            max_steps=count,
            seeds=1,
            recording=sw.Recording(w2_at=at),
        )
        for i, rate in enumerate(rates.tolist()):
            floor, seen = (
                theory.root_floor(rate, n, n_slices, d),
                float(found.history.w2[:, i].mean()),
            )
            rows.append(
                {
                    "what": f"root floor, d = {d}, h = {rate}",
                    "seen": seen,
                    "theory": floor,
                    "target": "within 2×",
                    "met": floor / 2 <= seen <= 2 * floor,
                }
            )
    return rows


def grid(*, quick: bool) -> list[Row]:
    """Cauchy steps against the best of seven fixed ones, over dimensions, ranks and slice counts."""
    rows = []
    dimensions = (2, 10, 50) if quick else (2, 10, 50, 100, 784)
    for d in dimensions:
        for k in (1, 2, 10, 50):
            for n_slices in (1, 10, 50, 200):
                if k <= d and not (quick and (n_slices == 1 or k > 10)):
                    rows.append(_against_a_search(d, k, n_slices, quick=quick))
    counted = [row for row in rows if row["best"] is not None]
    near = sum(row["cauchy"] is not None and row["cauchy"] <= 2 * row["best"] for row in counted)
    share = near / len(counted)
    total = {
        "what": f"within 2× of the best fixed step: {near} of {len(counted)}",
        "target": "≥ 80 %",
        "met": share >= 0.8,
    }
    return [*rows, total]


def _against_a_search(d: int, k: int, n_slices: int, *, quick: bool) -> Row:
    n, cap = 64, 1000 if quick else 4000
    x, y = _of_rank(n, d, k)
    best = theory.rate_of_step(theory.best_step(n_slices, d), n)
    how: dict[str, Any] = {"n_slices": n_slices, "seeds": 1, "max_steps": cap}
    rates = best * torch.tensor(SHARES, dtype=torch.float64)
    how["stopping"] = sw.Stopping(w2=1e-3, tolerance=None)
    fixed = sw.flow(x, y, lr=rates, **how)
    computed = sw.flow(x, y, step_rule="cauchy", reduce=False, **how)
    arrived = fixed.n_steps[fixed.converged]
    assert bool(computed.particles.isfinite().all()), "a computed step gave NaN"
    return {
        "what": f"d = {d}, k = {k}, L = {n_slices}",
        "best": int(arrived.min()) if len(arrived) else None,
        "share": SHARES[int(fixed.n_steps.masked_fill(~fixed.converged, cap + 1).argmin())],
        "cauchy": int(computed.n_steps) if bool(computed.converged) else None,
    }


def _of_rank(n: int, d: int, k: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1000 * d + k)
    frame = orthonormal((k, d), Randomness(g, torch.device("cpu")))
    x, y = (torch.randn(n, k, generator=g, dtype=torch.float64) for _ in range(2))
    return x @ frame, (0.5 * y + 1) @ frame
