"""The module: scales, reduction, and the state of a learned slicer."""

from __future__ import annotations

import copy
import io
import logging

import pytest
import torch

import slicewise as sw
from tests.tolerances import assert_close


def pair(*batch, d=4):
    return torch.randn(*batch, 12, d).double(), torch.randn(*batch, 9, d).double() + 1


def seeded():
    return torch.Generator().manual_seed(0)


@pytest.mark.parametrize("name", sw.VARIANTS)
@pytest.mark.parametrize("objective", ["power", "root"])
def test_module_is_the_function_reduced(name, objective):
    x, y = pair(2, 3)
    values = sw.sliced_wasserstein(x, y, name, generator=seeded(), objective=objective)
    for reduction, expected in (("none", values), ("mean", values.mean()), ("sum", values.sum())):
        loss = sw.SlicedWasserstein(name, objective=objective, reduction=reduction)
        assert_close(loss(x, y, generator=seeded()), expected)


@pytest.mark.parametrize("objective", ["power", "root"])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_scales_multiply_the_power(objective, p):
    x, y = pair(d=6)
    slices = torch.nn.functional.normalize(torch.randn(30, 6).double(), dim=-1)

    def value(**options):
        return sw.SlicedWasserstein(p=p, objective=objective, **options)(x, y, slices=slices)

    outer = 1 if objective == "power" else 1 / p
    classic = value()
    assert_close(value(scale="gaussian"), classic * sw.gaussian_constant(6, p=p) ** outer)
    assert_close(value(scale="subspace", subspace_dim=2), classic / sw.essf(6, 2, p=p) ** outer)


def test_gaussian_scale_does_not_depend_on_the_embedding():
    x, y = pair(d=2)
    wide = [torch.cat([t, torch.zeros(*t.shape[:-1], 98).double()], -1) for t in (x, y)]
    loss = sw.SlicedWasserstein(n_slices=20_000, scale="gaussian")
    assert_close(loss(*wide), loss(x, y), rtol=0.03)  # measured standard error 0.7 %


def test_subspace_is_estimated_once_and_stated(caplog):
    basis = torch.linalg.qr(torch.randn(10, 3).double()).Q
    x, y = (t @ basis.mT for t in pair(d=3))
    loss = sw.SlicedWasserstein(scale="subspace")
    with caplog.at_level(logging.WARNING, logger="slicewise"):
        loss(x, y)
    assert loss.subspace_dim == 3
    assert "subspace_dim = 3" in caplog.text
    assert "subspace_dim=3" in repr(loss)
    loss(*pair(d=10))
    assert loss.subspace_dim == 3
    loss.reset()
    loss(*pair(d=10))
    assert loss.subspace_dim == 10


def test_an_estimated_dimension_survives_a_restart():
    loss = sw.SlicedWasserstein(scale="subspace")
    loss(*(t @ torch.eye(2, 10).double() for t in pair(d=2)))
    again = sw.SlicedWasserstein(scale="subspace")
    again.load_state_dict(loss.state_dict())
    assert again.subspace_dim == 2


def test_an_unknown_dimension_cannot_be_compiled_and_says_so():
    loss = torch.vmap(sw.SlicedWasserstein(scale="subspace"), randomness="different")
    with pytest.raises(ValueError, match="give subspace_dim, or call the loss once before"):
        loss(*pair(2))


def test_the_reference_convention_is_the_published_loss():
    """n · (mean over slices of costs summed over points)^(1/2), without having to ask for the root."""
    x, y = pair()
    loss = sw.SlicedWasserstein(convention="reference")
    slices = torch.eye(4).double()
    mean = sw.sliced_wasserstein(x, y, slices=slices)
    assert_close(loss(x, y, slices=slices), mean * 12**1.5)


def test_printing_shows_the_recipe():
    assert "Recipe(Uniform(50), weighting=Energy())" in repr(sw.SlicedWasserstein("ebsw"))


def test_learned_slices_get_better_with_use_and_start_cold_in_a_function():
    x, y = torch.randn(200, 20).double(), torch.randn(200, 20).double()
    y[:, 0] += 3
    loss = sw.SlicedWasserstein("dsw", inner_lr=5e-3, n_steps=5)
    values = [loss(x, y).item() for _ in range(40)]
    assert values[-1] > 2 * values[0]
    loss.reset()
    assert loss(x, y).item() < values[1]
    cold = sw.sliced_wasserstein(x, y, "dsw", generator=seeded(), objective="power")
    fresh = sw.SlicedWasserstein("dsw")(x, y, generator=seeded())
    assert_close(cold, fresh)


def test_learned_state_is_saved_loaded_copied_and_moved():
    x, y = pair(2)
    loss = sw.SlicedWasserstein("dsw")
    loss(x, y)
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    loaded = sw.SlicedWasserstein("dsw")
    loaded.load_state_dict(torch.load(file))
    copied = copy.deepcopy(loss)
    nested = torch.nn.ModuleDict({"a": sw.SlicedWasserstein("dsw")})
    nested.load_state_dict(torch.nn.ModuleDict({"a": loss}).state_dict())
    expected = loss(x, y, generator=seeded())
    for other in (loaded, copied, nested["a"]):
        assert_close(other(x, y, generator=seeded()), expected)
    loss.to(torch.float32)
    assert loss(x.float(), y.float()).dtype == torch.float32
    assert all(b.dtype != torch.float64 for b in loss.buffers())


def test_learned_state_is_one_network_for_each_element():
    x, y = pair(2)
    y[1] += 3 * torch.randn(4).double()
    loss = sw.SlicedWasserstein("dsw", reduction="none")
    seeds = [torch.Generator().manual_seed(s) for s in (1, 2)]
    for _ in range(3):
        both = loss(x, y, generator=seeds)
    for i in range(2):
        alone = sw.SlicedWasserstein("dsw")
        seed = torch.Generator().manual_seed(i + 1)
        for _ in range(3):
            one = alone(x[i], y[i], generator=seed)
        assert_close(both[i], one)


def test_another_shape_starts_anew_and_says_so():
    loss = sw.SlicedWasserstein("dsw")
    loss(*pair())
    loss(*(t[:5] for t in pair()))  # the number of samples is free
    with pytest.warns(
        UserWarning, match=r"was for \(\*batch, d\) = \(4,\), these samples have \(7,\)"
    ):
        loss(*pair(d=7))
    with pytest.warns(UserWarning, match=r"these samples have \(2, 7\)"):
        loss(*pair(2, d=7))


def test_given_slices_leave_the_learned_ones_alone():
    loss = sw.SlicedWasserstein("dsw")
    loss(*pair(), slices=torch.eye(4).double())
    assert not list(loss.buffers())


def test_a_loss_has_nothing_to_train():
    loss = sw.SlicedWasserstein("dsw")
    loss(*pair())
    assert not list(loss.parameters())
