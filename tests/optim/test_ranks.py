"""The optimizer without a rate over two processes: one network, whose weights are those that one process finds."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import slicewise as sw
from slicewise.optim import Computed
from tests.ranks import loss_of, run, seeded

STEPS = 16  # lengths have stopped to double by then, and depend on curvatures


def network(*, norm=False):
    """Widths that two ranks cannot share equally; the last bias has a single entry."""
    torch.manual_seed(0)
    middle = [nn.BatchNorm1d(7)] if norm else []
    layers = [nn.Linear(4, 7), *middle, nn.Tanh(), nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 1)]
    return nn.Sequential(*layers).double()


def batches(n=STEPS):
    """Noise, data and slices of each step, for both ranks together."""
    drawn = seeded(5)
    for _ in range(n):
        z, y = (torch.randn(24, k, generator=drawn).double() for k in (4, 2))
        slices = torch.randn(8, 3, generator=drawn).double()
        yield (
            z,
            torch.cat([z[:, :2].sin(), 3 * y[:, :1] + 1], dim=1),
            slices / slices.norm(dim=1, keepdim=True),
        )


def outputs(model, z):
    """Three numbers, so that there is something to slice."""
    return torch.cat([model(z), z[:, :2] * model(z)], dim=1)


def halves(tensor, size):
    return tensor.chunk(size)


def joint_loss(loss, model, batch, rank=0, size=1):
    z, y, slices = batch
    return loss(outputs(model, halves(z, size)[rank]), halves(y, size)[rank], slices=slices)


def loss_of_one():
    """A loss over a group of one rank: as those over groups, its second pass is computed anew, plans are not held."""
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    return sw.SlicedWasserstein(group=groups[dist.get_rank()], averaged=True)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def assert_same_everywhere(tensors):
    """Bit for bit."""
    flat = torch.cat([t.detach().reshape(-1).double() for t in tensors])
    both = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(both, flat)
    assert torch.equal(both[0], both[1])


def assert_alike(model, expected, start):
    """Weights that have moved alike, relative to how far they moved."""
    networks = (model, expected, start)
    found, wanted, first = (
        torch.cat([whole(p).detach().reshape(-1) for p in one.parameters()]) for one in networks
    )
    gap, way = (found - wanted).norm(), (wanted - first).norm()
    assert way > 0
    assert gap <= 1e-4 * way, (gap / way).item()


def alone(closure, *, norm=False, n=STEPS, step=None, **options):
    """A network trained by this process with everything, and one that was not trained."""
    model = network(norm=norm)
    start = copy.deepcopy(model)
    optimizer = Computed(model.parameters(), group=False, **options)
    for batch in batches(n):
        (step or plain_step)(optimizer, model, lambda b=batch: closure(model, b))
    return model, start


def plain_step(optimizer, _, closure):
    optimizer.step(closure)


def clipped_step(optimizer, model, closure):
    """As in a loop of one's own: gradients are clipped between backward and step."""
    optimizer.zero_grad()
    optimizer.backward(closure)
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    optimizer.step()


def twice(optimizer, _, closure):
    optimizer.zero_grad()
    for _ in range(2):
        optimizer.backward(closure)
    optimizer.step()


def with_first_apart(optimizer, model, closure):
    """The way to accumulate with less traffic: the first gradient stays on its rank for a while."""
    optimizer.zero_grad()
    with model.no_sync():
        optimizer.backward(closure)
    optimizer.backward(closure)
    optimizer.step()


def as_ddp(rank, size, closure, *, norm=False, step=plain_step, **options):
    """A network of DDP, trained; its weights and the numbers of its lengths are the same on both ranks."""
    model = DistributedDataParallel(network(norm=norm))
    optimizer = Computed(model.parameters(), group=dist.group.WORLD, **options)
    for batch in batches():
        step(optimizer, model, lambda b=batch: closure(model, b))
    assert_same_everywhere([*model.parameters(), optimizer.walker.numbers])
    return model.module, optimizer


class OneWay(torch.autograd.Function):
    """Nothing, without a forward derivative."""

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient


def ddp(rank, size):
    one, over_ranks, by_this_rank = sw.SlicedWasserstein(), loss_of(averaged=True), loss_of_one()

    def joint(model, batch, loss=over_ranks):
        return joint_loss(loss, model, batch, rank, size)

    def all_samples(model, batch):
        return joint_loss(by_this_rank, model, batch)

    def own(model, batch):
        return joint_loss(one, model, batch, rank, size)

    def mean_of_both(model, batch):
        return sum(joint_loss(one, model, batch, k, size) for k in range(size)) / size

    # One loss over all samples: as one process with all of them.
    by_values = {"derivatives": "difference"}
    for step, same in (
        (plain_step, plain_step),
        (clipped_step, clipped_step),
        (twice, twice),
        (with_first_apart, twice),
    ):
        model, _ = as_ddp(rank, size, joint, step=step, total_steps=STEPS)
        assert_alike(model, *alone(all_samples, step=same, total_steps=STEPS, **by_values))

    # Slices that rank 0 draws, whatever others would draw: the same in the second pass.
    def drawn(model, batch):
        return joint(model, (*batch[:2], None))

    as_ddp(rank, size, drawn)

    # A loss of each rank: their mean is minimized, and differentiated forward.
    model, optimizer = as_ddp(rank, size, own, norm=True, max_norm=0.1)
    assert optimizer._derivatives.forward
    assert_alike(model, *alone(mean_of_both, norm=True, max_norm=0.1))
    for buffer in ("running_mean", "num_batches_tracked"):
        assert getattr(model[1], buffer).abs().sum() > 0
    assert model[1].num_batches_tracked == 2 * STEPS  # called twice in a pass, and in no other

    # Forward derivatives that are missing on one rank alone: both take differences.
    def missing_on_one(model, batch):
        loss = own(model, batch)
        return OneWay.apply(loss) if rank == 1 else loss

    logging.getLogger("slicewise").setLevel(logging.ERROR)
    model, optimizer = as_ddp(rank, size, missing_on_one)
    assert not optimizer._derivatives.forward
    assert_alike(model, *alone(mean_of_both, **by_values))
    with pytest.raises(RuntimeError, match="another process" if rank == 0 else "jvp|forward"):
        as_ddp(rank, size, missing_on_one, derivatives="forward")

    # Networks that are trained apart.
    with pytest.raises(ValueError, match=r"2 processes and no group: .*group.WORLD.*group=False"):
        Computed(network().parameters())
    if rank == 0:  # others need not take part
        found, start = alone(own)
        assert not torch.equal(found[0].weight, start[0].weight)


def test_networks_of_ddp_are_those_of_one_process():
    run(2, ddp)


def sharded(kind):
    model = network()
    names = ("copies", "shards")
    mesh = (
        init_device_mesh("cpu", (1, 2), mesh_dim_names=names)
        if kind == "hybrid"
        else init_device_mesh("cpu", (2,))
    )
    if kind == "layers":
        for layer in model[::2]:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def fsdp(rank, size):
    over_ranks, by_this_rank = loss_of(averaged=True), loss_of_one()

    def all_samples(model, batch):
        return joint_loss(by_this_rank, model, batch)

    def evaluate(optimizer, model, z):
        """At the average of the weights; then at those that were reached."""
        with torch.no_grad(), optimizer.averaged():
            found = [model(z)]
        with torch.no_grad():
            return [*found, model(z)]

    def train(kind, step, total_steps):
        model, reference, start = sharded(kind), network(), network()
        how = {"derivatives": "difference", "max_norm": 2.0, "total_steps": total_steps}
        optimizer = Computed(model.parameters(), group=dist.group.WORLD, **how)
        by_one = Computed(reference.parameters(), group=False, **how)
        for i, batch in enumerate(batches()):
            step(optimizer, model, lambda b=batch: joint_loss(over_ranks, model, b, rank, size))
            step(by_one, reference, lambda b=batch: all_samples(reference, b))
            if total_steps is None and i % 4 == 3:
                found = evaluate(optimizer, model, batch[0])
                wanted = evaluate(by_one, reference, batch[0])
                for a, b in zip(found, wanted, strict=True):
                    assert (a - b).abs().max() <= 1e-5 * b.abs().max(), (kind, i)
        assert_same_everywhere([optimizer.walker.numbers])
        model.reshard()
        assert_alike(model, reference, start)

    for kind in ("layers", "root", "hybrid"):
        train(kind, plain_step, STEPS)
        for step in (clipped_step, twice):
            train(kind, step, None)

    with pytest.raises(ValueError, match=r"group=False, but the parameters are sharded"):
        Computed(sharded("root").parameters(), group=False)
    early = network()
    optimizer = Computed(early.parameters(), group=dist.group.WORLD)
    early = fully_shard(early, mesh=init_device_mesh("cpu", (2,)))
    with pytest.raises(ValueError, match="make the optimizer after"):
        optimizer.step(lambda: early(torch.ones(3, 4).double()).square().mean())
    older = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    optimizer = Computed(older.parameters(), group=dist.group.WORLD)
    with pytest.raises(ValueError, match=r"use torch\.distributed\.fsdp\.fully_shard"):
        optimizer.step(lambda: older(torch.ones(3, 4).double()).square().mean())


@pytest.mark.slow  # 15 seconds, most of them torch's
def test_networks_of_fsdp_are_those_of_one_process():
    run(2, fsdp)
