"""The suggested move as a result, and as the gradient of a loss."""

from __future__ import annotations

import pytest
import torch

import slicewise as sw
from slicewise.parts.slicers import Uniform
from slicewise.sampling import sphere
from slicewise.sampling.generators import Randomness
from slicewise.transport import sliced
from tests.tolerances import assert_close


def samples(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def directions(*shape, seed=0):
    return sphere.uniform(
        shape, Randomness(torch.Generator().manual_seed(seed), torch.device("cpu"))
    )


LINEAR = sorted(name for name in sw.VARIANTS if "linear" in sw.VARIANTS[name].properties)


@pytest.mark.parametrize("variant", sorted(set(sw.VARIANTS) - set(LINEAR)))
def test_slices_that_are_not_linear_are_refused_with_a_reason(variant):
    x, y = samples(20, 4), samples(15, 4, seed=1) + 1
    for call in (
        lambda: sw.displacement(x, y, variant),
        lambda: sw.evaluate(x, y, variant).displacement,
        lambda: sw.SlicedWasserstein(variant, scale="displacement"),
        lambda: sw.flow(x, y, variant),
    ):
        with pytest.raises(ValueError, match=r"not linear in the samples.*descend by a rate"):
            call()
    with pytest.raises(ValueError, match="reduce=True"):
        sw.flow(x, y, variant, lr=0.1, reduce=True)


@pytest.mark.parametrize("variant", LINEAR)
def test_of_an_evaluation_and_on_its_own(variant):
    x, y = samples(3, 20, 4), samples(3, 15, 4, seed=1) + 1
    seeded = {"generator": torch.Generator().manual_seed(5)}
    found = sw.evaluate(x, y, variant, **seeded)
    seeded = {"generator": torch.Generator().manual_seed(5)}
    move = sw.displacement(x, y, variant, **seeded)
    assert move.shape == x.shape
    assert_close(found.displacement, move)
    # It goes downhill: on the same slices, weights held, the loss is less.
    after = sw.evaluate(x + move, y, variant, slices=found.slices).costs
    assert ((found.weights * after).sum(-1) < (found.weights * found.costs).sum(-1)).all()


def test_one_frame_and_one_partner_is_the_way_there():
    y = samples(1, 3)
    assert_close(sw.displacement(torch.zeros_like(y), y, "orthosw", n_slices=3), y)


def test_a_batch_is_a_loop():
    x, y, slices = samples(4, 10, 3), samples(4, 10, 3, seed=1), directions(4, 8, 3)
    for step in ("cauchy", "trace", "polyak"):
        together = sw.displacement(x, y, step_rule=step, slices=slices)
        apart = [
            sw.displacement(a, b, step_rule=step, slices=s)
            for a, b, s in zip(x, y, slices, strict=True)
        ]
        assert_close(together, torch.stack(apart))


def test_pieces_of_slices_change_nothing(monkeypatch):

    x, y, slices = samples(40, 3), samples(30, 3, seed=1), directions(50, 3)
    whole = [sw.displacement(x, y, v, slices=slices) for v in ("sw", "ebsw")]
    monkeypatch.setattr(sliced, "PIECE_BYTES", 4096)
    pieces = [sw.displacement(x, y, v, slices=slices) for v in ("sw", "ebsw")]
    assert_close(torch.stack(pieces), torch.stack(whole))


@pytest.mark.parametrize("p", [1.5, 2, 3])
def test_absent_samples_stay_and_do_not_count(p):
    x, y, slices = samples(10, 3), samples(10, 3, seed=1), directions(8, 3)
    weights = torch.full((10,), 1 / 8, dtype=torch.float64)
    weights[[2, 7]] = 0
    there = weights > 0
    x[2] = 1e6
    move = sw.displacement(x, y, x_weights=weights, p=p, slices=slices)
    assert torch.equal(move[~there], torch.zeros(2, 3, dtype=torch.float64))
    assert_close(move[there], sw.displacement(x[there], y, p=p, slices=slices))


def test_absent_samples_may_be_nan_for_the_loss_too():
    x, y = samples(10, 3), samples(8, 3, seed=1)
    weights = torch.full((10,), 1 / 9, dtype=torch.float64)
    weights[4], x[4] = 0, torch.nan
    x.requires_grad_()
    sw.SlicedWasserstein(scale="displacement")(x, y, x_weights=weights).backward()
    assert x.grad.isfinite().all()
    assert torch.equal(x.grad[4], torch.zeros(3, dtype=torch.float64))


def test_scale_offset_and_rotation():
    x, y, slices = samples(20, 5), samples(20, 5, seed=1) + 1, directions(30, 5)
    move = sw.displacement(x, y, slices=slices)
    for scale in (1e-3, 1e3):
        assert_close(sw.displacement(scale * x, scale * y, slices=slices), scale * move)
    assert_close(sw.displacement(x + 100, y + 100, slices=slices), move)
    turn = directions(5, 5)
    turn = torch.linalg.qr(turn).Q
    assert_close(sw.displacement(x @ turn, y @ turn, slices=slices @ turn), move @ turn)
    # Doubling every sample moves twins together, as before.
    twice = sw.displacement(x.repeat(2, 1), y.repeat(2, 1), slices=slices)
    assert_close(twice, move.repeat(2, 1))


def test_energies_held_or_differentiated():
    x, y, slices = samples(20, 5), samples(20, 5, seed=1) * 3, directions(30, 5)
    held = sw.displacement(x, y, "ebsw", slices=slices)
    constant = sw.VARIANTS["ebsw"](hold_weights=True)  # weights that have no derivative
    assert_close(held, sw.displacement(x, y, constant, hold_weights=False, slices=slices))
    live = sw.displacement(x, y, "ebsw", hold_weights=False, slices=slices)
    # The differentiated one points along the gradient of the loss, energies and all.
    _, gradient = sw.value_and_grad(x, y, "ebsw", objective="power", slices=slices)
    assert_close(live / live.norm(), -gradient / gradient.norm())
    assert not torch.allclose(live, held)


# As a loss.


def moves(loss, x, y, **more):
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    value = loss(x, y, **more)
    value.sum().backward()
    return value.detach(), x.grad, y.grad


@pytest.mark.parametrize("variant", ["sw", "ebsw", "maxsw", "rpsw", "phisw"])
@pytest.mark.parametrize("p", [1.5, 2, 3])
def test_the_gradient_is_minus_the_weighted_move(variant, p):
    x, y, slices = samples(2, 20, 4), samples(2, 15, 4, seed=1) + 1, directions(2, 10, 4)
    weights = torch.rand(15, dtype=torch.float64) + 0.1
    weights = weights / weights.sum()
    loss = sw.SlicedWasserstein(variant, p=p, scale="displacement", reduction="none")
    value, x_grad, y_grad = moves(loss, x, y, slices=slices, y_weights=weights)
    known = {"p": p, "slices": slices}
    assert_close(
        value, sw.sliced_wasserstein(x, y, variant, objective="power", y_weights=weights, **known)
    )
    move = sw.displacement(x, y, variant, y_weights=weights, **known)
    assert_close(x_grad, -move / 20)
    weighting = sw.evaluate(x, y, variant, y_weights=weights, **known).weights
    recipe = sw.Recipe(Uniform(10), weighting=lambda costs, slices, problem: weighting)
    back = sw.displacement(y, x, recipe, x_weights=weights, **known)
    assert_close(y_grad, -weights[:, None] * back)


def test_only_what_asks_gets_a_gradient():
    x, y = samples(8, 3), samples(8, 3, seed=1)
    loss = sw.SlicedWasserstein(scale="displacement")
    assert not loss(x, y).requires_grad
    assert_close(
        loss(x, y, slices=directions(5, 3)),
        sw.SlicedWasserstein()(x, y, slices=directions(5, 3)),
    )
    x.requires_grad_()
    loss(x, y).backward()
    assert x.grad.isfinite().all()


def test_the_gradient_does_not_care_about_dimension_or_slice_count():
    """The classic gradient falls as 1/d; this one is the size of the way to go."""
    sizes = {}
    for d in (4, 64, 1024):
        for n_slices in (10, 200):
            x = torch.zeros(50, d, requires_grad=True)
            y = torch.randn(50, 2) @ torch.eye(2, d) + torch.eye(d)[0] * 5
            sw.SlicedWasserstein(n_slices=n_slices, scale="displacement")(x, y).backward()
            sizes[d, n_slices] = float((50 * x.grad).norm(dim=-1).mean())
    # E|a D|² for one offset e is |e|² a*/d: the share of it that L slices of R^d can see.
    for (d, n_slices), size in sizes.items():
        seen = (sw.steps.best_step(n_slices, d) / d) ** 0.5
        assert size == pytest.approx(5.2 * seen, rel=0.35)


def test_published_convention_and_half_precision():
    x, y = samples(8, 3), samples(8, 3, seed=1)
    slices = directions(5, 3)
    loss = sw.SlicedWasserstein(convention="reference", objective="power", scale="displacement")
    value, x_grad, _ = moves(loss, x, y, slices=slices)
    classic = sw.SlicedWasserstein(convention="reference", objective="power")
    assert_close(value, classic(x, y, slices=slices))
    assert_close(x_grad, -sw.displacement(x, y, slices=slices) / 8)
    half = x.to(torch.bfloat16).requires_grad_()
    sw.SlicedWasserstein(scale="displacement")(half, y.to(torch.bfloat16)).backward()
    assert half.grad.dtype == torch.bfloat16
    assert half.grad.isfinite().all()


def test_compiles_and_transforms():
    x, y, slices = samples(8, 3), samples(8, 3, seed=1), directions(5, 3)
    loss = sw.SlicedWasserstein(scale="displacement")
    wanted = moves(loss, x, y, slices=slices)[1]
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    assert_close(moves(compiled, x, y, slices=slices)[1], wanted)
    assert_close(torch.func.grad(lambda x: loss(x, y, slices=slices))(x), wanted)
    many = torch.func.vmap(torch.func.grad(lambda x: loss(x, y, slices=slices)))(
        torch.stack([x, 2 * x])
    )
    assert_close(many[0], wanted)


def test_a_learned_slicer_learns_on():
    loss = sw.SlicedWasserstein("dsw", n_slices=5, scale="displacement")
    x, y = samples(8, 3).requires_grad_(), samples(8, 3, seed=1)
    loss(x, y).backward()
    before = loss.slicer_weight.clone()
    loss(x, y).backward()
    assert not torch.equal(before, loss.slicer_weight)


def test_errors_speak():
    with pytest.raises(ValueError, match="give objective='power'"):
        sw.SlicedWasserstein(scale="displacement", objective="root")
    with pytest.raises(ValueError, match="did you mean 'displacement'"):
        sw.SlicedWasserstein(scale="displacment")
    weights = torch.full((8,), 1 / 8, requires_grad=True)
    with pytest.raises(ValueError, match="x_weights asks for a gradient"):
        sw.SlicedWasserstein(scale="displacement")(
            torch.randn(8, 2), torch.randn(8, 2), x_weights=weights
        )
    with pytest.raises(ValueError, match="NaN or infinite"):
        sw.displacement(torch.full((3, 2), torch.nan), torch.zeros(3, 2))
