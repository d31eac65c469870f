"""Against a law, the loss over several processes is the loss of one: values, gradients, a step of DDP."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import slicewise as sw
from slicewise.laws import Mixture, Normal, StudentT, UniformSphere
from tests.ranks import loss_of, run, seeded, shares
from tests.tolerances import assert_close

WIDE = {"dtype": torch.float64}


def laws(mean):
    return [
        Normal(),
        Normal(mean, torch.diag(torch.tensor([1.0, 2.0, 0.5, 1.0], **WIDE))),
        StudentT(6.0, mean),
        UniformSphere(2.0),
        Mixture([Normal(mean, 0.5), Normal(-1.0)]),
    ]


def one_of_many(rank, size):
    n = 19
    x = torch.randn(n, 4, generator=seeded(1), **WIDE)
    a = torch.rand(n, generator=seeded(3), **WIDE)
    a[3] = 0
    a = a / a.sum()
    for index in range(5):
        for weights, p, exchange, options in (
            (None, 2, "projections", {}),
            (a, 2, "projections", {}),
            (None, 1, "projections", {}),
            (None, 2.5, "samples", {}),
            (None, 2, "projections", {"scale": "displacement"}),
        )[: 5 if index == 1 else 1]:
            displaced = "scale" in options
            whole = [
                torch.zeros(4, **WIDE).requires_grad_(not displaced),
                x.clone().requires_grad_(),
            ]
            mine = [
                torch.zeros(4, **WIDE).requires_grad_(not displaced),
                shares(x, size)[rank].clone().requires_grad_(),
            ]
            own = None if weights is None else shares(weights, size, -1)[rank]
            alone = sw.SlicedWasserstein(p=p, **options)
            expected = alone(
                whole[1], laws(whole[0])[index], x_weights=weights, generator=seeded(0)
            )
            expected.backward()
            together = loss_of(p=p, exchange=exchange, **options)
            found = together(mine[1], laws(mine[0])[index], x_weights=own, generator=seeded(rank))
            found.backward()
            assert_close(found, expected)
            scale = whole[1].grad.abs().max()
            wanted = shares(whole[1].grad, size)[rank]
            if wanted.numel():
                assert (mine[1].grad - wanted).abs().max() <= 1e-10 * scale
            if whole[0].grad is not None:  # the shares of ranks add up to it
                total = torch.zeros(4, **WIDE) if mine[0].grad is None else mine[0].grad.clone()
                dist.all_reduce(total)
                assert_close(total, whole[0].grad)
    for name in ("ebsw", "maxsw", "dsw"):
        alone = sw.SlicedWasserstein(name)(x, Normal(), generator=seeded(0))
        found = loss_of(name, exchange="projections")(
            shares(x, size)[rank], Normal(), generator=seeded(rank)
        )
        assert_close(found, alone)
    replicas = loss_of(samples="replicated")(x, Normal(), generator=seeded(rank))
    assert_close(replicas, sw.SlicedWasserstein()(x, Normal(), generator=seeded(0)))
    given = torch.randn(5, 4, generator=seeded(7), **WIDE)  # not of unit length
    found = loss_of(exchange="projections")(shares(x, size)[rank], Normal(), slices=given)
    assert_close(found, sw.SlicedWasserstein()(x, Normal(), slices=given))
    ddp_step(rank, size, x)


def ddp_step(rank, size, x):
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 3, dtype=torch.float64)
    sw.SlicedWasserstein()(network(x), Normal(), generator=seeded(5)).backward()
    wanted = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    wrapped = torch.nn.parallel.DistributedDataParallel(network)
    loss = loss_of(averaged=True)
    loss(wrapped(shares(x, size)[rank]), Normal(), generator=seeded(5)).backward()
    for parameter, gradient in zip(network.parameters(), wanted, strict=True):
        assert_close(parameter.grad, gradient)


def differing(rank, size):
    x = torch.randn(5, 3, **WIDE)
    with pytest.raises(ValueError, match="Normal"):
        loss_of()(x, Normal(float(rank)))


@pytest.mark.parametrize("size", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4))])
def test_any_number_of_processes_is_one(size):
    run(size, one_of_many)


def test_ranks_with_other_laws_hear_of_it():
    run(2, differing)
