"""Samples that are equal up to their order: distance zero, computed once, by every variant and way."""

from __future__ import annotations

import math

import pytest
import torch

import slicewise as sw
from slicewise.laws import Normal


@pytest.mark.parametrize("variant", ["sw", "ebsw", "maxsw", "maxgsw", "dsw", "orthosw"])
def test_permuted_samples_are_at_distance_zero(variant):
    x = torch.randn(20, 4)
    for value in (
        sw.sliced_wasserstein(x, x.flip(0), variant),
        sw.SlicedWasserstein(variant)(x, x.flip(0)),
    ):
        assert 0 <= value.item() < 1e-5


@pytest.mark.parametrize("far", [1.0, 1e22])
def test_compiled_losses_raise_nothing(far):
    """They cannot be repeated in another unit: what leaves the range is infinite."""
    x, loss = far * torch.randn(12, 3), sw.SlicedWasserstein()
    compiled = torch.compile(lambda u, v: loss(u, v), backend="eager")
    assert compiled(x, x.flip(0)).item() <= 1e-6 * far**2
    value = compiled(x, -x).item()
    assert value == math.inf if far > 1 else 0 < value < math.inf


def test_an_equal_pair_leaves_the_rest_of_the_batch_alone():
    x = torch.randn(2, 15, 3)
    y = torch.stack([torch.randn(15, 3), x[1].flip(0)])
    seeded = [torch.Generator().manual_seed(i) for i in range(2)]
    alone = sw.sliced_wasserstein(x[0], y[0], generator=torch.Generator().manual_seed(0))
    together = sw.sliced_wasserstein(x, y, generator=seeded)
    assert together[0].item() == pytest.approx(alone.item(), rel=1e-5)
    assert together[1].item() == pytest.approx(0, abs=1e-5)


def test_a_learner_learns_once_a_call():
    def learned(loss):
        return {name: held for name, held in loss.state_dict().items() if torch.is_tensor(held)}

    x, loss = torch.randn(12, 3), sw.SlicedWasserstein("dsw")
    loss(x, x + 1)
    before = {name: held.clone() for name, held in learned(loss).items()}
    loss(x, x.flip(0))
    after = learned(loss)
    assert {name: held.dtype for name, held in after.items()} == {
        name: held.dtype for name, held in before.items()
    }
    (counted,) = (name for name in before if name.endswith("step"))
    assert after[counted] == 2 * before[counted]


def test_a_law_whose_mean_is_replaced_is_the_new_one():
    x, law = torch.randn(30, 3), Normal(torch.zeros(3))
    slices = torch.eye(3)
    sw.value_and_grad(x, law, slices=slices)
    law.mean = torch.full((3,), 5.0)
    value, _ = sw.value_and_grad(x, law, slices=slices)
    expected, _ = sw.value_and_grad(x, Normal(torch.full((3,), 5.0)), slices=slices)
    assert value.item() == pytest.approx(expected.item(), rel=1e-6)
