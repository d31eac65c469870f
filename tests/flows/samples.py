"""Samples that several tests of flows move."""

from __future__ import annotations

import torch

import slicewise as sw
from slicewise.lab.data.toys import toy

PURE = sw.Stopping(assign=False)  # sliced steps alone
FIXED = sw.Stopping(tolerance=None)  # all steps are made
STUCK_SEED = 14  # of a swiss roll; one in fifty is like it


def clouds(*shape, seed=0, offset=1.0):
    g = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(*shape, generator=g, dtype=torch.float64) for _ in range(2))
    return x, 0.5 * y + offset


def toys(name, n, d, seeds):
    pairs = [toy(name, n, d, seed) for seed in seeds]
    return torch.stack([p.x for p in pairs]), torch.stack([p.y for p in pairs])
