"""From arguments to runs: exact reduction, padding, seeds, rates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import slicewise as sw
from benchmarks.steps.flows import ELEVEN
from slicewise.lab.data.image_sets import digit
from slicewise.parts import Uniform
from tests.flows.samples import FIXED, clouds, toys
from tests.tolerances import assert_close

LONG = ("maxsw", "maxksw", "vimsw")  # their flows take seconds, a dozen times
HOMOGENEOUS = [v for v in ELEVEN if "homogeneous" in sw.VARIANTS[v].properties]


@pytest.mark.slow
def test_images_of_digits_in_their_own_dimensions():
    """Zeros to ones: the same end in 19 dimensions as in 784, in far less work."""
    x, y = (torch.from_numpy(digit(value).pixels[:10].reshape(10, -1) / 255.0) for value in (0, 1))
    goal = 1e-3 * float(sw.wasserstein(x, y))
    reduced = sw.flow(x, y, seeds=1, stopping=sw.Stopping(w2=goal, assign=False))
    ambient = sw.flow(
        x,
        y,
        seeds=1,
        stopping=sw.Stopping(w2=goal, assign=False),
        reduce=False,
        n_slices=200,
        max_steps=3000,
    )
    assert reduced.converged
    assert ambient.converged
    assert reduced.dimensions == 19
    assert 5 * reduced.n_steps < ambient.n_steps


def test_ranks_do_not_mix():
    """Runs of different rank in one batch are worked in their own dimensions."""
    flat = clouds(20, 2)
    x = torch.stack([torch.nn.functional.pad(flat[0], (0, 3)), clouds(20, 5, seed=1)[0]])
    y = torch.stack([torch.nn.functional.pad(flat[1], (0, 3)), clouds(20, 5, seed=1)[1]])
    together = sw.flow(x, y, seeds=[1, 2], max_steps=30, stopping=FIXED)
    assert together.dimensions.tolist() == [2, 5]
    for i in range(2):
        alone = sw.flow(x[i], y[i], seeds=i + 1, max_steps=30, stopping=FIXED)
        assert_close(together.particles[i], alone.particles)


def test_reduction_is_exact_and_reported():
    x, y = toys("swiss", 60, 40, [1])
    reduced, ambient = (
        sw.flow(x, y, seeds=[1], stopping=sw.Stopping(w2=1e-3, assign=False), reduce=r)
        for r in (True, False)
    )
    assert reduced.dimensions.item() == 2
    assert ambient.dimensions.item() == 40
    assert reduced.n_steps < ambient.n_steps
    # Particles stay in the plane of the data, to rounding.
    plane = sw.effective_subspace(x[0], y[0])
    inside = plane.embed(plane.reduce(reduced.particles[0]))
    assert_close(reduced.particles[0], inside)
    assert sw.flow(x, y, lr=1.0, max_steps=1, reduce=True).dimensions.item() == 2


@given(
    log_scale=st.floats(-3, 3),
    offset=st.floats(-100, 100),
    n=st.integers(20, 60),
    d=st.integers(1, 6),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_units_offsets_and_rotations_do_not_matter(log_scale, offset, n, d, seed):
    x, y = clouds(n, d, seed=seed)
    g = torch.Generator().manual_seed(seed)
    turn = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64)).Q
    scale = 10**log_scale
    start = float(sw.wasserstein(x, y))
    plain = sw.flow(x, y, seeds=seed, stopping=sw.Stopping(w2=1e-3 * start, assign=False))
    assert plain.converged
    moved = sw.flow(
        scale * (x @ turn) + offset,
        scale * (y @ turn) + offset,
        seeds=seed,
        stopping=sw.Stopping(w2=1e-3 * start * scale, assign=False),
    )
    assert moved.converged
    assert float(moved.w2) <= 1e-3 * start * scale
    same_axes = sw.flow(
        scale * x + offset,
        scale * y + offset,
        seeds=seed,
        stopping=sw.Stopping(w2=1e-3 * start * scale, assign=False),
    )
    assert same_axes.n_steps == plain.n_steps


@pytest.mark.parametrize(
    "variant",
    [pytest.param(v, marks=pytest.mark.slow) if v in LONG else v for v in HOMOGENEOUS],
)
@given(
    log_scale=st.floats(-3, 3),
    offset=st.floats(-100, 100),
    n=st.integers(15, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=3, deadline=None, derandomize=True)
def test_units_do_not_matter_to_homogeneous_variants(variant, log_scale, offset, n, seed):
    """Same relative W_2, and as many steps; ascents amplify rounding, so theirs are counted at powers of two."""
    x, y = clouds(n, 3, seed=seed)
    goal = 1e-2 * float(sw.wasserstein(x, y))
    scale, ascends = 10**log_scale, "ascent_step" in sw.VARIANTS[variant].options
    plain = sw.flow(x, y, variant, seeds=seed, stopping=sw.Stopping(w2=goal, assign=False))
    moved = sw.flow(
        scale * x + offset,
        scale * y + offset,
        variant,
        seeds=seed,
        stopping=sw.Stopping(w2=goal * scale, assign=False),
    )
    assert plain.converged
    assert moved.converged
    assert moved.w2 <= goal * scale
    if not ascends:
        assert moved.n_steps == plain.n_steps
    else:
        power = 2.0 ** round(3 * log_scale)
        same = sw.flow(
            power * x,
            power * y,
            variant,
            seeds=seed,
            stopping=sw.Stopping(w2=goal * power, assign=False),
        )
        assert same.n_steps == plain.n_steps


def test_variants_that_cannot_work_in_so_few_dimensions_stay_where_they_are():
    line = torch.randn(2, 20, 1, dtype=torch.float64) @ torch.randn(1, 5, dtype=torch.float64)
    for variant in ("maxksw", "ksw", "omsw"):
        found = sw.flow(line[0], line[1], variant, seeds=0, max_steps=5, stopping=FIXED)
        assert found.dimensions == 5
    how = {"seeds": 0, "max_steps": 5, "stopping": FIXED}
    assert sw.flow(line[0], line[1], "sw", **how).dimensions == 1
    basis = torch.linalg.qr(torch.randn(5, 2, dtype=torch.float64)).Q
    assert sw.flow(line[0], line[1], "phisw", basis=basis, **how).dimensions == 5
    with pytest.raises(ValueError, match="in the data's own 1 dimensions"):
        sw.flow(line[0], line[1], "ksw", reduce=True)


def test_padding_changes_nothing():
    sets = [clouds(n, 2, seed=n)[0] for n in (12, 9)]
    y = clouds(10, 2)[1]
    padded, weights = sw.pad(sets)
    padded[1, 9:] = 1e7  # absent samples may lie anywhere
    together = sw.flow(padded, y, x_weights=weights, seeds=[1, 2], max_steps=20, stopping=FIXED)
    assert torch.equal(together.particles[1, 9:], padded[1, 9:])
    for i, x in enumerate(sets):
        equal = torch.full((len(x),), 1 / len(x), dtype=torch.float64)
        alone = sw.flow(x, y, x_weights=equal, seeds=i + 1, max_steps=20, stopping=FIXED)
        assert_close(together.particles[i, : len(x)], alone.particles, rtol=1e-8)


def test_a_single_sample_on_a_line():
    found = sw.flow(torch.zeros(1, 1), torch.ones(1, 1))
    assert_close(found.particles, torch.ones(1, 1))


def test_generators_seed_their_runs():
    x, y = clouds(2, 10, 2)
    own = [torch.Generator().manual_seed(s) for s in (1, 2)]
    how = {"max_steps": 3, "stopping": FIXED}
    together = sw.flow(x, y, generator=own, **how)
    alone = sw.flow(x[1], y[1], generator=[torch.Generator().manual_seed(2)], **how)
    assert_close(together.particles[1], alone.particles)
    with pytest.raises(ValueError, match=r"a torch\.Generator, a list of them"):
        sw.flow(x, y, generator="42")
    with pytest.raises(ValueError, match="for 2 runs"):
        sw.flow(x, y, generator=own[:1])


def test_an_int_is_a_generator():
    x, y = clouds(2, 10, 2)
    seeds = [
        sw.flow(x, y, generator=generator, max_steps=1, stopping=FIXED).seeds
        for generator in (42, 42, torch.Generator().manual_seed(42), 43)
    ]
    assert torch.equal(seeds[0], seeds[1])
    assert torch.equal(seeds[0], seeds[2])
    assert not torch.equal(seeds[0], seeds[3])
    how = {"max_steps": 1, "stopping": FIXED}
    by_list = sw.flow(x, y, generator=[1, torch.Generator().manual_seed(2)], **how).seeds
    own = [torch.Generator().manual_seed(s) for s in (1, 2)]
    assert torch.equal(by_list, sw.flow(x, y, generator=own, **how).seeds)


def test_rates_may_be_a_list_or_an_array():
    x, y = clouds(10, 2)
    wanted = sw.flow(x, y, lr=torch.tensor([1.0, 2.0]), seeds=1, max_steps=3).particles
    for rates in ([1.0, 2.0], np.array([1.0, 2.0])):
        assert torch.equal(sw.flow(x, y, lr=rates, seeds=1, max_steps=3).particles, wanted)
    assert torch.equal(sw.flow(x, y, lr=np.float32(1), seeds=1, max_steps=3).particles, wanted[0])


def test_draws_say_their_shape():
    def careless(problem, rng):
        return rng.normal(5, problem.d)

    x, y = clouds(2, 20, 3)
    with pytest.raises(ValueError, match=r"give the batch first, \(2, ...\)"):
        sw.flow(x, y, sw.Recipe(careless), lr=1.0, max_steps=1, seeds=[1, 2])


def test_slices_that_depend_on_the_axes_are_not_rotated():
    """Fixed slices of rotated samples are other slices: a flow of "qsw" stays in the dimensions it was given."""
    x, y = toys("swiss", 30, 6, [1])
    how = {"seeds": [1], "max_steps": 2, "stopping": FIXED}
    assert sw.flow(x, y, "qsw", **how).dimensions.item() == 6
    assert sw.flow(x, y, "rqsw", **how).dimensions.item() == 2
    with pytest.raises(ValueError, match=r"reduce=True with .*Quasi.* depends on the axes"):
        sw.flow(x, y, "qsw", reduce=True)


class Broken(Uniform):
    """A part with a mistake that shows in the plane only."""

    rotation_invariant = True

    def __call__(self, problem, rng):
        if problem.d == 2:
            raise ValueError("broken by design")
        return super().__call__(problem, rng)


def test_errors_of_a_part_are_not_taken_for_too_few_dimensions():
    """A part that fails after the reduction says so; the flow does not quietly work in all dimensions instead."""
    x, y = toys("swiss", 30, 6, [1])
    with pytest.raises(ValueError, match=r"^broken by design$"):
        sw.flow(x, y, sw.Recipe(Broken(9)), seeds=[1], max_steps=2)
    how = {"seeds": [1], "max_steps": 2, "stopping": FIXED}
    assert sw.flow(x, y, sw.Recipe(Broken(9)), reduce=False, **how).n_steps == 2


def test_weights_are_held_beside_a_rate_too():
    x, y = clouds(20, 3)
    how = {"lr": 3.0, "seeds": 0, "max_steps": 3, "stopping": FIXED}
    held, free, default = (
        sw.flow(x, y, "ebsw", hold_weights=hold, **how).particles for hold in (True, False, None)
    )
    assert torch.equal(free, default)
    assert not torch.equal(held, free)


def test_weights_are_held_by_computed_steps():
    x, y = clouds(20, 3)
    held, free, default = (
        sw.flow(x, y, "ebsw", hold_weights=hold, seeds=0, max_steps=3, stopping=FIXED).particles
        for hold in (True, False, None)
    )
    assert torch.equal(held, default)
    assert not torch.equal(held, free)


def test_there_must_be_weights_to_hold():
    x, y = clouds(20, 3)
    with pytest.raises(ValueError, match="variant 'sw' do not depend on the costs"):
        sw.flow(x, y, lr=1.0, hold_weights=True)
    with pytest.raises(ValueError, match="say it in the weighting"):
        sw.flow(x, y, sw.VARIANTS["ebsw"](), lr=1.0, hold_weights=True)
