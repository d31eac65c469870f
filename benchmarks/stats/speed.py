"""How long the statistics take: against the same by POT's distance, by a loop of calls, and by POT's barycenters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import slicewise as sw


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Return the least of several times, after one call that may compile."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def permutation_test(
    n: int = 2000, d: int = 20, n_slices: int = 100, permutations: int = 1000
) -> dict[str, Any]:
    """A permutation test, and the same in a loop over POT's distance with its slices given, some relabelings of it timed."""
    import ot

    x, y = torch.randn(2, n, d, generator=torch.Generator().manual_seed(0))
    took = seconds(
        lambda: sw.two_sample_test(x, y, n_slices=n_slices, permutations=permutations, generator=0)
    )
    pool, slices = torch.cat([x, y]), torch.nn.functional.normalize(torch.randn(n_slices, d), dim=1)
    some, columns = 20, slices.mT.contiguous()

    def loop() -> None:
        for _ in range(some):
            order = torch.randperm(2 * n)
            ot.sliced_wasserstein_distance(pool[order[:n]], pool[order[n:]], projections=columns)

    pot = seconds(loop, 1) / some * permutations
    return {"n": n, "d": d, "slices": n_slices, "permutations": permutations, "threads": torch.get_num_threads(),
            "seconds": took, "POT seconds": pot, "ratio": pot / took}  # fmt: skip


def pairwise(k: int = 200, n: int = 500, d: int = 10) -> dict[str, Any]:
    """All distances between k sets, and a loop of calls, some of it timed."""
    sets = torch.randn(k, n, d, generator=torch.Generator().manual_seed(0))
    took = seconds(lambda: sw.pairwise(sets, generator=0))
    some = 200

    def loop() -> None:
        for i in range(some):
            sw.sliced_wasserstein(sets[i % k], sets[(i + 1) % k], generator=0)

    calls = seconds(loop, 2) / some * (k * (k - 1) / 2)
    return {"sets": k, "n": n, "d": d, "threads": torch.get_num_threads(), "seconds": took, "loop seconds": calls,
            "ratio": calls / took}  # fmt: skip


def barycenters(
    sizes: tuple[tuple[int, int], ...] = ((2, 300), (2, 1000), (10, 1000)), repeats: int = 3
) -> list[dict[str, Any]]:
    """The objective under exact W_2 and the time of our barycenters and of POT's, by one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_barycenter(d, n, repeats) for d, n in sizes]
    finally:
        torch.set_num_threads(before)


def _barycenter(d: int, n: int, repeats: int) -> dict[str, Any]:
    """Three mixtures of three normals: ours as by default, along slices; with 20 sliced steps and an exact one; POT's."""
    import ot

    g = torch.Generator().manual_seed(d * n)
    sets = []
    for _ in range(3):
        middles = 2 * torch.randn(3, d, generator=g, dtype=torch.float64)
        noise = 0.4 * torch.randn(n, d, generator=g, dtype=torch.float64)
        sets.append(middles[torch.randint(3, (n,), generator=g)] + noise)
    arrays = [s.numpy() for s in sets]
    start = arrays[0] - arrays[0].mean(0) + sum(a.mean(0) for a in arrays) / 3
    ways: dict[str, Callable[[], Any]] = {
        "sliced": lambda: sw.barycenter(sets, generator=0).samples.numpy(),
        "refined": lambda: sw.barycenter(sets, generator=0, max_steps=20, refine=1).samples.numpy(),
        "POT": lambda: ot.lp.free_support_barycenter(arrays, [np.full(n, 1 / n)] * 3, X_init=start),
    }  # fmt: skip
    row: dict[str, Any] = {"d": d, "n": n, "repeats": repeats}
    for name, make in ways.items():
        row[f"{name} seconds"] = seconds(make, repeats)
        found = make()
        costs = (ot.emd2([], [], ot.dist(found, a), numItermax=10**7) for a in arrays)
        row[f"{name} objective"] = sum(costs) / len(arrays)
    for name in ("sliced", "refined"):
        row[f"{name} excess"] = row[f"{name} objective"] / row["POT objective"] - 1
        row[f"POT seconds / {name}"] = row["POT seconds"] / row[f"{name} seconds"]
    print(row, flush=True)
    return row
