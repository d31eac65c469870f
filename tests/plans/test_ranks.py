"""Pairs of batches that are spread over processes: those of one process that holds them all."""

from __future__ import annotations

import torch
import torch.distributed as dist

import slicewise as sw
from tests.ranks import run


def whole_batch():
    generator = torch.Generator().manual_seed(0)
    x0, x1 = (torch.randn(12, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    return x0, x1 + 1


def paired(rank, size):
    x0, x1 = (t.chunk(size)[rank] for t in whole_batch())
    found = sw.couple(x0, x1, generator=rank, group=dist.group.WORLD)  # the slices of rank 0
    return found.x0, found.x1, found.index1


def unequal(rank, size):
    x0, x1 = whole_batch()
    try:
        sw.couple(x0[: 4 + rank], x1[: 4 + rank], group=dist.group.WORLD)
    except ValueError as error:
        return str(error)
    return ""


def test_pairs_over_processes_are_those_of_one():
    x0, x1 = whole_batch()
    alone = sw.couple(x0, x1, generator=0)
    shares = run(2, paired)
    assert torch.cat([share[0] for share in shares]).equal(x0)
    assert torch.cat([share[2] for share in shares]).equal(alone.index1)
    assert torch.cat([share[1] for share in shares]).equal(alone.x1)


def test_shares_of_different_sizes_are_refused_everywhere():
    for said in run(2, unequal):
        assert "drop_last=True" in said
