"""Where people use it: half precision, autocast, torch.compile, torch.func, odd strides."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
import torch

import slicewise as sw
from slicewise.sampling import point_sets
from tests.tolerances import assert_close

# Raised by torch about its own code while it compiles or transforms ours.
needs_no_strictness = pytest.mark.filterwarnings(
    "ignore:.*deprecated.*", "ignore:.*should not be instantiated:DeprecationWarning"
)


def unit_slices(n, d, dtype=torch.float32):
    return torch.nn.functional.normalize(torch.randn(n, d, dtype=torch.float64), dim=-1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["sw", "ebsw"])
def test_half_precision_of_training_size(dtype, name):
    """Against float64 of the same rounded inputs; float16 with the scaled loss of a GradScaler."""
    x, y = torch.randn(2048, 512).to(dtype), (1.1 * torch.randn(2048, 512) + 0.1).to(dtype)
    slices = unit_slices(50, 512)
    scale = 2.0**16
    half, exact = x.clone().requires_grad_(), x.double().requires_grad_()
    value = sw.sliced_wasserstein(half, y, name, slices=slices, objective="power")
    assert value.dtype == torch.float32
    truth = sw.sliced_wasserstein(
        exact, y.double(), name, slices=slices.double(), objective="power"
    )
    assert_close(value, truth, rtol=1e-3)
    (scale * value).backward()
    (scale * truth).backward()
    assert half.grad.dtype == dtype
    error = (half.grad.double() - exact.grad).norm() / exact.grad.norm()
    assert error < 1e-2


@pytest.mark.parametrize("backward_inside", [True, False])
def test_autocast_is_off_inside(backward_inside):
    x, y = torch.randn(64, 32, requires_grad=True), torch.randn(64, 32)
    slices = unit_slices(20, 32)
    plain = sw.sliced_wasserstein(x, y, slices=slices)
    (expected,) = torch.autograd.grad(plain, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = sw.sliced_wasserstein(x, y, slices=slices)
        if backward_inside:
            (gradient,) = torch.autograd.grad(value, x)
    if not backward_inside:
        (gradient,) = torch.autograd.grad(value, x)
    assert value.equal(plain)
    assert gradient.equal(expected)


def test_a_network_under_autocast_meets_single_precision_data():
    net = torch.nn.Linear(8, 16)
    loss = sw.SlicedWasserstein()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made = net(torch.randn(64, 8))
        assert made.dtype == torch.bfloat16
        loss(made, torch.randn(64, 16)).backward()
    assert net.weight.grad.isfinite().all()


@needs_no_strictness
@pytest.mark.parametrize("m", [40, 30])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["sw", pytest.param("ebsw", marks=pytest.mark.slow)])
def test_compiles_whole(name, m, weighted):
    torch._dynamo.reset()
    loss = sw.SlicedWasserstein(name)
    backend = "inductor" if shutil.which("g++") else "aot_eager"
    compiled = torch.compile(loss, fullgraph=True, backend=backend)
    x, y, slices = torch.randn(2, 40, 5), torch.randn(2, m, 5) + 1, unit_slices(11, 5)
    weights = {"x_weights": torch.full((40,), 1 / 40)} if weighted else {}
    results = []
    for function in (loss, compiled):
        inputs = [t.clone().requires_grad_() for t in (x, y, slices)]
        value = function(inputs[0], inputs[1], slices=inputs[2], **weights)
        results.append((value, *torch.autograd.grad(value, inputs)))
    for eager, fused in zip(*results, strict=True):
        assert_close(fused, eager)


@needs_no_strictness
@pytest.mark.parametrize(("name", "options"), [("sw", {}), ("rpsw", {"kappa": 20.0})], ids=str)
def test_the_function_compiles_whole_as_well(name, options):
    """Names, options and all; what it warned of, Dynamo's own words, would fail here."""
    torch._dynamo.reset()

    def distance(x, y):
        return sw.sliced_wasserstein(x, y, name, n_slices=20, **options)

    compiled = torch.compile(distance, fullgraph=True, backend="aot_eager")
    x, y = torch.randn(40, 5, requires_grad=True), torch.randn(30, 5) + 1
    found = []
    for function in (distance, compiled):
        torch.manual_seed(0)
        value = function(x, y)
        found.append((value, *torch.autograd.grad(value, x)))
    for eager, fused in zip(*found, strict=True):
        assert_close(fused, eager)


def distances(x, y):
    slices = torch.nn.functional.normalize(
        torch.arange(12, dtype=x.dtype).sin().reshape(4, 3), dim=-1
    )
    return sw.sliced_wasserstein(x, y, slices=slices)


@needs_no_strictness
@pytest.mark.parametrize("m", [6, 4])
def test_function_transforms(m):
    x, y = torch.randn(5, 6, 3).double(), torch.randn(5, m, 3).double()
    live = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(distances(live, y).sum(), live)
    assert_close(torch.vmap(distances)(x, y), distances(x, y))
    assert_close(torch.vmap(torch.func.grad(distances))(x, y), expected)
    assert_close(torch.func.grad(lambda x: torch.vmap(distances)(x, y).sum())(x), expected)
    assert_close(torch.func.jacrev(distances)(x[0], y[0]), expected[0])
    twice = torch.func.jacrev(torch.func.jacrev(distances))(x[0], y[0])
    hessian = torch.autograd.functional.hessian(lambda x: distances(x, y[0]), x[0])
    assert_close(twice, hessian)


def test_vmap_over_weights_and_random_slices():
    x, y = torch.randn(6, 3).double(), torch.randn(4, 3).double()
    weights = torch.rand(5, 6).double()
    weights = weights / weights.sum(-1, keepdim=True)
    slices = unit_slices(7, 3, torch.float64)

    def weighted(a):
        return sw.sliced_wasserstein(x, y, slices=slices, x_weights=a)

    assert_close(torch.vmap(weighted)(weights), weighted(weights))
    live = weights.clone().requires_grad_()
    (mapped,) = torch.autograd.grad(torch.vmap(weighted)(live).sum(), live)
    (looped,) = torch.autograd.grad(weighted(live).sum(), live)
    assert_close(mapped, looped)
    drawn = torch.vmap(lambda s: sw.sliced_wasserstein(s, y), randomness="different")(
        x.expand(3, 6, 3)
    )
    assert len(drawn.unique()) == 3


def test_nan_passes_through_where_values_cannot_be_read():
    x = torch.randn(3, 6, 3).double()
    x[1, 0, 0] = torch.nan
    found = torch.vmap(distances)(x, torch.randn(3, 6, 3).double())
    assert found.isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["sw", "imsw", "rpsw", "phisw"])
def test_strides_do_not_matter(name):
    base = torch.randn(3, 40, 10).double()
    strided, expanded = base[:, ::2, ::2], base[:1].expand(3, 40, 10)[:, :20, 5:]
    target = torch.randn(8, 5, 3).double().permute(2, 0, 1)
    for x in (strided, expanded):
        seeds = [torch.Generator().manual_seed(3) for _ in range(2)]
        odd = sw.sliced_wasserstein(x, target, name, generator=seeds[0])
        even = sw.sliced_wasserstein(x.contiguous(), target.contiguous(), name, generator=seeds[1])
        assert_close(odd, even, rtol=1e-8)


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_inference_mode(name):
    with torch.inference_mode():
        assert sw.sliced_wasserstein(torch.randn(6, 3), torch.randn(5, 3), name).isfinite()


@pytest.mark.parametrize("name", [n for n in sw.VARIANTS if n not in ("vdsw", "phisw")])
def test_random_slices_under_vmap(name):
    """`vdsw` differentiates inside and `phisw` counts dimensions: those two need given slices there."""
    point_sets.sobol.cache_clear()  # made under vmap, and fit to be kept
    x, y = torch.randn(3, 6, 4).double(), torch.randn(5, 4).double()
    found = torch.vmap(lambda s: sw.sliced_wasserstein(s, y, name), randomness="different")(x)
    assert found.shape == (3,)
    assert found.isfinite().all()
    assert sw.sliced_wasserstein(x[0], y, name).isfinite()


def test_gradients_reach_only_what_asks():
    x, y = torch.randn(5, 3), torch.randn(5, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(sw.sliced_wasserstein(x, y), y)
    assert gradient.shape == y.shape
    with torch.no_grad():
        assert not sw.sliced_wasserstein(x, y).requires_grad


@pytest.mark.parametrize("name", sw.VARIANTS)
def test_slices_are_constants_for_the_gradient(name):
    """No unrolled differentiation through ascents, paths or networks."""
    x = torch.randn(6, 3).double().requires_grad_()
    y = torch.randn(5, 3).double()
    seeds = [torch.Generator().manual_seed(0) for _ in range(2)]
    found = sw.evaluate(x, y, name, generator=seeds[0])
    assert not found.slices.requires_grad
    again = sw.evaluate(x, y, name, slices=found.slices, generator=seeds[1])  # of a lift, if any
    (drawn,) = torch.autograd.grad(found.value, x)
    (given,) = torch.autograd.grad(again.value, x)
    assert_close(drawn, given)


def test_training_moves_samples_onto_the_target():
    """A plain user's loop: fresh slices, an optimiser, and the loss goes to nothing."""
    x = torch.randn(30, 2).double().requires_grad_()
    y = torch.randn(30, 2).double() + 3
    optimiser = torch.optim.SGD([x], lr=15.0)
    loss = sw.SlicedWasserstein()
    start = sw.wasserstein(x, y)
    for _ in range(200):
        optimiser.zero_grad()
        loss(x, y).backward()
        optimiser.step()
    assert sw.wasserstein(x, y) < 1e-2 * start


def test_importing_brings_torch_and_numpy_only():
    code = (
        "import sys, slicewise; heavy = {'scipy', 'ot', 'sklearn', 'matplotlib', 'numba', 'jax'}; "
        "print(heavy & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_importing_is_quick():
    code = (
        "import time, torch; start = time.process_time(); import slicewise; "
        "print(time.process_time() - start)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.15
