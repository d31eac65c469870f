"""Every backend against the plain transport: values, all gradients, awkward sizes and awkward values."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import slicewise as sw
from slicewise.kernels import backend as kernel_backend
from slicewise.kernels import cpu as cpu_kernels
from slicewise.kernels.cpu import match_by_numba
from slicewise.kernels.numpy_match import match_by_numpy
from slicewise.transport import sliced
from slicewise.transport.one_dim import Wanted
from slicewise.transport.sliced import match_slices as plain
from tests.tolerances import assert_close

BACKENDS = {"numba": match_by_numba, "numpy": match_by_numpy}
SIZES = [(1, 1), (2, 2), (63, 63), (1000, 1000), (1024, 1024), (4097, 4097)]
UNEQUAL = [(1, 7), (63, 1000), (4097, 100), (1000, 999), (5, 4097)]
every_backend = pytest.mark.parametrize("backend", BACKENDS)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def problem(n, m, dtype, batch=(), d=3, n_slices=5):
    x = torch.randn(*batch, n, d, dtype=dtype)
    y = torch.randn(*batch, m, d, dtype=dtype) + 0.5
    slices = torch.nn.functional.normalize(torch.randn(*batch, n_slices, d, dtype=dtype), dim=-1)
    return x, y, slices


def check(backend, *inputs, p=2.0, wanted=Wanted(), **options):
    fast = BACKENDS[backend](*inputs, p=p, wanted=wanted, **options)
    slow = plain(*inputs, p=p, wanted=wanted, **options)
    for ours, truth in zip(fast, slow, strict=True):
        assert (ours is None) == (truth is None)
        if truth is not None:
            assert_close(ours, truth)


@every_backend
@both_dtypes
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize(("n", "m"), SIZES + UNEQUAL)
def test_values_and_gradients_on_the_lines(backend, dtype, n, m, p):
    inputs = problem(n, m, dtype)
    check(backend, *inputs, p=p)
    check(backend, *inputs, p=p, wanted=Wanted(True, False))
    check(backend, *inputs, p=p, wanted=Wanted(False, False))


@every_backend
@both_dtypes
@pytest.mark.parametrize(("n", "m"), [(63, 63), (30, 50), (1500, 1500), (1500, 40)])
@pytest.mark.parametrize("sides", ["x", "y", "both", "batched"])
def test_sample_weights(backend, dtype, n, m, sides):
    x, y, slices = problem(n, m, dtype, batch=(2,))
    a, b = torch.rand(2, n, dtype=dtype), torch.rand(m, dtype=dtype)
    a[:, ::3] = 0
    a[:, 1] += 0.1
    a, b = (w / w.sum(-1, keepdim=True) for w in (a, b))
    if sides != "batched":
        a = a[0]
    check(backend, x, y, slices, None if sides == "y" else a, None if sides == "x" else b)


AWKWARD = {
    "ties": lambda t: t.mul(2).round(),
    "all equal": lambda t: torch.ones_like(t),
    "signed zeros": lambda t: t.sign() * 0.0,
    "huge": lambda t: t * 1e15,
    "tiny": lambda t: t * 1e-15,
    "denormal": lambda t: t * torch.finfo(t.dtype).tiny * 1e-3,
    "an outlier": lambda t: torch.cat([t[:-1], t[-1:] * 1e12]),
    "far from zero": lambda t: t * 1e-3 + 1e3,
    "sorted": lambda t: t.sort(0).values,
    "backwards": lambda t: t.sort(0, descending=True).values,
}


@every_backend
@both_dtypes
@pytest.mark.parametrize("n", [63, 1000, 3000])
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_values(backend, dtype, n, kind):
    """On the axes, so that projections are the values themselves and ties stay ties."""
    x, y, _ = problem(n, n, dtype)
    x, y = AWKWARD[kind](x), AWKWARD[kind](y)
    axes = torch.eye(3, dtype=dtype)
    check(backend, x, y, axes, p=1.0)  # squares of the denormal would vanish
    if kind != "denormal":
        check(backend, x, y, axes)


@every_backend
@both_dtypes
@pytest.mark.parametrize("n", [50, 2000])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_in_is_nan_out(backend, dtype, n, bad):
    x, y, slices = problem(n, n, dtype)
    x[3, 0] = bad
    x[4, 0] = -bad
    found = BACKENDS[backend](x, y, slices, p=2.0)
    assert not found.cost.isfinite().any()
    clean = BACKENDS[backend](x[5:], y[5:], slices, p=2.0)
    assert clean.cost.isfinite().all()


@every_backend
def test_batches_broadcast(backend):
    x, y, slices = problem(30, 30, torch.float32, batch=(4,))
    check(backend, x, y[0], slices)
    check(backend, x, y[0], slices[0])
    check(backend, x, y[0], slices[0], wanted=Wanted(True, False))
    check(backend, x[0], y, slices[0], wanted=Wanted(True, False))
    check(backend, x.expand(2, 4, 30, 3), y, slices)


@every_backend
@pytest.mark.parametrize("name", sw.VARIANTS)
def test_every_variant_on_every_backend(backend, name):
    """All the way through: value and gradients to samples and given slices, ascents and chains."""
    x, y, slices = problem(40, 40, torch.float64, batch=(2,))
    if "linear" not in sw.VARIANTS[name].properties:
        slices = sw.evaluate(x, y, name).slices  # of another dimension
    results = []
    for choice in (backend, "torch"):
        inputs = [t.clone().requires_grad_() for t in (x, y, slices)]
        seed = torch.Generator().manual_seed(0)  # of a lift, if any
        given = sw.sliced_wasserstein(
            inputs[0], inputs[1], name, slices=inputs[2], generator=seed, backend=choice
        )
        gradients = torch.autograd.grad(given.sum(), inputs)
        drawn = sw.sliced_wasserstein(
            x, y, name, generator=torch.Generator().manual_seed(0), backend=choice
        )
        results.append((given, *gradients, drawn))
    for ours, truth in zip(*results, strict=True):
        assert_close(ours, truth, rtol=1e-8)


@every_backend
@pytest.mark.parametrize("name", sw.VARIANTS)
@pytest.mark.parametrize("objective", ["power", "root"])
@pytest.mark.parametrize("convention", ["mean", "reference"])
def test_value_and_grad_is_what_autograd_says(backend, name, objective, convention):
    x, y, _ = problem(20, 20, torch.float64, batch=(3,))
    x = x[:1].requires_grad_()  # broadcast against y
    options = {"objective": objective, "convention": convention, "backend": backend}
    seeds = [torch.Generator().manual_seed(1) for _ in range(2)]
    expected = sw.sliced_wasserstein(x, y, name, generator=seeds[0], **options)
    (slope,) = torch.autograd.grad(expected.sum(), x)
    value, gradient = sw.value_and_grad(x, y, name, generator=seeds[1], **options)
    assert_close(value, expected)
    assert_close(gradient, slope)
    assert not gradient.requires_grad


def test_value_and_grad_with_weights_half_precision_and_equal_samples():
    x, y, _ = problem(20, 15, torch.float32)
    weights = torch.full((20,), 1 / 20)
    value, gradient = sw.value_and_grad(x.bfloat16(), y.bfloat16(), x_weights=weights)
    assert value.dtype == torch.float32
    assert gradient.dtype == torch.bfloat16
    value, gradient = sw.value_and_grad(x, x.clone())
    assert value == 0
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("name", ["sw", "ebsw", "imsw", "phisw"])
@pytest.mark.parametrize("pieces", [1, 7])
def test_pieces_change_nothing(monkeypatch, name, pieces):
    """Memory for one slice, or for seven, at a time: the same values and all gradients."""
    x, y, slices = problem(40, 30, torch.float64, batch=(2,), n_slices=50)
    scores = torch.randn(40).double()

    def run():
        inputs = [t.clone().requires_grad_() for t in (x, y, slices, scores)]
        value = sw.evaluate(*inputs[:2], name, slices=inputs[2], x_weights=inputs[3].softmax(-1))
        gradients = torch.autograd.grad((value.value + value.costs.sum(-1)).sum(), inputs)
        drawn = sw.value_and_grad(x, y, name, generator=torch.Generator().manual_seed(0))
        return [value.value, *gradients, *drawn]

    whole = run()
    monkeypatch.setattr(sliced, "PIECE_BYTES", pieces * 2 * (40 + 30) * 8)
    for ours, truth in zip(run(), whole, strict=True):
        assert_close(ours, truth, rtol=1e-8)


@pytest.mark.parametrize("name", ["sw", "ebsw"])
def test_pieces_are_twice_differentiable(monkeypatch, name):
    monkeypatch.setattr(sliced, "PIECE_BYTES", 1)
    x, y, slices = problem(5, 4, torch.float64, n_slices=3)
    inputs = [t.requires_grad_() for t in (x, y, slices)]

    def value(x, y, slices):
        return sw.sliced_wasserstein(x, y, name, slices=slices)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)


@pytest.mark.parametrize("backward", [True, False])
def test_memory_does_not_grow_with_the_number_of_slices(monkeypatch, backward):
    """Live tensors after the forward pass: nothing of size L · n, with or without a graph."""
    n, n_slices = 20_000, 200
    monkeypatch.setattr(sliced, "PIECE_BYTES", 4 * 2 * n * 4)
    x, y = torch.randn(n, 3, requires_grad=backward), torch.randn(n, 3)
    kept = []

    def pack(tensor):
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        sw.sliced_wasserstein(x, y, n_slices=n_slices)
    assert sum(kept) < n * n_slices  # a quarter of one (L, n) float32 buffer
    assert bool(kept) == backward


@every_backend
@both_dtypes
def test_a_prepared_target(backend, dtype):
    x, y, slices = problem(40, 40, dtype, n_slices=20)
    x = x.expand(3, 40, 3).clone().requires_grad_()
    target = sw.Target(y, slices)
    value = sw.sliced_wasserstein(x, target, backend=backend)
    expected = sw.sliced_wasserstein(x, y, slices=slices, backend="torch")
    assert_close(value, expected)
    assert_close(torch.autograd.grad(value.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0])
    assert_close(sw.value_and_grad(x, target, backend=backend)[0], expected)
    assert_close(sw.SlicedWasserstein(objective="root")(x, target), expected.mean())


@pytest.mark.parametrize("n", [300, 2000])
def test_a_target_outlives_its_calls(n):
    """Kernels overwrite projections; those of a target are not theirs."""
    x, y, slices = problem(n, n, torch.float32)
    target = sw.Target(y, slices)
    before = target.sorted.clone()
    for _ in range(2):
        sw.value_and_grad(x, target)
        sw.sliced_wasserstein(x, target)
    assert target.sorted.equal(before)


def test_targets_with_weights_other_sizes_and_mistakes():
    x, y, slices = problem(30, 20, torch.float64)
    weights = torch.rand(20).double()
    weights = weights / weights.sum()
    target = sw.Target(y, slices, y_weights=weights)
    assert_close(
        sw.sliced_wasserstein(x, target),
        sw.sliced_wasserstein(x, y, slices=slices, y_weights=weights),
    )
    assert sw.Target(y, n_slices=9).slices.shape == (9, 3)
    assert "slices (5, 3)" in repr(target)
    with pytest.raises(ValueError, match="which has its own"):
        sw.sliced_wasserstein(x, target, slices=slices)
    with pytest.raises(ValueError, match="give them to the Target"):
        sw.sliced_wasserstein(x, target, y_weights=weights)


@both_dtypes
@pytest.mark.parametrize(("n", "m"), [(300, 300), (3000, 3000), (3000, 1000)])
def test_one_thread_or_two(monkeypatch, dtype, n, m):
    monkeypatch.setattr(cpu_kernels, "SERIAL_NS", 5000.0)
    x, y, slices = problem(n, m, dtype, n_slices=40)
    results = []
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(match_by_numba(x, y, slices, p=2.0)[:3])
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        assert_close(two, one)


def test_inputs_are_left_as_they_were():
    x, y, slices = problem(50, 50, torch.float32)
    before = [t.clone() for t in (x, y, slices)]
    for backend in BACKENDS.values():
        backend(x, y, slices, p=2.0)
    # With the identity for slices a projection could be mistaken for a fresh tensor.
    one = torch.ones(1, 1)
    line = x[:, :1].contiguous()
    kept = line.clone()
    match_by_numba(line, line.clone(), one, p=2.0)
    assert all(a.equal(b) for a, b in zip((x, y, slices), before, strict=True))
    assert line.equal(kept)


def test_without_numba(monkeypatch, request):
    monkeypatch.setattr(kernel_backend, "has_numba", lambda: False)
    kernel_backend.matcher.cache_clear()
    request.addfinalizer(kernel_backend.matcher.cache_clear)
    cpu_device = torch.device("cpu")
    assert kernel_backend.matcher("auto", cpu_device) is match_by_numpy
    with pytest.raises(ImportError, match=r"slicewise\[fast\]"):
        kernel_backend.matcher("numba", cpu_device)
    with pytest.raises(ValueError, match="samples are, on cuda"):
        kernel_backend.matcher("numpy", torch.device("cuda"))
    if not torch.cuda.is_available():
        assert kernel_backend.matcher("auto", torch.device("cuda")) is plain
    assert sw.sliced_wasserstein(torch.randn(9, 2), torch.randn(9, 2)).isfinite()


@pytest.mark.slow
def test_compiled_code_is_kept_between_processes(tmp_path):
    """A second process that runs the kernels compiles nothing. Their own cache: others write to the shared one."""
    code = (
        "import torch, slicewise as sw\n"
        "from slicewise.kernels import numba_loops as loops\n"
        "sw.value_and_grad(torch.randn(50, 2), torch.randn(50, 2))\n"
        "print([sum(f.stats.cache_misses.values()) for f in (loops.pack, loops.pair)])"
    )
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own
        )
        for _ in range(2)
    ]
    assert runs[0].stdout.strip() == "[1, 1]"
    assert runs[1].stdout.strip() == "[0, 0]"


@every_backend
@both_dtypes
@pytest.mark.parametrize("n", [500, 2000])
def test_absent_samples_may_be_nan_to_a_kernel(backend, dtype, n):
    """NaN of weight zero, and an outlier beside it, must not disturb the order of the others."""
    x, y, slices = problem(n, n, dtype)
    x[::7] = float("nan")
    x[5] = 1e12
    a = torch.ones(n, dtype=dtype)
    a[::7] = 0
    a[5] = 0
    real = a > 0
    a = a / a.sum()
    found = BACKENDS[backend](x, y, slices, a, None, p=2.0, wanted=Wanted(False, False))
    equal = torch.full((int(real.sum()),), 1 / int(real.sum()), dtype=dtype)
    clean = plain(x[real], y, slices, equal, None, p=2.0, wanted=Wanted(False, False))
    assert_close(found.cost, clean.cost)


def test_numba_that_cannot_be_imported_is_done_without(monkeypatch, request):
    def broken():
        raise ImportError("Numba needs another NumPy")

    monkeypatch.setattr(cpu_kernels, "numba_loops", broken)
    kernel_backend.matcher.cache_clear()
    request.addfinalizer(kernel_backend.matcher.cache_clear)
    with pytest.warns(UserWarning, match="sorting with NumPy instead"):
        assert kernel_backend.matcher("auto", torch.device("cpu")) is match_by_numpy


def test_a_target_made_under_autocast_keeps_its_digits():
    y = torch.randn(20, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        target = sw.Target(y, torch.eye(3))
    assert target.sorted.dtype == torch.float32
    assert target.sorted.equal(y.T.sort().values)


@pytest.mark.parametrize("name", ["sw", "phisw", "ebsw"])
def test_gradient_to_given_slices_is_complete(name):
    x, y, slices = problem(6, 5, torch.float64, n_slices=4)
    options = {"basis": torch.linalg.qr(torch.randn(3, 2).double()).Q} if name == "phisw" else {}

    def value(slices):
        return sw.sliced_wasserstein(x, y, name, slices=slices, objective="power", **options)

    assert torch.autograd.gradcheck(value, [slices.requires_grad_()])


@pytest.mark.parametrize("d", [2, 40])
def test_gradients_are_contiguous(d):
    x, y, _ = problem(30, 30, torch.float32, d=d)
    assert sw.value_and_grad(x, y)[1].is_contiguous()


@pytest.mark.parametrize("gap", [1e-22, 1e-30, 0.0])
@pytest.mark.parametrize("p", [2, 30])
def test_the_root_near_zero_is_that_of_autograd(gap, p):
    for batch in ((), (2,)):
        x = torch.zeros(*batch, 3, 1).requires_grad_()
        y = torch.full((3, 1), gap)
        slices = torch.ones(1, 1)
        expected = sw.sliced_wasserstein(x, y, p=p, slices=slices)
        (slope,) = torch.autograd.grad(expected.sum(), x)
        value, gradient = sw.value_and_grad(x, y, p=p, slices=slices)
        assert_close(value, expected)
        assert_close(gradient, slope)


def test_pieces_count_the_whole_batch():
    """x (60, 1, …) against y (60, …) is a batch of 3600, and so are its projections."""
    x, y, slices = torch.zeros(60, 1, 500, 2), torch.zeros(60, 500, 2), torch.zeros(50, 2)
    piece = sliced.slices_in_a_piece(x, y, slices, None, None, match_by_numba, sliced.Needs())
    assert piece * 3600 * 1000 * 4 <= sliced.PIECE_BYTES


def test_one_sample_against_a_million_keeps_its_gradient():
    u, v = torch.zeros(1, 1), torch.rand(1_000_000, 1)
    found = match_by_numba(u, v, torch.ones(1, 1), p=2.0, wanted=Wanted(True, False))
    assert_close(found.u_grad[0, 0], -2 * v.double().mean(), rtol=1e-6)


@pytest.mark.slow
def test_beyond_a_million_in_double_precision():
    n = 1_100_000
    x, y = torch.randn(n, 1).double(), torch.randn(n, 1).double()
    check("numba", x, y, torch.ones(1, 1).double())


@pytest.mark.slow
@every_backend
@both_dtypes
@pytest.mark.parametrize("n", [100_000])
@pytest.mark.parametrize("kind", ["ties", "an outlier", "sorted"])
def test_large_awkward_rows(backend, dtype, n, kind):
    x, y, _ = problem(n, n, dtype)
    check(backend, AWKWARD[kind](x), AWKWARD[kind](y), torch.eye(3, dtype=dtype))


@pytest.mark.slow
def test_a_million_points_stay_within_half_a_gigabyte():
    from benchmarks.speed.timing import extra_memory
    from benchmarks.speed.workloads import MEMORY_TARGET, WORKLOADS

    workload = next(w for w in WORKLOADS if w.name == "F1e6")
    for name in ("slicewise", "slicewise, autograd"):
        # At the least the gradient itself and one slice's projections, or nothing was measured.
        assert 2e7 < extra_memory(workload, name) <= MEMORY_TARGET
    assert extra_memory(workload, "torch sort") > MEMORY_TARGET
