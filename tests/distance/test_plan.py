"""Calls that are made again: their plans give what the general way gives, values and gradients."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref

import pytest
import torch

import slicewise as sw
from slicewise.distance import plan, request
from tests.tolerances import assert_close


@pytest.fixture
def no_plans(monkeypatch):
    """Turns plans off and on again."""

    def switch(off=True):
        for module in ("evaluation", "loss"):
            monkeypatch.setattr(
                f"slicewise.distance.{module}.planned_value",
                (lambda *given: None) if off else plan.planned_value,
            )
        monkeypatch.setattr(
            "slicewise.distance.gradient.planned_gradient",
            (lambda *given: None) if off else plan.planned_gradient,
        )

    return switch


def samples(*batch, n=20, m=20, d=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(*batch, n, d, generator=generator, dtype=torch.float64)
    y = 0.7 * torch.randn(*batch, m, d, generator=generator, dtype=torch.float64) + 0.5
    return x.to(dtype), y.to(dtype)


def uneven(n):
    """Weights that sum to one, the first of them zero."""
    return torch.arange(n, dtype=torch.float64) / (n * (n - 1) / 2)


def graded(loss, x, y, times=1.0, **given):
    torch.manual_seed(3)
    live = x.clone().requires_grad_()
    value = loss(live, y, **given)
    (value * times).sum().backward()
    return value.detach(), live.grad


@pytest.mark.parametrize("scale", ["classic", "gaussian", "displacement"])
@pytest.mark.parametrize("variant", sw.VARIANTS)
def test_a_plan_changes_nothing(variant, scale, no_plans):
    if sw.VARIANTS[variant]().lift is not None and scale != "classic":
        pytest.skip("its slices are not linear")
    x, y = samples(2)
    times = torch.tensor([1.0, 3.0])
    make = {"scale": scale, "reduction": "none"}
    found = graded(sw.SlicedWasserstein(variant, **make), x, y, times)
    no_plans()
    expected = graded(sw.SlicedWasserstein(variant, **make), x, y, times)
    for ours, plain in zip(found, expected, strict=True):
        assert_close(ours, plain)


@pytest.mark.parametrize("scale", ["classic", "displacement"])
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("weighted", ["", "x", "y", "xy"])
@pytest.mark.parametrize("m", [20, 13])
def test_weights_sizes_and_orders(scale, p, weighted, m, no_plans):
    x, y = samples(m=m)
    weights = {f"{side}_weights": uneven(20 if side == "x" else m) for side in weighted}
    if "x" in weighted:
        x[0] = torch.nan  # absent
    loss = sw.SlicedWasserstein("ebsw", p=p, scale=scale)
    found = graded(loss, x, y, 2.0, **weights)
    no_plans()
    expected = graded(loss, x, y, 2.0, **weights)
    for ours, plain in zip(found, expected, strict=True):
        assert_close(ours, plain)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_precisions(dtype, no_plans):
    x, y = samples(dtype=dtype)
    loss = sw.SlicedWasserstein(objective="root")
    found = graded(loss, x, y, 256.0)
    values = sw.value_and_grad(x, y)
    assert found[1].dtype == values[1].dtype == dtype
    no_plans()
    expected = graded(loss, x, y, 256.0)
    assert_close(found[0], expected[0])
    assert_close(
        found[1].float(), expected[1].float(), rtol=1e-2 if dtype != torch.float32 else None
    )


def test_mixed_precision_needs_autocast_in_every_call():
    x, y = samples()
    x = x.bfloat16().requires_grad_()
    loss = sw.SlicedWasserstein()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(x, y).dtype == torch.float64
    with pytest.raises(ValueError, match="dtype"):
        loss(x, y)


def test_a_wrong_call_after_good_ones_is_refused():
    x, y = samples()
    loss = sw.SlicedWasserstein()
    graded(loss, x, y)
    with pytest.raises(ValueError, match="NaN"):
        graded(loss, x.clone().fill_(torch.nan), y)
    weights = uneven(20)
    graded(loss, x, y, x_weights=weights)
    with pytest.raises(ValueError, match="negative"):
        graded(loss, x, y, x_weights=-weights)
    with pytest.raises(ValueError, match="generator"):
        graded(loss, x, y, generator="one")
    with pytest.raises(ValueError, match="progress"):
        graded(loss, x, y, progress=2.0)


def test_the_gradient_is_handed_over_and_found_again():
    """One backward pass copies nothing; a second one, which few ask for, computes it once more."""
    x, y = samples()
    live = x.clone().requires_grad_()
    value = sw.SlicedWasserstein("ebsw")(live, y)
    kept = value.grad_fn.gradient.data_ptr()
    (first,) = torch.autograd.grad(value, live, retain_graph=True)
    assert first.data_ptr() == kept
    second, third = (torch.autograd.grad(2 * value, live, retain_graph=True)[0] for _ in range(2))
    assert_close(second, 2 * first)
    assert_close(third, 2 * first)


@pytest.mark.parametrize("variant", ["sw", "maxsw", "ebsw"])
def test_gradients_of_gradients(variant, no_plans):
    x, y = samples()

    def twice():
        torch.manual_seed(3)
        live = x.clone().requires_grad_()
        value = sw.SlicedWasserstein(variant, p=3)(live, y)
        (first,) = torch.autograd.grad(value, live, create_graph=True)
        return torch.autograd.grad(first.square().sum(), live)[0]

    found = twice()
    no_plans()
    assert_close(found, twice())


def test_samples_may_change_in_place_once_the_loss_is_computed():
    x, y = samples()
    parameter = x.clone().requires_grad_()
    value = sw.SlicedWasserstein()(parameter, y)
    with torch.no_grad():
        parameter += 1
    value.backward()
    assert parameter.grad.isfinite().all()


def test_settings_that_change_are_followed():
    x, y = samples()
    loss = sw.SlicedWasserstein()
    square = graded(loss, x, y)[0]
    loss.p = 1
    assert_close(graded(loss, x, y)[0], graded(sw.SlicedWasserstein(p=1), x, y)[0])
    loss.p, loss.objective = 2, "root"
    assert_close(graded(loss, x, y)[0], square.sqrt())


def test_gradients_to_y_and_to_weights_are_there():
    x, y = samples()
    inputs = [x.requires_grad_(), y.requires_grad_(), uneven(20).requires_grad_()]
    value = sw.SlicedWasserstein()(*inputs[:2], x_weights=inputs[2])
    assert all(g.abs().sum() > 0 for g in torch.autograd.grad(value, inputs))


def test_transforms_see_through():
    x, y = samples()
    slices = torch.eye(3, dtype=torch.float64)
    loss = sw.SlicedWasserstein()
    expected = graded(loss, x, y, slices=slices)[1]
    assert_close(torch.func.grad(lambda one: loss(one, y, slices=slices))(x), expected)
    both = torch.func.vmap(torch.func.grad(lambda one: loss(one, y)), randomness="different")(
        torch.stack([x, x])
    )
    assert both.shape == (2, 20, 3)


def test_modules_with_plans_are_copied_and_pickled():
    x, y = samples()
    loss = sw.SlicedWasserstein("ebsw", generator=5)
    graded(loss, x, y)
    others = [copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))]
    wanted = graded(loss, x, y)
    for other in others:
        for ours, expected in zip(graded(other, x, y), wanted, strict=True):
            assert ours.equal(expected)


def test_nothing_holds_on_to_samples():
    x, y = samples()
    gc.collect()
    gc.disable()  # no cycles: what is not needed is gone at once
    try:
        live = x.clone().requires_grad_()
        value = sw.SlicedWasserstein()(live, y)
        gone = weakref.ref(live), weakref.ref(value)
        del live, value
        assert [reference() for reference in gone] == [None, None]
    finally:
        gc.enable()


def test_threads_have_plans_of_their_own():
    x, y = samples(n=200, m=200)
    expected = sw.value_and_grad(x, y, generator=7)
    found = []

    def work():
        found.extend(sw.value_and_grad(x, y, generator=7) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60
    assert all(v.equal(expected[0]) and g.equal(expected[1]) for v, g in found)


def test_only_so_many_plans_are_kept(monkeypatch):
    monkeypatch.setattr(plan, "_KEPT", 3)
    monkeypatch.setattr(plan, "_kept", plan._Kept())
    for n in range(2, 9):
        sw.value_and_grad(*samples(n=n, m=n))
    assert len(plan._kept.plans) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": "displacement"},
        {"scale": "gaussian", "objective": "root"},
        {"variant": "maxsw"},
    ],
    ids=["classic", "displacement", "gaussian", "maxsw"],
)
def test_a_compiled_training_step_has_no_break(settings, backend):
    """One operation of our own, with the draws of the loss that is not compiled."""
    x, y = samples(2)
    loss = sw.SlicedWasserstein(**settings)
    scale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)

    def step(x, y):
        return loss(scale * x, y)

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, backend=backend)
    found = []
    for call in (step, compiled):
        torch.manual_seed(0)
        value = call(x, y)
        found.append((value, *torch.autograd.grad(value, scale)))
    for ours, plain in zip(found[1], found[0], strict=True):
        assert_close(ours, plain)
    weights = uneven(20)
    torch.manual_seed(0)
    compiled_value = torch.compile(
        lambda x: loss(x, y, x_weights=weights), fullgraph=True, backend=backend
    )(x)
    torch.manual_seed(0)
    assert_close(compiled_value, loss(x, y, x_weights=weights))


def own_slices(problem, rng):
    return torch.eye(3, dtype=torch.float64)


def test_weightings_of_a_callers_own_are_differentiated():
    """They may look at samples and have parameters: only autograd knows."""
    x, y = samples()
    sharpness = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))

    def weighting(costs, slices, problem):
        return torch.softmax(sharpness * (problem.x.mean(dim=0) @ slices.mT), -1)

    loss = sw.SlicedWasserstein(sw.Recipe(own_slices, weighting))
    assert torch.autograd.gradcheck(lambda one: loss(one, y), x.clone().requires_grad_())
    loss(x.requires_grad_(), y).backward()
    assert sharpness.grad.abs() > 0


@pytest.mark.filterwarnings("ignore")  # about torch's own code, while it compiles ours
def test_a_recipe_that_was_replaced_is_followed_in_compiled_code():
    x, y = samples()
    loss = sw.SlicedWasserstein("sw", n_slices=16)
    loss.recipe = sw.VARIANTS["maxsw"]()
    compiled = torch.compile(loss, backend="aot_eager")
    assert_close(
        compiled(x, y), sw.SlicedWasserstein("maxsw")(x, y), rtol=0.05
    )  # ascents begin anywhere


def test_compiled_under_autocast():
    layer = torch.nn.Linear(3, 3)
    x, y = samples(dtype=torch.float32)
    loss = sw.SlicedWasserstein()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.manual_seed(0)
        expected = loss(layer(x), y)
        torch.manual_seed(0)
        compiled = torch.compile(lambda x: loss(layer(x), y), backend="aot_eager", fullgraph=True)
        assert_close(compiled(x), expected, rtol=1e-2)


def test_several_backward_passes_at_once():
    x, y = samples()
    x.requires_grad_()
    value = sw.SlicedWasserstein()(x, y)
    times = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    (batched,) = torch.autograd.grad(value, x, times, is_grads_batched=True, retain_graph=True)
    (one,) = torch.autograd.grad(value, x)
    assert_close(batched, times[:, None, None] * one)


def test_inside_a_transform_of_something_else():
    x, y = samples()
    x.requires_grad_()
    loss = sw.SlicedWasserstein()
    found = torch.func.grad(lambda scale: scale * loss(x, y))(torch.tensor(1.0).double())
    assert found > 0


def test_inference_with_threads():
    """Threads that help with a product write to what inference mode would bind to this one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x, y = torch.randn(2, 2048, 512)
        with torch.inference_mode():
            assert sw.SlicedWasserstein(n_slices=400)(x, y) >= 0
    finally:
        torch.set_num_threads(before)


def test_modules_that_are_gone_leave_nothing():
    class Slicer:
        def __call__(self, problem, rng):
            return own_slices(problem, rng)

    gone = []
    for _ in range(5):
        slicer = Slicer()
        gone.append(weakref.ref(slicer))
        loss = sw.SlicedWasserstein(sw.Recipe(slicer))
        graded(loss, *samples())
    del slicer, loss
    request._kept_ask.cache_clear()
    gc.collect()
    assert [reference() for reference in gone] == [None] * 5


@pytest.mark.parametrize("variant", ["sw", "dsw"])
@pytest.mark.parametrize("wrong", ["weights", "list", "batch", "line"])
def test_mistakes_of_later_calls_are_named(variant, wrong):
    x, y = samples(2)
    loss = sw.SlicedWasserstein(variant)
    graded(loss, x, y)
    calls = {
        "weights": lambda: loss(x.requires_grad_(), y, x_weights=uneven(20).numpy()),
        "list": lambda: loss(x.requires_grad_(), y, x_weights=[0.05] * 20),
        "batch": lambda: loss(x.requires_grad_(), y[:1].expand(3, -1, -1)),
        "line": lambda: loss(torch.tensor(1.0, dtype=torch.float64, requires_grad=True), y),
    }
    words = {
        "weights": "x_weights",
        "list": "x_weights",
        "batch": "broadcast|leading",
        "line": "shape",
    }
    with pytest.raises(ValueError, match=words[wrong]):
        calls[wrong]()


def test_settings_of_the_wrong_kind_are_named():
    x, y = samples()
    sw.sliced_wasserstein(x, y, n_slices=3)
    for wrong in ({"n_slices": [10]}, {"n_slices": 3.0}, {"p": [2]}, {"objective": ["root"]}):
        with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
            sw.sliced_wasserstein(x, y, **wrong)
