"""Distances on spheres against slow loops from their definitions, POT, and what rotations and flows must keep."""

from __future__ import annotations

import math

import numpy as np
import ot
import pytest
import torch
from torch.autograd import gradcheck

import slicewise as sw
from slicewise.parts import Energy, GreatCircles, Stereographic, Uniform, frame_of
from tests import oracles
from tests.tolerances import assert_close

SPHERICAL = ["ssw", "linearssw", "s3w", "ris3w"]


def samples(n, d=3, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + shift


def unit(x):
    return torch.nn.functional.normalize(x, dim=-1)


def angles(x, first, second):
    """The angle of each sample on a circle, in turns, by hand."""
    return np.array([math.atan2(row @ second, row @ first) / (2 * math.pi) % 1 for row in x])


def on_meridian(x, pole, along):
    """Each sample by its angle from the opposite pole, in its own direction, along a slice; by hand."""
    found = []
    for row in x:
        row = row / np.linalg.norm(row)
        flat = row - (row @ pole) * pole
        found.append(math.acos(-(row @ pole)) * (flat / np.linalg.norm(flat)) @ along)
    return np.array(found)


def test_slices_are_orthonormal_pairs_and_uniform():
    """Of a uniform pair every coordinate of the second vector has variance 1/d, too."""
    found = sw.evaluate(samples(4), samples(4, seed=1), "ssw", n_slices=4000, generator=0)
    first, second = frame_of(found.slices)
    assert (first * second).sum(dim=-1).abs().max() < 1e-6
    for vectors in (first, second):
        assert_close(vectors.norm(dim=-1), torch.ones(4000).double(), rtol=1e-6)
        # The standard error of a mean square is √(4/45 / 4000) = 0.0047.
        assert (vectors.square().mean(dim=0) - 1 / 3).abs().max() < 0.02


@pytest.mark.parametrize("name", ["ssw", "linearssw"])
@pytest.mark.parametrize("m", [9, 7])
def test_circles_by_definition(name, m):
    x, y = samples(9), samples(m, seed=1, shift=0.5)
    found = sw.evaluate(x, y, name, n_slices=5, generator=0)
    cost = oracles.circle_cost if name == "ssw" else oracles.embedded_circle_cost
    for slices, value in zip(found.slices, found.costs, strict=True):
        pair = [t.numpy() for t in frame_of(slices)]
        u, v = (torch.from_numpy(angles(t.numpy(), *pair)).unsqueeze(0) for t in (x, y))
        assert_close(value, cost(u, v, 2).squeeze(0))


@pytest.mark.parametrize("m", [9, 7])
def test_stereographic_maps_by_definition(m):
    x, y = samples(9), samples(m, seed=1, shift=0.5)
    axis = np.array([0.0, 0.0, 1.0])
    for name in ("s3w", "ris3w"):
        found = sw.evaluate(x, y, name, n_slices=5, generator=0)
        for slices, value in zip(found.slices, found.costs, strict=True):
            pole, along = axis, np.append(slices.numpy(), 0.0)
            if name == "ris3w":
                pole, along = (t.numpy() for t in frame_of(slices))
            lines = (on_meridian(t.numpy(), pole, along) for t in (x, y))
            expected = torch.tensor(oracles.cost_on_line(*lines, 2), dtype=torch.float64)
            assert_close(value, expected, rtol=1e-8)


def test_in_the_plane_every_circle_is_the_whole_truth():
    x, y = samples(12, 2), samples(9, 2, seed=1)
    gap = torch.acos((unit(x) @ unit(y).T).clamp(-1, 1)) / (2 * math.pi)
    exact = ot.emd2(np.full(12, 1 / 12), np.full(9, 1 / 9), gap.square().numpy())
    found = sw.sliced_wasserstein(x, y, "ssw", n_slices=3, objective="power")
    assert float(found) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("name", SPHERICAL)
def test_lengths_do_not_count(name):
    x, y = samples(12), samples(9, seed=1, shift=0.5)
    scale = torch.rand(12, 1, generator=torch.Generator().manual_seed(3)).double() + 0.1
    how = {"generator": 0}
    assert_close(sw.sliced_wasserstein(x * scale, 7 * y, name, **how), sw.sliced_wasserstein(x, y, name, **how), rtol=1e-8)  # fmt: skip


@pytest.mark.parametrize("name", ["ssw", "linearssw", "ris3w"])
def test_turning_samples_and_slices_changes_nothing(name):
    x, y = samples(12, 4), samples(9, 4, seed=1, shift=0.5)
    turn = torch.linalg.qr(samples(4, 4, seed=5)).Q
    found = sw.evaluate(x, y, name, generator=0)
    slices = (found.slices.unflatten(-1, (2, 4)) @ turn).flatten(-2)
    turned = sw.sliced_wasserstein(x @ turn, y @ turn, name, slices=slices)
    assert_close(turned, found.value, rtol=1e-8)
    even = sw.spherical_uniformity(x, slices=found.slices)
    assert_close(sw.spherical_uniformity(x @ turn, slices=slices), even, rtol=1e-8)


@pytest.mark.parametrize("name", SPHERICAL)
def test_gradients_by_finite_differences(name):
    x, y = samples(5).requires_grad_(), samples(4, seed=1, shift=0.5).requires_grad_()
    slices = sw.evaluate(x, y, name, n_slices=3, generator=0).slices
    assert gradcheck(lambda x, y: sw.sliced_wasserstein(x, y, name, slices=slices), (x, y))


def test_gradients_of_uniformity():
    x = samples(6).requires_grad_()
    slices = unit(samples(4, 6, seed=3))
    weights = samples(6, 1, seed=4).squeeze(-1).softmax(0)
    for given in (None, weights):
        assert gradcheck(lambda x, w=given: sw.spherical_uniformity(x, slices=slices, x_weights=w), (x,))  # fmt: skip
    theirs = ot.sliced_wasserstein_sphere_unif(
        unit(x.detach()), projections=torch.stack(frame_of(slices), dim=-1), n_projections=4
    )
    assert_close(sw.spherical_uniformity(x, slices=slices), theirs)


def test_samples_at_the_origin_and_at_poles_have_finite_gradients():
    x = torch.cat([torch.zeros(1, 3), torch.eye(3), -torch.eye(3)]).double().requires_grad_()
    y = samples(7, seed=1)
    for name in SPHERICAL:
        value = sw.sliced_wasserstein(x, y, name, generator=0)
        assert value.isfinite()
        assert torch.autograd.grad(value, x)[0].isfinite().all(), name


def test_maxima_and_energies_come_along():
    x, y = samples(30), samples(30, seed=1, shift=0.5)
    mean = sw.sliced_wasserstein(x, y, "ssw", n_slices=200, generator=0)
    weighed = sw.Recipe(Uniform(200), Energy(temperature=0.01), lift=GreatCircles())
    assert sw.sliced_wasserstein(x, y, weighed, generator=0) > mean
    climbing = sw.VARIANTS["maxsw"](n_steps=30)
    largest = sw.sliced_wasserstein(x, y, sw.Recipe(climbing.slicer, lift=GreatCircles()), generator=0)  # fmt: skip
    assert largest > 1.2 * mean


@pytest.mark.parametrize("name", ["ssw", "ris3w"])
def test_flows_stay_on_the_sphere_and_arrive_nearer(name):
    x, y = unit(samples(40)), unit(samples(40, seed=1, shift=1.5))
    rate = {"ssw": 20.0, "ris3w": 2.0}[name]
    found = sw.flow(x, y, name, lr=rate, max_steps=60, seeds=0)
    assert_close(found.particles.norm(dim=-1), torch.ones(40).double(), rtol=1e-12)
    before, after = (sw.sliced_wasserstein(t, y, name, n_slices=500, generator=0) for t in (x, found.particles))  # fmt: skip
    assert after < 0.3 * before
    far = sw.flow(5 * x, y, name, lr=rate, max_steps=3, seeds=0).particles
    assert_close(far.norm(dim=-1), torch.full((40,), 5.0).double(), rtol=1e-12)


def test_one_dimension_is_no_sphere():
    x = torch.randn(4, 1)
    for name in SPHERICAL:
        with pytest.raises(ValueError, match="at least 2 coordinates"):
            sw.sliced_wasserstein(x, x, name)
    with pytest.raises(ValueError, match="at least 2 coordinates"):
        sw.spherical_uniformity(x)
    with pytest.raises(ValueError, match=r"p = 3"):
        sw.sliced_wasserstein(samples(4), samples(4), "linearssw", p=3)
    assert Stereographic().rotation_invariant is False
    assert Stereographic(turned=True).rotation_invariant is True
