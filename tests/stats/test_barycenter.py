"""The mean of sets: exact where it is known, and no worse than it should be elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slicewise as sw


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_on_a_line_it_is_the_quantile_average():
    x, y = normal(60, 1), 2 * normal(60, 1, seed=1) + 3
    found = sw.barycenter([x, y], [0.3, 0.7], generator=0)
    wanted = 0.3 * x.sort(dim=0).values + 0.7 * y.sort(dim=0).values
    torch.testing.assert_close(found.samples.sort(dim=0).values, wanted)
    assert found.status == "arrived"
    assert found.n_steps <= 2


@pytest.mark.parametrize("d", [2, 7])
def test_translates_are_exact(d):
    shape, to = normal(40, d), normal(3, d, seed=2)
    found = sw.barycenter(torch.stack([shape + t for t in to]), [1, 2, 1], generator=0)
    wanted = shape + (to * torch.tensor([[0.25], [0.5], [0.25]])).sum(dim=0)
    torch.testing.assert_close(found.samples, wanted)
    assert found.status == "arrived"


def test_it_is_nearer_to_all_sets_than_any_of_them():
    many = [normal(80, 2, seed=k) * torch.tensor([1.0, 3.0][:: (-1) ** k]) + k for k in range(3)]
    slices = torch.nn.functional.normalize(normal(200, 2, seed=9), dim=1)

    def objective(x):
        return sum(float(sw.sliced_wasserstein(x, s, slices=slices)) ** 2 for s in many) / 3

    found = sw.barycenter(many, generator=0)
    moved = [s - s.mean(dim=0) + sum(m.mean(dim=0) for m in many) / 3 for s in many]
    assert objective(found.samples) < 0.9 * min(map(objective, moved))
    assert found.objective == pytest.approx(objective(found.samples), rel=0.1)
    # The gradient of the objective vanishes: no small move of all samples helps by more than noise.
    x = found.samples.clone().requires_grad_()
    sum(sw.sliced_wasserstein(x, s, slices=slices, objective="power") for s in many).backward()
    start = moved[0].clone().requires_grad_()
    sum(sw.sliced_wasserstein(start, s, slices=slices, objective="power") for s in many).backward()
    assert x.grad.norm() < 0.2 * start.grad.norm()


def test_one_exact_step_comes_near_the_exact_barycenter():
    ot = pytest.importorskip("ot")
    g = torch.Generator().manual_seed(3)
    many = []
    for _ in range(3):
        middles = 2 * torch.randn(3, 2, generator=g, dtype=torch.float64)
        many.append(
            middles[torch.randint(3, (120,), generator=g)]
            + 0.4 * torch.randn(120, 2, generator=g, dtype=torch.float64)
        )
    arrays = [m.numpy() for m in many]
    theirs = ot.lp.free_support_barycenter(arrays, [np.full(120, 1 / 120)] * 3, X_init=arrays[0])
    ours = sw.barycenter(many, generator=0, refine=2).samples

    def exact(x):
        return sum(float(sw.wasserstein(x, m)) ** 2 for m in many)

    assert exact(ours) < 1.01 * exact(torch.from_numpy(theirs))


def test_sizes_weights_arrays_and_starts():
    x, y = normal(30, 2), normal(50, 2, seed=1) + 2
    assert sw.barycenter([x, y], n=17, generator=0, max_steps=5).samples.shape == (17, 2)
    assert sw.barycenter([x, y], n=80, generator=0, max_steps=5).samples.unique(dim=0).shape == (
        80,
        2,
    )
    only = torch.zeros(50, dtype=torch.float64)
    only[:10] = 0.1
    found = sw.barycenter(
        [x, y], [0, 1], sample_weights=[torch.full((30,), 1 / 30), only], n=10, generator=0
    )
    assert float(sw.sliced_wasserstein(found.samples, y[:10])) < 1e-6
    arrays = sw.barycenter([x.numpy(), x.numpy() + 1], generator=0)
    assert isinstance(arrays.samples, np.ndarray)
    cut = sw.barycenter([x, y], start=y[:20], generator=0, max_steps=3)
    assert (cut.status, cut.samples.shape) == ("out of steps", (20, 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sets": []}, "empty"),
        ({"weights": [1, 2, 3]}, "weights are 3, but there are 2 sets"),
        ({"weights": [1, -2]}, "at least 0"),
        ({"start": torch.zeros(3, 5)}, "start has shape"),
        ({"sample_weights": [torch.ones(4), torch.ones(5)]}, "sums to 1"),
        ({"n": 0}, "whole number"),
    ],
)
def test_mistakes(change, words):
    with pytest.raises(ValueError, match=words):
        sw.barycenter(**{"sets": [normal(4, 2), normal(5, 2)], **change})
