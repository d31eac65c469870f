"""All pairs at once: what single calls give, and vectors whose distances these are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import slicewise as sw
from tests.tolerances import assert_close


def sets(*sizes, d=3):
    g = torch.Generator().manual_seed(0)
    return [
        torch.randn(n, d, generator=g, dtype=torch.float64) + 0.3 * k for k, n in enumerate(sizes)
    ]


@pytest.mark.parametrize("sizes", [(9, 9, 9, 9), (9, 12, 9, 5)])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"p": 1},
        {"p": 1.5},
        {"objective": "power"},
        {"objective": "mean_root"},
        {"variant": "ebsw"},
        {"variant": "gsw"},
    ],
    ids=str,
)
def test_every_entry_is_a_call(sizes, how):
    many = sets(*sizes)
    found = sw.pairwise(many, generator=3, **how)
    how = dict(how)
    variant = how.pop("variant", "sw")
    calls = [[sw.sliced_wasserstein(x, y, variant, generator=3, **how) for y in many] for x in many]
    assert_close(found, torch.tensor(calls, dtype=torch.float64))
    assert torch.equal(found, found.mT)


def test_others_and_weights_and_arrays():
    many = sets(9, 12, 7)
    rows = sw.pairwise(many[:1], many[1:], generator=1)
    assert_close(rows[0], sw.pairwise(many, generator=1)[0, 1:])
    arrays = sw.pairwise([s.numpy() for s in many], generator=1)
    assert isinstance(arrays, np.ndarray)
    weights = [torch.rand(len(s), dtype=torch.float64) for s in many]
    weights = [w / w.sum() for w in weights]
    found = sw.pairwise(many, weights=weights, generator=1)
    call = sw.sliced_wasserstein(
        many[0], many[2], x_weights=weights[0], y_weights=weights[2], generator=1
    )
    assert_close(found[0, 2], call)


def test_near_duplicates_keep_their_distance():
    one = 1e4 + sets(50)[0]
    found = sw.pairwise(
        [one, one.clone(), one + 1e-7, one + 5], slices=torch.eye(3, dtype=torch.float64)
    )
    assert found[0, 1] == 0
    assert float(found[0, 2]) == pytest.approx(1e-7, rel=1e-3)


@pytest.mark.parametrize(("kernel", "p"), [("gaussian", 2), ("laplacian", 1), ("laplacian", 2)])
def test_kernels_are_positive_definite(kernel, p):
    found = sw.pairwise(sets(*[8] * 6, *[5] * 6), kernel=kernel, p=p, generator=0)
    assert torch.linalg.eigvalsh(found).min() > -1e-10
    torch.testing.assert_close(found.diagonal(), torch.ones(12, dtype=torch.float64))
    wide = sw.pairwise(sets(*[8] * 3), kernel=kernel, p=p, gamma=1e-3, generator=0)
    assert (wide > 0.98).all()


@pytest.mark.parametrize("p", [1, 2])
def test_embedding_is_isometric(p):
    x, y = sets(20, 20)
    apart = torch.linalg.vector_norm(sw.embed(x, p=p) - sw.embed(y, p=p), ord=p)
    assert_close(apart, sw.sliced_wasserstein(x, y, p=p, generator=0))
    batch = sw.embed(torch.stack([x, y]), p=p)
    assert_close(batch[1], sw.embed(y, p=p))


def test_quantile_embedding_takes_sets_of_any_size():
    x, y = sets(60, 45)
    u, v = (sw.embed(s, n_quantiles=15) for s in (x, y))
    exact = sw.sliced_wasserstein(x, y, generator=0)
    apart = (u - v).norm()
    assert 0.95 * exact < apart <= exact + 1e-12
    assert sw.embed(x.requires_grad_(), n_quantiles=15).sum().requires_grad


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sets": torch.zeros(4, 3)}, r"give \(K, n, d\)"),
        ({"sets": []}, "empty"),
        ({"sets": [torch.zeros(3, 2), torch.zeros(3, 4)]}, r"sets\[1\] has shape"),
        ({"variant": "maxsw"}, "slices of its own"),
        ({"kernel": "gaussian", "p": 1}, "not known to be positive"),
        ({"kernel": "laplacian", "variant": "ebsw"}, "not known to be positive"),
        ({"gamma": 1.0}, "gamma is for kernels"),
        ({"weights": [torch.ones(1)]}, "weights are 1, but there are 3 sets"),
    ],
)
def test_mistakes(given, words):
    with pytest.raises(ValueError, match=words):
        sw.pairwise(**{"sets": sets(4, 5, 6), **given})
