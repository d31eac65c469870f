"""Regularizers against their definitions, over processes, and where embeddings have collapsed."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import slicewise as sw
from slicewise.distance import request
from slicewise.kernels import cpu
from slicewise.laws import Normal
from slicewise.nn import Regularizer, SIGReg, SlicedNormal, VISReg
from slicewise.nn.characteristic import Grid, epps_pulley
from slicewise.nn.regularizers import _in_parts
from slicewise.support import tensors
from slicewise.transport import Match, PointsMatcher, RoundPoints
from tests.ranks import run, shares
from tests.tolerances import assert_close

WIDE = {"dtype": torch.float64}
ALL = [SlicedNormal, SIGReg, VISReg]


def directions(n=6, d=4):
    torch.manual_seed(3)
    return torch.nn.functional.normalize(torch.randn(n, d, **WIDE), dim=-1)


@pytest.mark.parametrize("unbiased", [False, True])
def test_sigreg_is_its_definition(unbiased):
    x, along = torch.randn(2, 15, 4, **WIDE).requires_grad_(), directions()
    loss = SIGReg(6, unbiased=unbiased, t_max=4.0, n_points=11)
    value = loss(x, slices=along)
    u = (x @ along.mT).mT
    wanted = epps_pulley(u, Grid(4.0, 11), unbiased=unbiased).mean()
    assert_close(value, wanted)
    (found,) = torch.autograd.grad(value, x)
    assert_close(found, torch.autograd.grad(wanted, x)[0])
    assert torch.autograd.gradcheck(lambda t: loss(t, slices=along), (x,))


def test_forward_derivatives_are_the_gradient_along_a_tangent():
    x, along, tangent = torch.randn(15, 4, **WIDE), directions(), torch.randn(15, 4, **WIDE)
    live = x.clone().requires_grad_()
    loss = SIGReg(6)
    (gradient,) = torch.autograd.grad(loss(live, slices=along), live)
    with torch.no_grad(), forward_ad.dual_level():
        dual = loss(forward_ad.make_dual(x, tangent), slices=along)
        found = forward_ad.unpack_dual(dual).tangent
    assert_close(found, (gradient * tangent).sum())


def test_published_sigreg_is_n_times_the_statistic():
    """Σ over both halves of the line, by trapezoids, of |φ_n − φ|² φ, times n: as LeJEPA states it."""
    x, along = torch.randn(40, 4, **WIDE), directions()
    t = torch.linspace(-3, 3, 33, **WIDE)
    u = x @ along.mT
    phi_n = torch.exp(1j * u.unsqueeze(-1) * t).mean(dim=0)
    phi = torch.exp(-t.square() / 2)
    wanted = 40 * torch.trapezoid((phi_n - phi).abs().square() * phi, t, dim=-1).mean()
    assert_close(SIGReg(defaults="published")(x, slices=along), wanted)


def test_unbiased_means_do_not_depend_on_n():
    """The mean over batches of 4 is that over batches of 64, within five standard errors; biased it is not."""
    torch.manual_seed(0)
    x, along = 1.5 * torch.randn(64 * 60, 4, **WIDE), directions(20)

    def values(n, unbiased):
        loss = SIGReg(unbiased=unbiased)
        return torch.stack([loss(part, slices=along) for part in x.split(n)])

    small, large = values(4, True), values(64, True)
    error = (small.var() / len(small) + large.var() / len(large)).sqrt()
    assert (small.mean() - large.mean()).abs() < 5 * error
    assert values(4, False).mean() - values(64, False).mean() > 10 * error


def test_sliced_normal_is_the_distance():
    x, along = torch.randn(30, 4, **WIDE), directions()
    wanted = sw.sliced_wasserstein(x, Normal(), slices=along, objective="power")
    assert_close(SlicedNormal()(x, slices=along), wanted)


@pytest.mark.parametrize("defaults", ["slicewise", "published"])
def test_visreg_is_its_definition(defaults):
    x, along = torch.randn(2, 15, 4, **WIDE).requires_grad_(), directions()
    value = VISReg(defaults=defaults, eps=1e-4)(x, slices=along)
    mean, std = x.mean(dim=-2, keepdim=True), x.std(dim=-2, unbiased=False, keepdim=True)
    standard = (x - mean) / (std.detach() + 1e-4)
    if defaults == "published":
        points = torch.special.ndtri(torch.arange(1, 16, **WIDE) / 16)
        shape = ((standard @ along.mT).mT.sort(dim=-1).values - points).square().mean()
    else:
        shape = sw.sliced_wasserstein(standard, Normal(), slices=along, objective="power").mean()
    wanted = mean.square().mean() + (std - 1).square().mean() + shape
    assert_close(value, wanted)
    assert_close(torch.autograd.grad(value, x)[0], torch.autograd.grad(wanted, x)[0])


@pytest.mark.parametrize("kind", ALL)
def test_collapsed_embeddings_are_pulled_apart(kind):
    """A few steps of gradient descent from nearly one point, and from one line, widen them."""
    for x in (1e-3 * torch.randn(128, 6), torch.randn(128, 1) @ torch.randn(1, 6)):
        x = x + 1e-4 * torch.randn(128, 6)
        loss = kind(256, generator=0)
        before = torch.linalg.svdvals(x - x.mean(0))[-1]
        for _ in range(5):
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(loss(x), x)
            assert gradient.isfinite().all()
            x = x - 128 * gradient
        assert torch.linalg.svdvals(x - x.mean(0))[-1] > 1.05 * before


@pytest.mark.parametrize("kind", ALL)
def test_one_point_and_outliers_have_finite_gradients(kind):
    outlier = torch.randn(32, 5)
    outlier[0] = 1e6
    for x in (torch.zeros(32, 5), outlier):
        x = x.requires_grad_()
        kind(16, generator=0)(x).backward()
        assert x.grad.isfinite().all()


@pytest.mark.parametrize("kind", ALL)
def test_autocast_and_compiled_code_have_the_same_value(kind):
    x = torch.randn(64, 5)
    along = directions(8, 5).float()
    loss = kind(8)
    wanted = loss(x.bfloat16().float(), slices=along)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(x.bfloat16(), slices=along)
    assert_close(found, wanted)
    live = x.clone().requires_grad_()
    compiled = torch.compile(lambda t: loss(t * 1.0, slices=along), backend="eager")
    value = compiled(live)
    value.backward()
    assert_close(value, loss(x, slices=along))


def test_mistakes_are_named():
    for make, message in (
        (lambda: SIGReg(n_points=1), "n_points"),
        (lambda: SIGReg(t_max=0.0), "t_max"),
        (lambda: SIGReg(defaults="paper"), "defaults"),
        (lambda: VISReg(eps=0.0), "eps"),
        (lambda: SIGReg()(torch.randn(1, 3)), "at least two"),
        (lambda: SlicedNormal(0), "n_slices"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def together(rank, size):
    x = torch.randn(2, 19, 4, **WIDE, generator=torch.Generator().manual_seed(1))
    along = directions()
    for make in (SlicedNormal, SIGReg, VISReg):
        whole = x.clone().requires_grad_()
        wanted = make(6)(whole, slices=along)
        wanted.backward()
        mine = shares(x, size)[rank].clone().requires_grad_()
        found = make(6, group=dist.group.WORLD)(mine, slices=along)
        found.backward()
        assert_close(found, wanted)
        own = shares(whole.grad, size)[rank]
        if own.numel():
            assert (mine.grad - own).abs().max() <= 1e-10 * whole.grad.abs().max(), make
        # Drawn slices are those of the first process; and a step of DDP is that of one process.
        drawn = make(6, group=dist.group.WORLD, generator=rank)(mine.detach())
        assert_close(drawn, make(6, generator=0)(x))
        step(rank, size, make, x[0], along)


def step(rank, size, make, x, along):
    torch.manual_seed(0)
    network = torch.nn.Linear(4, 4, **WIDE)
    make(6)(network(x), slices=along).backward()
    wanted = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    wrapped = torch.nn.parallel.DistributedDataParallel(network)
    loss = make(6, group=dist.group.WORLD, averaged=True)
    loss(wrapped(shares(x, size)[rank]), slices=along).backward()
    for parameter, gradient in zip(network.parameters(), wanted, strict=True):
        assert_close(parameter.grad, gradient)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_any_number_of_processes_is_one(size):
    run(size, together)


@pytest.mark.parametrize("shape", [(40, 5), (3, 40, 5), (40, 30), (2, 40, 1)])
@pytest.mark.parametrize("kind", ALL)
def test_value_and_gradient_together_are_those_of_autograd(kind, shape):
    x = 1.7 * torch.randn(shape, dtype=torch.float64) + 0.6
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    value = kind(7)(one)
    (2 * value).backward()
    # The definition, along the slices that were drawn, by autograd.
    wanted = kind(7)._along(other, value.grad_fn.slices)
    (2 * wanted).backward()
    torch.testing.assert_close(value, wanted, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(one.grad, other.grad, rtol=1e-10, atol=1e-14)


class _Prices(PointsMatcher):
    """Stands in for kernels of a device: results of the right shapes, with nothing in them."""

    def __call__(self, x, y, slices, *_, p, wanted, y_sorted):
        assert isinstance(y_sorted, RoundPoints)
        lines = (*x.shape[:-2], slices.shape[-2])
        return Match(x.new_empty(lines), x.new_empty(*lines, x.shape[-2]), None, None, None)


class _NothingFromTheHost(TorchDispatchMode):
    """While this is on, nothing may be copied from the CPU: during a capture on a device that is an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [t for t in (*args, *(kwargs or {}).values()) if isinstance(t, torch.Tensor)]
        assert all(t.device.type == "meta" for t in given), f"{func} of what is on the host"
        assert func is not torch.ops.aten._local_scalar_dense.default
        # A number assigned by index is a tensor on the host first, though here it seems to be on the device.
        assert func is not torch.ops.aten.copy_.default or given[1].dim() > 0, "a number was copied"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shape", [(40, 5), (3, 40, 30)])
def test_steps_can_be_captured(kind, shape, monkeypatch):
    """On a device without memory: a second call asks the host for nothing."""
    monkeypatch.setattr(request, "_registered_matcher", lambda *_: _Prices())
    monkeypatch.setattr(tensors, "_check_has_values", lambda *_: None)
    x = torch.empty(shape, device="meta")
    along = torch.empty(7, shape[-1], device="meta")
    pricing = kind(7)._pricing(x)
    assert pricing.key is not None
    pricing(x, along)  # what is made once
    with _NothingFromTheHost():
        value, gradient = pricing(x, along)
    assert value.shape == shape[:-2]
    assert gradient.shape == shape


@pytest.mark.parametrize("kind", ALL)
def test_a_second_pass_has_the_gradient_of_the_first(kind):
    """The first one is handed what was computed; autograd states it anew for the second."""
    x = (1.7 * torch.randn(40, 5, dtype=torch.float64) + 0.6).requires_grad_()
    value = kind(7)(x)
    first = torch.autograd.grad(value, x, torch.tensor(3.0, dtype=x.dtype), retain_graph=True)[0]
    kept = first.clone()
    again = torch.autograd.grad(value, x, retain_graph=True)[0]
    torch.testing.assert_close(3 * again, first, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(first, kept, rtol=0, atol=0)
    value.backward()
    torch.testing.assert_close(x.grad, again, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", ALL)
def test_threads_change_nothing(kind, monkeypatch):
    """Slices are drawn while embeddings are made ready, and lines are shared out, where torch may use two threads."""
    crew, shared = cpu._Crew(), []
    worked_off = crew.work_off

    def watched(work, pieces, n_threads):
        shared.append(pieces)
        worked_off(work, pieces, n_threads)

    monkeypatch.setattr(cpu, "_crew", crew)
    monkeypatch.setattr(crew, "_judge", lambda *_: None)  # does not rest
    monkeypatch.setattr(crew, "work_off", watched)
    monkeypatch.setattr(cpu, "SERIAL_NS", 1e3)  # as if there were more embeddings
    x = 1.7 * torch.randn(600, 300) + 0.6
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            live = x.clone().requires_grad_()
            value = kind(1000, generator=5)(live)
            value.backward()
            found.append((value.detach(), live.grad))
    finally:
        torch.set_num_threads(before)
    if kind is VISReg:  # which finishes gradients in parts
        assert len(list(_in_parts(x))) in shared
    assert shared
    for value, gradient in found[1:]:
        # Products are cut where two threads may share them, which changes their last digits.
        torch.testing.assert_close(value, found[0][0], rtol=1e-5, atol=0)
        assert (gradient - found[0][1]).norm() <= 1e-3 * found[0][1].norm()
    for one, other in zip(found[1], found[2], strict=True):
        assert torch.equal(one, other)


def test_a_regularizer_of_ones_own_needs_a_value_only():
    class Spread(Regularizer):
        def _value(self, x, slices):
            return (x @ slices.mT).square().mean(dim=(-2, -1))

    x = torch.randn(9, 3, requires_grad=True)
    Spread(4)(x).backward()
    assert x.grad.abs().max() > 0


def test_second_derivatives_are_those_of_given_slices():
    x = torch.randn(12, 3, dtype=torch.float64, requires_grad=True)
    for make in (SlicedNormal, VISReg):
        value = make(5)(x)
        along = value.grad_fn.slices
        found = torch.autograd.grad(value, x, create_graph=True)[0].square().sum()
        wanted = torch.autograd.grad(make(5)(x, slices=along), x, create_graph=True)[0]
        pair = [torch.autograd.grad(g, x)[0] for g in (found, wanted.square().sum())]
        torch.testing.assert_close(*pair)


def test_what_sigreg_cannot_do_is_refused():
    x = torch.randn(8, 3, requires_grad=True)
    loss = sw.nn.SIGReg(4, generator=0)
    with pytest.raises(ValueError, match="NaN"):
        loss(x * float("nan"))
    with pytest.raises(ValueError, match=r"slices has shape \(2, 5\)"):
        loss(x, slices=torch.ones(2, 5))
    with pytest.raises(ValueError, match="slices ask for a gradient"):
        loss(x, slices=torch.eye(3, requires_grad=True))
    with pytest.raises(ValueError, match="law is a Tensor"):
        sw.nn.SlicedNormal(4, law=x)
    # Its second derivative is not known: an error, not a term that is silently left out.
    (gradient,) = torch.autograd.grad(loss(x) + x.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        gradient.sum().backward()
