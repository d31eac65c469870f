"""What every variant must obey, asked of every entry of VARIANTS. Laws a variant breaks it declares."""

from __future__ import annotations

import math

import pytest
import torch

import slicewise as sw
from slicewise.variants import PROPERTIES
from tests.tolerances import assert_close

BATCHES = [(), (3,), (2, 3)]
DTYPES = [torch.float32, torch.float64]
DIMENSIONS = [4, 50]

every_variant = pytest.mark.parametrize("name", sw.VARIANTS)
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
both_dimensions = pytest.mark.parametrize("d", DIMENSIONS)


def samples(*shape, dtype=torch.float64, shift=0.0, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) + shift


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def seeds_for(batch):
    return [seeded(100 + i) for i in range(math.prod(batch))] if batch else seeded(100)


# An ascent starting near a direction of low cost carries rounding away from it: five-fold a step was
# measured, 1e-16 to 1e-10 in ten steps. Where digits are counted, climbing variants take three steps.
CLIMBS = {name for name in sw.VARIANTS if "Ascend" in repr(sw.VARIANTS[name]())}
CHAINS = {"imsw", "vimsw"}
# Variants that see directions from the origin only.
DIRECTIONAL = {"ssw", "linearssw", "s3w", "ris3w"}


def short_climb(name):
    short = {"n_steps": 3} if name in CLIMBS else {}
    return {**short, "n_slices": 15} if name in CHAINS else short


def declares(name, law):
    assert law in PROPERTIES
    return law in sw.VARIANTS[name].properties


def some_slices(name, n, d, seed=3):
    """Directions of the space that a variant slices, which is not always the samples' own."""
    x = samples(2, d)
    dimension = sw.evaluate(x, x, name, generator=seeded()).slices.shape[-1]
    return torch.nn.functional.normalize(samples(n, dimension, seed=seed), dim=-1)


def n_slices_of(name, wanted):
    """As many as wanted, where a variant can have them."""
    if "n_slices" not in sw.VARIANTS[name].options:
        return {}
    few = {"maxsw": 1, "maxgsw": 1, "maxksw": min(wanted, 3), "ksw": min(wanted, 3)}
    long_chains = name in ("imhebsw", "rmhebsw")
    return {"n_slices": few.get(name, wanted)} | ({"n_steps": 10} if long_chains else {})


def orders(name):
    return [1, 2, 3] if declares(name, "every_order") else [2]


def value(x, y, name, seed=0, **options):
    return sw.sliced_wasserstein(x, y, name, generator=seeded(seed), **options)


@every_variant
@both_dtypes
@both_dimensions
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_a_batch_is_a_loop(name, batch, d, dtype):
    """Values, slices, weights and gradients: an element sees its own generator and nothing else."""
    x = samples(*batch, 13, d, dtype=dtype).requires_grad_()
    y = samples(*batch, 9, d, dtype=dtype, shift=0.5, seed=2)
    options = short_climb(name) if dtype == torch.float32 else {}
    together = sw.evaluate(x, y, name, generator=seeds_for(batch), **options)
    assert together.value.shape == together.stderr.shape == batch
    assert together.value.dtype == together.costs.dtype == together.slices.dtype == dtype
    (gradient,) = torch.autograd.grad(together.value.sum(), x)
    n_slices = together.costs.shape[-1]
    assert together.weights.shape == (*batch, n_slices)
    assert together.slices.shape[:-1] == (*batch, n_slices)
    if declares(name, "linear"):
        assert together.slices.shape[-1] == d
    for i, index in enumerate(torch.cartesian_prod(*map(torch.arange, batch)) if batch else [()]):
        at = tuple(torch.as_tensor(index).flatten().tolist()) if batch else ()
        one = x[at].detach().requires_grad_()
        alone = sw.evaluate(one, y[at], name, generator=seeded(100 + i), **options)
        assert_close(together.slices[at], alone.slices)
        assert_close(together.costs[at], alone.costs)
        assert_close(together.value[at], alone.value)
        assert_close(gradient[at], torch.autograd.grad(alone.value, one)[0])


@every_variant
@both_dimensions
@pytest.mark.parametrize("objective", ["power", "root"])
def test_zero_on_itself_with_a_finite_gradient(name, d, objective):
    x = samples(3, 12, d).requires_grad_()
    found = sw.sliced_wasserstein(x, x.detach().clone(), name, objective=objective)
    assert found.abs().max() == 0
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert gradient.isfinite().all()
    assert gradient.abs().max() == 0


@every_variant
@both_dtypes
@both_dimensions
def test_unit_slices_and_n_slices_of_them(name, d, dtype):
    options = n_slices_of(name, 20)
    x, y = samples(7, d, dtype=dtype), samples(5, d, dtype=dtype, seed=2)
    found = sw.evaluate(x, y, name, **options)
    assert found.slices.shape[-2] == options.get("n_slices", 1)
    off = (torch.linalg.vector_norm(found.slices, dim=-1) - 1).abs().max()
    # The sum of the squares of D numbers is rounded at most √D-fold, as a rule.
    unit = off < 16 * torch.finfo(dtype).eps * max(1, found.slices.shape[-1] / 50) ** 0.5
    assert unit == declares(name, "unit_slices")


@every_variant
@both_dimensions
@pytest.mark.parametrize("m", [12, 9])
def test_symmetry(name, d, m):
    x, y = samples(12, d), samples(m, d, shift=0.5, seed=2)
    slices = some_slices(name, 30, d)
    assert_close(value(x, y, name, slices=slices), value(y, x, name, slices=slices))
    if declares(name, "symmetric"):
        assert_close(value(x, y, name), value(y, x, name), rtol=1e-8)


@every_variant
@both_dimensions
def test_the_order_of_samples_does_not_matter(name, d):
    x, y = samples(12, d), samples(9, d, shift=0.5, seed=2)
    slices = some_slices(name, 30, d)
    mixed_x, mixed_y = x[torch.randperm(12)], y[torch.randperm(9)]
    assert_close(value(x, y, name, slices=slices), value(mixed_x, mixed_y, name, slices=slices))
    if declares(name, "permutation_invariant"):
        assert_close(value(x, y, name), value(mixed_x, mixed_y, name), rtol=1e-8)


@every_variant
@both_dimensions
def test_moving_both_sets_changes_nothing_where_declared(name, d):
    x, y, shift = samples(12, d), samples(9, d, shift=0.5, seed=2), 10 * samples(1, d, seed=4)
    here, there = value(x, y, name), value(x + shift, y + shift, name)
    if declares(name, "translation_invariant"):
        assert_close(here, there, rtol=1e-8)
    else:
        assert not torch.isclose(here, there, rtol=1e-6)


@every_variant
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_homogeneity_where_declared(name, factor):
    x, y = samples(12, 4), samples(9, 4, shift=0.5, seed=2)
    scaled = value(factor * x, factor * y, name)
    expected = factor * value(x, y, name)
    if declares(name, "homogeneous"):
        assert_close(scaled, expected, rtol=1e-8)
    else:
        assert not torch.isclose(scaled, expected, rtol=1e-6)


@every_variant
@both_dimensions
def test_at_most_the_exact_distance_where_declared(name, d):
    if not declares(name, "bounded"):
        pytest.skip("declared not to be: a counterexample is below")
    x, y = samples(2, 12, d), samples(2, 9, d, shift=0.5, seed=2)
    for p in orders(name):
        exact = sw.wasserstein(x, y, p=p)
        assert (sw.sliced_wasserstein(x, y, name, p=p) <= exact * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", [n for n in sw.VARIANTS if not declares(n, "bounded")])
def test_some_draw_exceeds_the_exact_distance_where_that_is_declared(name):
    """One sample each, far from the origin or nearly in one dimension, and few slices."""
    x = torch.tensor([[3.0, 0.01]]).double().expand(200, 1, 2)
    y = torch.tensor([[4.0, 0.0]]).double()
    if name in DIRECTIONAL:  # near each other, and on opposite sides of the origin
        x, y = x / 1e4, -y / 1e4
    options = n_slices_of(name, 5)
    if name == "asw":
        options |= {"n_steps": 50, "inner_lr": 0.1, "penalty": 0.0}  # nothing keeps it small
    found = sw.sliced_wasserstein(x, y, name, generator=seeded(), **options)
    assert (found > 1.001 * sw.wasserstein(x[0], y)).any()


@every_variant
def test_a_law_of_order_two_says_so(name):
    x, y = samples(12, 4), samples(9, 4, shift=0.5, seed=2)
    if declares(name, "every_order"):
        assert value(x, y, name, p=3) > value(x, y, name, p=1.5) > 0
    else:
        with pytest.raises(ValueError, match=r"p = 3"):
            value(x, y, name, p=3)


@pytest.mark.slow
@every_variant
@pytest.mark.parametrize("p", [1, 2, 3])
def test_triangle_inequality_where_declared(name, p):
    """With common slices for methods whose slices ignore the data; at a well-climbed maximum for the rest."""
    if not declares(name, "metric"):
        pytest.skip("declared not to be a metric")
    if name in ("dsw", "vdsw"):
        pytest.skip("a metric only at a supremum that no finite ascent reaches")
    options = {
        "maxsw": {"restarts": 30, "n_steps": 100},
        "maxgsw": {"restarts": 30, "n_steps": 100},
        "maxksw": {"n_steps": 300},
        # Estimates of a metric, whose weights differ from pair to pair: within their error of it.
        "lcvsw": {"n_slices": 2000},
        "ucvsw": {"n_slices": 2000},
    }.get(name, {})
    for seed in range(5):
        x, y, z = (samples(8, 3, shift=k, seed=10 * seed + k) for k in range(3))
        through = value(x, y, name, p=p, **options) + value(y, z, name, p=p, **options)
        assert value(x, z, name, p=p, **options) <= through * (1 + 1e-9)


def test_phisw_with_an_estimated_basis_is_no_metric():
    x, y = torch.zeros(4, 12).double(), torch.eye(12).double()[:1].expand(4, 12)
    z = 0.5 * y + 1e-4 * samples(4, 12)
    assert value(x, y, "phisw") > value(x, z, "phisw") + value(z, y, "phisw")
    assert not declares("phisw", "metric")


@every_variant
@both_dtypes
def test_a_seed_holds(name, dtype):
    x, y = samples(12, 4, dtype=dtype), samples(9, 4, dtype=dtype, seed=2)
    assert value(x, y, name, seed=5).equal(value(x, y, name, seed=5))
    torch.manual_seed(7)
    first = sw.sliced_wasserstein(x, y, name)
    second = sw.sliced_wasserstein(x, y, name)
    torch.manual_seed(7)
    assert sw.sliced_wasserstein(x, y, name).equal(first)
    assert second.equal(first) == (not declares(name, "fresh")), "fresh slices every call"


@every_variant
def test_single_and_double_precision_see_the_same_slices(name):
    x, y = samples(12, 4), samples(9, 4, seed=2)
    options = short_climb(name)
    double = sw.evaluate(x, y, name, generator=seeded(), **options)
    single = sw.evaluate(x.float(), y.float(), name, generator=seeded(), **options)
    assert_close(single.slices, double.slices)
    assert_close(single.value, double.value)


@every_variant
def test_leading_dimensions_broadcast(name):
    x, y = samples(2, 1, 12, 4), samples(3, 9, 4, shift=0.5, seed=2)
    full = value(x.expand(2, 3, 12, 4), y.expand(2, 3, 9, 4), name)
    assert_close(value(x, y, name), full)


@every_variant
@pytest.mark.parametrize("whole_climb", [False, True])
def test_zero_weight_means_absent(name, whole_climb):
    """Padding changes no value beyond 1e-12, wherever it lies."""
    options, rtol = ({}, 1e-9) if whole_climb and name in CLIMBS else (short_climb(name), 1e-12)
    x, y = samples(12, 4), samples(9, 4, shift=0.5, seed=2)
    real = [torch.full((n,), 1 / n, dtype=torch.float64) for n in (12, 9)]
    results = []
    for junk in (0, 3):
        padding = 1e6 * torch.ones(junk, 4, dtype=torch.float64)
        inputs = [t.clone().requires_grad_() for t in (x, y)]
        padded = [torch.cat([t[:5], padding, t[5:]]) for t in inputs]
        weights = [torch.cat([w[:5], torch.zeros(junk).double(), w[5:]]) for w in real]
        found = value(*padded, name, x_weights=weights[0], y_weights=weights[1], **options)
        results.append((found, *torch.autograd.grad(found, inputs)))
    plain = [t.clone().requires_grad_() for t in (x, y)]
    found = value(*plain, name, **options)
    results.append((found, *torch.autograd.grad(found, plain)))
    for got in results[:2]:
        for ours, wanted in zip(got, results[2], strict=True):
            assert_close(ours, wanted, rtol=rtol if ours.dim() == 0 else 1e-9)


@every_variant
def test_absent_samples_may_lie_at_nan(name):
    options = {"check": False} if name == "momentsw" else {}
    x, y = samples(2, 12, 4), samples(9, 4, shift=0.5, seed=2)
    present = torch.full((2, 12), 1 / 10, dtype=torch.float64)
    present[0, :2], present[1, 5:7] = 0, 0
    lost = torch.where(present.unsqueeze(-1) > 0, x, torch.nan)
    inputs = [t.clone().requires_grad_() for t in (x, lost)]
    found = [value(t, y, name, x_weights=present, **options) for t in inputs]
    assert torch.equal(*found)
    assert torch.equal(*torch.autograd.grad(sum(found).sum(), inputs))


def test_a_sample_that_is_absent_from_one_set_of_weights_alone_must_be_finite():
    x, y = samples(6, 4), samples(9, 4, shift=0.5, seed=2)
    weights = torch.full((2, 6), 1 / 5, dtype=torch.float64)
    weights[:, 2] = 0
    x[2] = torch.nan
    assert value(x, y, "maxsw", x_weights=weights).isfinite().all()
    assert sw.effective_subspace(x, y, x_weights=weights).k == 4
    weights = torch.tensor([[0.2] * 5 + [0.0], [0.0] + [0.2] * 5], dtype=torch.float64)
    x[2], x[0] = 0, torch.nan
    with pytest.raises(ValueError, match="4 NaN"):
        value(x, y, "maxsw", x_weights=weights)


@every_variant
def test_reference_convention_ignores_padding_too(name):
    x, y = samples(12, 4), samples(12, 4, shift=0.5, seed=2)
    plain = value(x, y, name, convention="reference")
    padded, weights = sw.pad([x, torch.zeros(20, 4, dtype=torch.float64)])
    assert_close(
        value(padded[0], y, name, convention="reference", x_weights=weights[0]), plain, rtol=1e-9
    )


@every_variant
def test_ragged_batches(name):
    sets = [samples(n, 4, seed=n) for n in (5, 12, 9)]
    target = samples(7, 4, shift=0.5)
    x, weights = sw.pad(sets)
    together = sw.sliced_wasserstein(x, target, name, x_weights=weights, generator=seeds_for((3,)))
    for i, one in enumerate(sets):
        alone = sw.sliced_wasserstein(one, target, name, generator=seeded(100 + i))
        assert_close(together[i], alone)


@every_variant
def test_one_sample_against_one(name):
    x, y = torch.zeros(1, 4, dtype=torch.float64), torch.ones(1, 4, dtype=torch.float64)
    found = value(x, y, name)
    assert 0 <= found < torch.inf
    if declares(name, "bounded"):
        assert found <= 2 + 1e-12


@pytest.mark.parametrize("name", [n for n in sw.VARIANTS if not sw.VARIANTS[n]().unfit_for(1)])
def test_a_line(name):
    """In one dimension every slice is the whole truth, where declared."""
    x, y = samples(12, 1), samples(9, 1, seed=2)
    n_slices = {"n_slices": 1} if name in ("ksw", "maxksw") else {}
    found, exact = value(x, y, name, **n_slices), sw.wasserstein(x, y)
    if declares(name, "exact_on_a_line"):
        assert_close(found, exact, rtol=1e-9)
    else:
        assert not torch.isclose(found, exact, rtol=1e-3)


@pytest.mark.slow
@every_variant
def test_standard_error_is_honest_where_it_is_given(name):
    """Over 400 calls the spread of the power is what single calls claim, within 25 %."""
    x, y = samples(1, 12, 4).expand(400, 12, 4), samples(9, 4, shift=1.0, seed=2)
    found = sw.evaluate(x, y, name, **n_slices_of(name, 200))
    alone = ("maxsw", "maxgsw", "maxksw", "ksw", "dsw", "vdsw", "asw")
    alone += ("qsw", "rqsw", "momentsw", "sirebsw")
    if name in alone:
        assert found.stderr.isnan().all()
        return
    claimed = found.stderr.square().mean().sqrt()
    spread = found.power.std()
    # The standard deviation of 400 draws is itself uncertain by 3.5 %.
    assert 0.75 < claimed / spread < 1.25


@every_variant
def test_rotation_invariance_in_law(name):
    """Turning both sets alike changes the mean value by no more than four standard errors; fixed slices see it."""
    n = 200
    stretch = torch.tensor([4.0, 1.0, 0.25, 1.0]).double() ** (3 if name in DIRECTIONAL else 1)
    x, y = samples(10, 4) * stretch, samples(10, 4, seed=2) * stretch.flip(0) + 0.5
    turn = torch.linalg.qr(samples(4, 4, seed=7)).Q
    seeds = [seeded(i) for i in range(n)]
    here, there = (value_of_many(a, b, name, seeds) for a, b in ((x, y), (x @ turn, y @ turn)))
    gap = (here.mean() - there.mean()).abs()
    error = ((here.var() + there.var()) / n).sqrt()
    invariant = gap <= 4 * error + 1e-9 * here.mean()
    assert invariant == declares(name, "rotation_invariant"), (gap, error)
    assert sw.VARIANTS[name]().rotation_invariant == declares(name, "rotation_invariant")


def value_of_many(x, y, name, seeds):
    many = x.expand(len(seeds), *x.shape)
    return sw.sliced_wasserstein(many, y, name, generator=seeds, **n_slices_of(name, 10))
