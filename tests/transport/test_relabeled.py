"""Costs of relabeled pools: compiled loops against plain PyTorch, and that against sorting each side."""

from __future__ import annotations

import pytest
import torch

from slicewise.transport import plain_relabeled_costs, relabeled_costs
from tests.tolerances import assert_close


def pool(n, m, *, lines=4, labelings=6, ties=False, seed=0):
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(lines, n + m, generator=g, dtype=torch.float64)
    values, order = (z.round() if ties else z).sort(dim=-1, stable=True)
    labels = torch.stack([torch.randperm(n + m, generator=g) < n for _ in range(labelings)])
    weights = torch.rand(n + m, generator=g, dtype=torch.float64)
    weights[1] = 0
    return values, order, labels, weights


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(7, 7), (5, 11), (1, 4)])
def test_loops_are_the_plain_version(n, m, p, weighted, ties):
    values, order, labels, weights = pool(n, m, ties=ties)
    given = weights if weighted else None
    if weighted and n == 1:
        given = weights + 0.1
    fast = relabeled_costs(values, order, labels, given, p=p)
    assert_close(fast, plain_relabeled_costs(values, order, labels, given, p=p))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "m"), [(7, 7), (5, 11)])
def test_energies_are_the_plain_version(n, m, weighted):
    values, order, labels, weights = pool(n, m)
    given = weights if weighted else None
    fast = relabeled_costs(values, order, labels, given, kind="energy")
    plain = plain_relabeled_costs(values, order, labels, given, kind="energy")
    assert_close(fast, plain)


def test_energy_is_that_of_all_pairs():
    values, order, labels, _ = pool(6, 9, labelings=2)
    found = plain_relabeled_costs(values, order, labels, kind="energy")
    for row, label in zip(found, labels, strict=True):
        for line, (z, o) in enumerate(zip(values, order, strict=True)):
            u, v = z[label[o]], z[~label[o]]
            apart = [(a[:, None] - b).abs().mean() for a, b in ((u, v), (u, u), (v, v))]
            assert_close(row[line], 2 * apart[0] - apart[1] - apart[2])
