"""Energy distance and MMD along slices, against all pairs."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.stats.energy import mean_absolute_coordinate


def pair(d=3):
    g = torch.Generator().manual_seed(0)
    return torch.randn(40, d, generator=g, dtype=torch.float64), 1.5 * torch.randn(
        30, d, generator=g, dtype=torch.float64
    ) + 0.5


def mean_of(function, a, b, wa, wb):
    return (wa[:, None] * wb * function(torch.cdist(a, b))).sum()


def by_pairs(function, x, y, a=None, b=None):
    a = torch.full((len(x),), 1 / len(x), dtype=x.dtype) if a is None else a
    b = torch.full((len(y),), 1 / len(y), dtype=y.dtype) if b is None else b
    xy, xx, yy = (mean_of(function, *t) for t in ((x, y, a, b), (x, x, a, a), (y, y, b, b)))
    return 2 * xy - xx - yy


def test_on_a_line_the_energy_is_exact():
    x, y = pair(1)
    a = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a = a / a.sum()
    for weights in (None, a):
        found = sw.energy_distance(x, y, squared=True, n_slices=3, x_weights=weights)
        torch.testing.assert_close(found, by_pairs(lambda r: r, x, y, weights))
    torch.testing.assert_close(sw.energy_distance(x, y), by_pairs(lambda r: r, x, y).sqrt())


@pytest.mark.parametrize("d", [2, 7])
def test_slices_estimate_the_energy_and_the_mmd_of_all_pairs(d):
    x, y = pair(d)
    many = torch.stack(
        [sw.energy_distance(x, y, squared=True, n_slices=200, generator=k) for k in range(50)]
    )
    truth = by_pairs(lambda r: r, x, y)
    assert abs(many.mean() - truth) < 3 * many.std() / 50**0.5
    many = torch.stack(
        [sw.mmd(x, y, bandwidth=1.5, squared=True, n_slices=200, generator=k) for k in range(50)]
    )
    truth = -by_pairs(lambda r: torch.exp(-(r**2) / (2 * 1.5**2)), x, y)
    assert abs(many.mean() - truth) < 3 * many.std() / 50**0.5


@pytest.mark.parametrize("call", [sw.energy_distance, sw.mmd])
def test_gradients(call):
    x, y = pair(2)
    x, y = x[:6].clone().requires_grad_(), y[:5].clone().requires_grad_()
    slices = torch.nn.functional.normalize(torch.randn(4, 2, dtype=torch.float64), dim=1)
    more = {"bandwidth": 1.0} if call is sw.mmd else {}
    assert torch.autograd.gradcheck(
        lambda a, b: call(a, b, slices=slices, squared=True, **more), (x, y)
    )
    call(x, x).backward()
    assert x.grad.isfinite().all()


def test_batches_and_constants():
    x, y = pair(2)
    batch = sw.energy_distance(x.expand(3, -1, -1), y, generator=[1, 2, 3])
    torch.testing.assert_close(batch[1], sw.energy_distance(x, y, generator=2))
    assert sw.mmd(x.numpy(), y.numpy(), generator=0) > 0
    assert mean_absolute_coordinate(2) == pytest.approx(2 / torch.pi)
    with pytest.raises(ValueError, match="bandwidth"):
        sw.mmd(x, y, bandwidth=-1.0)
    with pytest.raises(ValueError, match="slices has shape"):
        sw.energy_distance(x, y, slices=torch.ones(3, 5))
