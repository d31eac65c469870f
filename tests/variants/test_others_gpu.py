"""The relatives on a CUDA device: the numbers of the CPU, in losses, flows, graphs, bounds and metrics of subspaces."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.distance import replay
from slicewise.sampling import point_sets
from tests.kernels.test_gpu import on_both_devices, pair
from tests.tolerances import assert_close

pytestmark = pytest.mark.gpu

LINEAR = ["qsw", "rqsw", "lcvsw", "ucvsw", "gaussiansw", "sirebsw", "imhebsw", "rmhebsw"]
LIFTED = ["gsw", "maxgsw", "asw", "momentsw"]
FACES = [
    ("gsw", {"function": "circular"}),
    ("gsw", {"function": "neural"}),
    ("maxgsw", {"function": "circular", "n_steps": 2}),
    ("asw", {"activation": "leaky_relu"}),
    ("ucvsw", {"n_slices": 3}),  # fewer slices than dimensions
    ("lcvsw", {"hold_weights": True}),
    ("maxsw", {"search": 20, "restarts": 3, "n_steps": 3}),
]


def short(name):
    return {"n_steps": 2} if "n_steps" in sw.VARIANTS[name].options else {}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("name", "options"), FACES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_other_faces(name, options, weighted):
    """What the tests of all variants do not reach: values, and gradients to samples and weights."""
    found = []
    for device in ("cpu", "cuda"):
        inputs = [t.to(device).requires_grad_() for t in pair()]
        given = {}
        if weighted:
            scores = torch.arange(40.0, dtype=torch.float64, device=device).sin().requires_grad_()
            inputs.append(scores)
            given = {"x_weights": scores.softmax(-1)}
        value = sw.sliced_wasserstein(*inputs[:2], name, generator=seeded(), **given, **options)
        assert value.device.type == device
        found.append([value, *torch.autograd.grad(value.sum(), inputs)])
    for here, there in zip(*found, strict=True):
        assert_close(there.cpu(), here, rtol=1e-8)


@pytest.mark.parametrize("points", ["sobol", "spiral", "equal_area", "coulomb"])
def test_even_points_are_the_same_on_the_device(points):
    there = point_sets.directions(points, 20, 3, torch.device("cuda"))
    assert there.is_cuda
    assert there.cpu().equal(point_sets.directions(points, 20, 3, torch.device("cpu")))
    x, y = (t.cuda() for t in pair(d=3))
    here = sw.sliced_wasserstein(x.cpu(), y.cpu(), "rqsw", points=points, generator=seeded())
    found = sw.sliced_wasserstein(x, y, "rqsw", points=points, generator=seeded())
    assert_close(found.cpu(), here, rtol=1e-8)


@pytest.mark.parametrize(
    ("variant", "lr"), [*((v, "auto") for v in LINEAR), *((v, 0.05) for v in LINEAR + LIFTED)]
)
def test_a_seed_means_the_same_on_any_device(variant, lr):
    x, y = pair(m=40)
    here, there = on_both_devices(x, y, variant, lr=lr, max_steps=3, **short(variant))
    assert there.particles.is_cuda
    assert_close(there.particles.cpu(), here.particles, rtol=1e-4)
    assert_close(there.history.loss, here.history.loss, rtol=1e-4)


@pytest.mark.parametrize("lr", ["auto", 0.05])
@pytest.mark.parametrize("variant", LINEAR)
def test_a_replayed_flow_is_the_eager_one_step_for_step(variant, lr, monkeypatch):
    x, y = (t.cuda() for t in pair(torch.float64, n=64, m=64))

    def run():
        return sw.flow(
            x,
            y,
            variant,
            lr=lr,
            seeds=[1, 2],
            max_steps=60,
            stopping=sw.Stopping(tolerance=None),
            **short(variant),
        )

    replayed = run()
    monkeypatch.setattr("slicewise.flows.group.graph_safe", lambda mover: False)
    eager = run()
    assert_close(replayed.history.loss, eager.history.loss)
    assert_close(replayed.particles, eager.particles)


@pytest.mark.parametrize("variant", LINEAR + LIFTED)
def test_a_seed_means_the_same_with_a_graph_and_without(variant):
    """Those that a graph can hold are captured after some calls; nobody should notice."""
    replay._kept.__init__()
    x, y = (t.cuda() for t in pair(n=50, m=50))
    found = []
    for _ in range(5):
        torch.manual_seed(3)
        found.append(sw.value_and_grad(x, y, variant=variant, **short(variant)))
    for value, gradient in found[1:]:
        assert_close(value, found[0][0])
        assert_close(gradient, found[0][1], rtol=1e-8)


def test_what_asw_learns_stays_on_the_device():
    x, y = (t.cuda() for t in pair())
    loss = sw.SlicedWasserstein("asw")
    for _ in range(3):
        loss(x, y)
    assert loss.slicer_weight.is_cuda
    assert loss.slicer_step.eq(15).all()  # five steps a call


def test_bounds_and_subspaces():
    """Bounds on the device; exact transports on the host, whose values and gradients come back."""
    pytest.importorskip("ot", reason="exact transports by POT")
    x, y = pair(n=20, m=20)
    found = []
    for device in ("cpu", "cuda"):
        a, b = x[0].to(device).requires_grad_(), y[0].to(device)
        best = sw.evaluate(a, b, "maxsw", search=20, n_steps=3, generator=seeded())
        robust = sw.subspace_robust_wasserstein(a, b, 2)
        detour = sw.subspace_detour(a, b, torch.eye(5, 2, dtype=a.dtype, device=device))
        slopes = [torch.autograd.grad(one.value, a)[0] for one in (robust, detour)]
        found.append([best.bound, robust.value, detour.value, *slopes])
        assert all(t.device.type == device for t in found[-1])
    for here, there in zip(*found, strict=True):
        assert_close(there.cpu(), here, rtol=1e-8)
