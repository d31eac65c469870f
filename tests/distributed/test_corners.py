"""Corners of the loss over ranks and of the metric, where a fresh reading found wrong numbers or dead processes."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import slicewise as sw
from tests.ranks import loss_of, run, seeded, shares

pytest.importorskip("torchmetrics")
from torchmetrics import MetricCollection

from slicewise.metric.exact import SlicedWassersteinMetric
from slicewise.metric.streaming import StreamingSlicedWassersteinMetric


def samples(n, seed, d=3):
    return torch.randn(n, d, generator=seeded(seed), dtype=torch.float64)


def refusal(call):
    """What is said, or the number that comes of it."""
    try:
        return call()
    except (ValueError, RuntimeError) as wrong:
        return str(wrong)


def corners(rank, size):
    x, y = samples(40, 1), samples(30, 2)
    found = {"replicated, averaged": refusal(lambda: loss_of(samples="replicated", averaged=True))}
    slices = torch.nn.functional.normalize(samples(6, 7), dim=-1).requires_grad_()
    mine = shares(x, size)[rank], shares(y, size)[rank]
    found["slices, averaged"] = refusal(lambda: loss_of(averaged=True)(*mine, slices=slices))
    # Each rank has a target of its own slices; those of rank 0 count.
    target = sw.Target(y, n_slices=5)
    kept = loss_of(samples="replicated")(x, target).item()
    found["target"] = kept
    turned = x[torch.randperm(len(x), generator=seeded(rank))]
    found["shuffled"] = refusal(lambda: loss_of(samples="replicated")(turned, y))
    weights = torch.full((len(mine[0]),), 1 / 40, dtype=(torch.float64, torch.float32)[rank])
    found["weights"] = refusal(lambda: loss_of()(*mine, x_weights=weights))
    broken = mine[0].clone()
    if rank == 1:
        broken[0, 0] = float("nan")
    found["not finite"] = refusal(lambda: loss_of("phisw", exchange="projections")(broken, mine[1]))
    # After all that the group still works.
    found["after"] = loss_of()(*mine, generator=seeded()).item()
    metric = SlicedWassersteinMetric()
    if rank == 0:
        metric.update(x, y)
    found["a rank without samples"] = refusal(metric.compute)
    return found


def test_corners():
    first, second = run(2, corners)
    for words in (first, second):
        assert "leave averaged out" in words["replicated, averaged"]
        assert "detach the slices" in words["slices, averaged"]
        assert "in one order" in words["shuffled"]
        assert "ranks disagree on x_weights" in words["weights"]
        assert "finite" in words["not finite"]
        assert "rank 1 has no samples of x" in words["a rank without samples"]
    assert first["target"] == second["target"]
    alone = sw.SlicedWasserstein()(samples(40, 1), samples(30, 2), generator=seeded())
    assert first["after"] == pytest.approx(alone.item(), rel=1e-12)


def test_metrics_of_a_collection_keep_their_own_moves():
    """torchmetrics joins metrics whose states are equal; a bound for p = 1 is none for p = 3."""
    x, y = 1e6 * samples(4000, 1), 1e6 * samples(4000, 2)

    def metric(p):
        return StreamingSlicedWassersteinMetric(p=p, n_slices=4, capacity=64)

    alone = metric(3)
    both = MetricCollection({"p1": metric(1), "p3": metric(3)})
    for piece in range(0, 4000, 20):
        alone.update(x[piece : piece + 20], y[piece : piece + 20])
        both.update(x[piece : piece + 20], y[piece : piece + 20])
    assert both.compute()["p3"] == alone.compute()
    assert both["p3"].error_bound == alone.error_bound


def test_a_stream_is_projected_in_full_precision():
    x, y = torch.rand(200, 8) + 10, torch.rand(200, 8) + 10
    plain, cast = (StreamingSlicedWassersteinMetric(n_slices=20) for _ in range(2))
    plain.update(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast.update(x, y)
    assert plain.compute() == cast.compute()


def test_a_metric_that_is_looked_at_keeps_no_graph():
    metric = SlicedWassersteinMetric()
    made = torch.nn.Linear(2, 2)(torch.randn(20, 2))
    metric.update(made, torch.randn(20, 2))
    assert not any(kept.requires_grad for kept in metric.x)
    assert metric(made, torch.randn(20, 2)).requires_grad  # of the batch alone, to train with


def test_a_group_that_was_forgotten(monkeypatch):
    sw.SlicedWasserstein(group=None, averaged=True)  # one process: the same script
    with pytest.raises(ValueError, match="replicated"):
        sw.SlicedWasserstein(samples="replicatd")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert not dist.is_initialized()
    with pytest.raises(ValueError, match="init_process_group first"):
        sw.SlicedWasserstein(group=dist.group.WORLD, averaged=True)
