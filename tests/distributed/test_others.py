"""The relatives over several processes: each is what it is on one, whatever its parts look at."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from tests.distributed.test_loss import compare, problem
from tests.ranks import loss_of, run, seeded, shares
from tests.tolerances import assert_close

# Each with something that its parts do differently: means, spreads, states, decisions, draws.
RELATIVES = {
    "gsw": {},
    "maxgsw": {"n_steps": 3},
    "asw": {},
    "qsw": {},
    "rqsw": {},
    "lcvsw": {},
    "ucvsw": {},
    "gaussiansw": {},
    "momentsw": {"check": False},
    "sirebsw": {},
    "imhebsw": {"n_slices": 20, "n_steps": 10},
    "rmhebsw": {"n_slices": 20, "n_steps": 10},
}
# On circles and planes that depend on all samples, which are gathered.
SPHERES: dict = {"ssw": {}, "linearssw": {}, "s3w": {}, "ris3w": {}}
OTHER_FACES = [
    ("ucvsw", {"n_slices": 3}),  # fewer slices than dimensions: another way to the variances
    ("lcvsw", {"hold_weights": True}),
    ("asw", {"activation": "leaky_relu"}),
    ("maxsw", {"restarts": 4, "n_steps": 3}),
    ("maxsw", {"restarts": 4, "n_steps": 1}),  # the best of some draws, which are rank 0's
    ("maxsw", {"search": 20, "restarts": 3, "n_steps": 5}),
]
CURVES = [
    ("gsw", {"function": "circular"}),
    ("gsw", {"function": "neural"}),
    ("maxgsw", {"function": "circular", "n_steps": 3}),
]


def test_no_relative_is_forgotten():
    ours = {name for name, one in sw.VARIANTS.items() if one.build.__module__.endswith("others")}
    assert ours == {*RELATIVES, *SPHERES}


def every_relative(rank, size):
    x, y, a, b = problem()
    for name, options in [*RELATIVES.items(), *OTHER_FACES]:
        for weights in ((None, None), (a, b)):
            compare(rank, size, name, x, y, *weights, exchange="projections", **options)
    for name, options in [*CURVES, *SPHERES.items()]:
        compare(rank, size, name, x, y, a, b, **options)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_any_number_of_processes_is_one(size):
    run(size, every_relative, patience=300)


def faces(rank, size):
    x, y, a, b = problem()
    batched = [problem(2, 3)[0], problem(3)[1]]
    for name, options in RELATIVES.items():
        compare(rank, size, name, *batched, exchange="projections", **options)
        compare(rank, size, name, x, y, a, b, exchange="samples", **options)
        how = {"convention": "reference", "exchange": "projections"}
        compare(rank, size, name, x, y, a, b, **how, **options)
        if "every_order" in sw.VARIANTS[name].properties:
            compare(rank, size, name, x, y, p=3, exchange="projections", **options)
        for scale in ("gaussian", "subspace"):
            compare(rank, size, name, x, y, scale=scale, exchange="projections", **options)
        if "linear" in sw.VARIANTS[name].properties:
            how = {"scale": "displacement", "exchange": "projections"}
            compare(rank, size, name, x, y, **how, **options)


@pytest.mark.slow
def test_batches_orders_and_scales():
    run(2, faces, patience=400)


def on_replicas(rank, size):
    """Large enough to be shared out by slices: what is drawn must be agreed on before it is priced."""
    x = torch.randn(1500, 4, generator=seeded(5), dtype=torch.float64)
    y = torch.randn(1400, 4, generator=seeded(6), dtype=torch.float64) + 0.5
    for name, options in [*RELATIVES.items(), *OTHER_FACES, *CURVES]:
        one, other = (x.clone().requires_grad_() for _ in range(2))
        loss = loss_of(name, samples="replicated", **options)
        found = loss(one, y, generator=seeded(rank))
        expected = sw.SlicedWasserstein(name, **options)(other, y, generator=seeded())
        found.backward()
        expected.backward()
        assert loss.exchanged.what == "slices"
        assert_close(found, expected)
        assert (one.grad - other.grad).abs().max() <= 1e-10 * other.grad.abs().max(), name


def test_replicas():
    run(2, on_replicas, patience=300)


def kept_lifts(rank, size):
    """What asw learns is one layer, whoever saves it; and curves say why their samples travel."""
    x, y, _, _ = problem()
    alone, shared = sw.SlicedWasserstein("asw"), loss_of("asw", exchange="projections")
    one, other = seeded(), seeded(rank)
    for _ in range(3):
        expected = alone(x, y, generator=one)
        found = shared(shares(x, size)[rank], shares(y, size)[rank], generator=other)
        assert_close(found, expected)
    assert_close(shared.slicer_weight, alone.slicer_weight)
    mine = shares(x, size)[rank], shares(y, size)[rank]
    with pytest.raises(ValueError, match="parts that look at all samples"):
        loss_of("gsw", function="circular", exchange="projections")(*mine)
    with pytest.raises(ValueError, match="p = 3"):
        loss_of("momentsw", p=3)(*mine)


def test_what_is_learned_is_one():
    run(3, kept_lifts)
