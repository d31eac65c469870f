"""The loss over several processes is the loss over their samples joined: values, gradients, bytes."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
import torch.distributed as dist

import slicewise as sw
from slicewise.problem import WeightingPart
from tests.ranks import loss_of, run, seeded, shares
from tests.tolerances import assert_close

# The methods of the paper, and ours that look at samples in ways of their own.
ELEVEN = ["sw", "maxsw", "dsw", "maxksw", "imsw", "vimsw", "omsw", "rmsw", "ebsw", "rpsw", "ebrpsw"]
OTHERS = ["vdsw", "phisw", "orthosw"]


def problem(*batch, n=19, m=13, d=4):
    """Samples, and weights of them, some zero."""
    x = torch.randn(*batch, n, d, generator=seeded(1), dtype=torch.float64)
    y = torch.randn(*batch, m, d, generator=seeded(2), dtype=torch.float64) + 0.5
    a, b = (torch.rand(k, generator=seeded(3), dtype=torch.float64) for k in (n, m))
    a[3] = 0
    return x, y, a / a.sum(), b / b.sum()


def compare(rank, size, variant, x, y, a=None, b=None, *, call=None, **options):
    """Value and all gradients of this rank's shares against those of one process with everything."""
    given = [x, y, a, b]
    whole = [t if t is None else t.clone().requires_grad_() for t in given]
    alone = {k: v for k, v in options.items() if k not in ("exchange", "samples")}
    call = {} if call is None else call

    def value(loss, inputs, seed):
        weights = {"x_weights": inputs[2], "y_weights": inputs[3]}
        return loss(inputs[0], inputs[1], **weights, generator=seeded(seed), **call)

    expected = value(sw.SlicedWasserstein(variant, **alone), whole, 0)
    expected.backward()
    dims = (-2, -2, -1, -1)
    pairs = list(zip(given, dims, strict=True))
    mine = [t if t is None else shares(t, size, k)[rank].clone().requires_grad_() for t, k in pairs]
    found = value(
        loss_of(variant, **options), mine, rank
    )  # only rank 0's seed is that of the others
    found.backward()
    assert_close(found, expected)
    for one, all_of, dim in zip(mine, whole, dims, strict=True):
        if one is not None and one.numel():
            scale = all_of.grad.abs().max()
            own = shares(all_of.grad, size, dim)[rank]
            assert (one.grad - own).abs().max() <= 1e-10 * scale, (variant, options)


def every_variant(rank, size):
    x, y, a, b = problem()
    for name in ELEVEN + (OTHERS if size == 2 else []):
        compare(rank, size, name, x, y, exchange="projections", backend="torch")
    for name in ("sw", "ebsw", "rpsw", "imsw", "dsw"):
        compare(rank, size, name, x, y, a, b, exchange="projections")
    compare(rank, size, "sw", x, y[:, :4], exchange="samples")


@pytest.mark.parametrize("size", [1, 2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_any_number_of_processes_is_one(size):
    run(size, every_variant)


def faces(rank, size):
    x, y, a, b = problem()
    for name in ELEVEN:
        for exchange in ("projections", "samples"):
            compare(rank, size, name, x, y, a, b, exchange=exchange)
    batched = [problem(2, 3)[0], problem(3)[1]]
    for name in ("sw", "ebsw", "rpsw", "maxksw", "phisw"):
        compare(rank, size, name, *batched, exchange="projections")
    for p in (1, 1.5, 3):
        compare(rank, size, "ebsw", x, y, p=p, exchange="projections")
        compare(rank, size, "sw", x, y, p=p, objective="root", exchange="projections")
    compare(rank, size, "ebsw", x, y, a, b, convention="reference", exchange="projections")
    compare(rank, size, "imsw", x, y, convention="reference", legacy=True, exchange="projections")
    for scale in ("gaussian", "subspace"):
        compare(rank, size, "sw", x, y, scale=scale, exchange="projections")
    compare(rank, size, "ebsw", x, y, scale="displacement", exchange="projections")
    compare(rank, size, "sw", x, y, scale="displacement", p=3)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_weights_batches_orders_and_scales(size):
    run(size, faces, patience=400)


def terms(rank, size):
    """What is special about a loss over ranks, one thing after another in the same processes."""
    x, y, _, _ = problem()
    for check in (
        averaged,
        replicas,
        given_slices,
        pieces,
        kept_state,
        refusals,
        records,
        part_of_own,
    ):
        check(rank, size, x, y)


def averaged(rank, size, x, y):
    grads = []
    for flag in (False, True):
        mine = shares(x, size)[rank].clone().requires_grad_()
        value = loss_of(averaged=flag)(mine, shares(y, size)[rank], generator=seeded())
        value.backward()
        grads.append((value.detach(), mine.grad))
    assert grads[0][0] == grads[1][0]
    assert_close(grads[1][1], grads[0][1] * size)


def replicas(rank, size, x, y):
    big = torch.randn(6000, 4, generator=seeded(5), dtype=torch.float64)
    for samples, what in ((big, "slices"), (x, "nothing")):
        one, other = (samples.clone().requires_grad_() for _ in range(2))
        loss = loss_of("ebsw", samples="replicated")
        found = loss(one, y, generator=seeded(rank))
        expected = sw.SlicedWasserstein("ebsw")(other, y, generator=seeded())
        found.backward()
        expected.backward()
        assert loss.exchanged.what == what
        assert_close(found, expected)
        assert_close(one.grad, other.grad)
    with pytest.raises(ValueError, match="ranks 0 and 1 hold different ones"):
        loss_of(samples="replicated")(x + rank, y)


def given_slices(rank, size, x, y):
    slices = torch.nn.functional.normalize(torch.randn(6, 4, generator=seeded(7)).double(), dim=-1)
    whole, mine = (slices.clone().requires_grad_() for _ in range(2))
    sw.SlicedWasserstein()(x, y, slices=whole).backward()
    loss = loss_of(exchange="projections")
    loss(shares(x, size)[rank], shares(y, size)[rank], slices=mine).backward()
    assert_close(mine.grad, whole.grad)
    found = loss(shares(x, size)[rank], sw.Target(shares(y, size)[rank], slices))
    assert_close(found, sw.SlicedWasserstein()(x, y, slices=slices))


def pieces(rank, size, x, y):
    """Memory bounds cut slices into pieces; ranks with different shares cut alike."""
    from slicewise.distributed import matching

    whole, matching.PIECE_BYTES = matching.PIECE_BYTES, 1
    try:
        for name in ("sw", "ebsw", "imsw"):
            compare(rank, size, name, x, y, exchange="projections", n_slices=20)
    finally:
        matching.PIECE_BYTES = whole


def kept_state(rank, size, x, y):
    alone, shared = sw.SlicedWasserstein("dsw"), loss_of("dsw", exchange="projections")
    one, other = seeded(), seeded(rank)
    for _ in range(3):
        expected = alone(x, y, generator=one)
        found = shared(shares(x, size)[rank], shares(y, size)[rank], generator=other)
        assert_close(found, expected)
    # A checkpoint of any rank holds the law that slices were drawn from.
    assert_close(shared.slicer_bias, alone.slicer_bias)
    assert_close(copy.deepcopy(shared).slicer_bias, shared.slicer_bias)


def refusals(rank, size, x, y):
    mine = shares(x, size)[rank].clone().requires_grad_()
    loss = loss_of(exchange="projections")
    value = loss(mine, shares(y, size)[rank])
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(value, mine, create_graph=True)
    one, all_of = shares(x, size)[rank].clone().requires_grad_(), x.clone().requires_grad_()
    other = shares(y, size)[rank]
    gathered = loss_of(exchange="samples", p=3)(one, other, generator=seeded())
    (slope,) = torch.autograd.grad(gathered, one, create_graph=True)
    alone = sw.SlicedWasserstein(p=3)(all_of, y, generator=seeded())
    (whole,) = torch.autograd.grad(alone, all_of, create_graph=True)
    (found,) = torch.autograd.grad(slope.square().sum(), one)
    (expected,) = torch.autograd.grad(shares(whole, size)[rank].square().sum(), all_of)
    assert_close(found, shares(expected, size)[rank])
    with pytest.raises(TypeError, match="save its state_dict"):
        pickle.dumps(loss)
    with pytest.raises(ValueError, match=r"torch\.compile"):
        torch.vmap(loss)(mine.expand(2, *mine.shape), shares(y, size)[rank].expand(2, -1, -1))
    bad = shares(x, size)[rank].clone()
    if rank == 1:
        bad[0, 0] = float("nan")
    told = "x of shape .* has 1 NaN" if rank == 1 else "samples on another rank have NaN"
    with pytest.raises(ValueError, match=told):
        loss(bad, shares(y, size)[rank])
    with pytest.raises(ValueError, match="x_weights sums to"):
        loss(mine, shares(y, size)[rank], x_weights=torch.full((len(mine),), 1.0))


def records(rank, size, x, y):
    loss = loss_of()
    assert loss.exchanged is None
    loss(shares(x, size)[rank], shares(y, size)[rank])
    assert loss.exchanged.what == "samples"
    assert "no more than" in str(loss.exchanged)
    assert f"rank {rank} of {size}" in repr(loss)
    long = torch.zeros(3000, 4, dtype=torch.float64)
    loss(long, long)
    assert loss.exchanged.what == "projections"


def part_of_own(rank, size, x, y):
    """A caller's part that looks at the samples gets to see all of them."""

    class Largest(WeightingPart):
        sums_to_one = False

        def __call__(self, costs, slices, given):
            return costs.new_full(costs.shape, float(given.x.abs().max()))

    recipe = sw.Recipe(sw.VARIANTS["sw"]().slicer, Largest())
    compare(rank, size, recipe, x, y)
    with pytest.raises(ValueError, match="parts that look at all samples"):
        loss_of(recipe, exchange="projections")(shares(x, size)[rank], y)


def test_terms():
    run(2, terms)


def ddp_step(rank, size):
    """One step of DDP equals the step of one process on the joined batch, and without the correction not."""
    noise = torch.randn(24, 3, generator=seeded(1), dtype=torch.float64)
    data = torch.randn(20, 2, generator=seeded(2), dtype=torch.float64)
    found = {}
    for averaged in (True, False):
        torch.manual_seed(0)
        layers = torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        alone = torch.nn.Sequential(*layers).double()
        shared = copy.deepcopy(alone)
        wrapped = torch.nn.parallel.DistributedDataParallel(shared)
        loss = loss_of("ebsw", averaged=averaged, exchange="projections")
        optimisers = [torch.optim.SGD(m.parameters(), lr=0.5) for m in (alone, shared)]
        for _ in range(3):
            for optimiser in optimisers:
                optimiser.zero_grad()
            sw.SlicedWasserstein("ebsw")(alone(noise), data, generator=seeded()).backward()
            mine = shares(noise, size)[rank], shares(data, size)[rank]
            loss(wrapped(mine[0]), mine[1], generator=seeded(rank)).backward()
            for optimiser in optimisers:
                optimiser.step()
        parameters = zip(alone.parameters(), shared.parameters(), strict=True)
        found[averaged] = max((a - b).abs().max().item() for a, b in parameters)
    return found


def test_a_ddp_step_is_the_step_of_one_process():
    for found in run(3, ddp_step):
        assert found[True] < 1e-10
        assert found[False] > 1e-4


def fsdp_step(rank, size):
    """The same with FSDP, which shards the parameters and averages their gradients, too."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    noise = torch.randn(24, 3, generator=seeded(1), dtype=torch.float64)
    data = torch.randn(20, 2, generator=seeded(2), dtype=torch.float64)
    torch.manual_seed(0)
    layers = torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
    alone = torch.nn.Sequential(*layers).double()
    shared = copy.deepcopy(alone)
    fully_shard(shared, mesh=init_device_mesh("cpu", (size,)))
    loss = loss_of(averaged=True, exchange="projections")
    sw.SlicedWasserstein()(alone(noise), data, generator=seeded()).backward()
    loss(shared(shares(noise, size)[rank]), shares(data, size)[rank], generator=seeded()).backward()
    pairs = zip(alone.parameters(), shared.parameters(), strict=True)
    return max((a.grad - b.grad.full_tensor()).abs().max().item() for a, b in pairs)


@pytest.mark.slow
def test_an_fsdp_step_is_the_step_of_one_process():
    assert max(run(2, fsdp_step)) < 1e-10


def test_a_group_needs_torch_distributed():
    with pytest.raises(ValueError, match="init_process_group"):
        sw.SlicedWasserstein(group=object())
    with pytest.raises(ValueError, match="samples = 'shared' is unknown: did you mean 'sharded'"):
        sw.SlicedWasserstein(group=object(), samples="shared")
    assert dist.group.WORLD is None  # so that the same script runs on one process, undistributed
    assert sw.SlicedWasserstein(group=dist.group.WORLD).terms is None
