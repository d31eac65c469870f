"""The gradient that a step of training descends is the loss's own, whatever the variant."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import slicewise as sw
from slicewise.distance.evaluation import weigh
from slicewise.distance.request import draw, recipe_for
from slicewise.flows.slices import learned_of
from slicewise.problem import Learner
from slicewise.problem.schedules import Instant
from slicewise.training.networks import Generator
from slicewise.training.settings import TrainingSettings
from slicewise.training.step import Trainer
from slicewise.training.training import train
from slicewise.variants import VARIANTS

TARGET = torch.randn(60, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64) + 1
CASES = {name: (name, {}) for name in VARIANTS} | {
    f"gsw {function}": ("gsw", {"function": function})
    for function in ("circular", "neural", "linear")
}


def ready(name, options, scale, objective):
    recipe = recipe_for(name, None, options)
    settings = TrainingSettings(recipe, batch=24, max_steps=10, scale=scale, objective=objective)
    network = Generator(4, noise=3, hidden=(8,), generator=0).double()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    return Trainer(network, TARGET, 3, settings, optimizer, torch.tensor([0]))


@pytest.mark.parametrize(
    ("scale", "objective"),
    [("classic", "power"), ("classic", "root"), ("displacement", "power")],
)
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_of_a_step_is_that_of_the_loss(case, scale, objective):
    name, options = CASES[case]
    if scale == "displacement" and recipe_for(name, None, options).lift is not None:
        with pytest.raises(ValueError, match=r"scale='displacement' with .* not linear .* 'sw'"):
            ready(name, options, scale, objective)
        return
    trainer = ready(name, options, scale, objective)
    for t in range(3):  # what is learned is handed on from step to step
        given, real = trainer.batches.select(trainer.batches.draw(t), 0)
        made = trainer.network(given).detach()
        live, moment = made[None].clone().requires_grad_(), Instant(t, 10)
        there = replace(
            trainer._problem, x=made[None], y=real[None], moment=moment, progress=t / 10
        )
        before = learned_of(trainer.slicer_state)
        _, slices, learned = draw(trainer.settings.recipe, there, trainer.seeds.at(t), before)
        problem = trainer._problem_of(made, real, t, moment)
        value, gradient, _ = trainer._loss_and_gradient(problem, t, None)

        loss = sw.SlicedWasserstein(trainer.settings.recipe, scale=scale, objective=objective)
        if isinstance(loss.recipe.lift, Learner):  # it draws while it learns, as the step did
            whole = draw(loss.recipe, replace(there, x=live), trainer.seeds.at(t), before)[0]
            expected = weigh(loss.recipe, whole, slices, loss.objective)[0].squeeze()
        else:
            expected = loss(live, real[None], slices=slices)
        expected.backward()
        assert torch.allclose(value.squeeze(), expected, rtol=1e-9)
        assert torch.allclose(gradient, live.grad[0], rtol=1e-7, atol=1e-10)
        for key, tensor in (learned or {}).items():
            assert torch.allclose(trainer.slicer_state[f"slicer_{key}"], tensor)
            assert not trainer.slicer_state[f"slicer_{key}"].requires_grad


@pytest.mark.parametrize("case", ["gsw", "gsw circular", "gsw neural", "asw", "momentsw", "lcvsw"])
def test_variants_that_autograd_differentiates_learn(case):
    name, options = CASES[case]
    network = Generator(4, noise=3, hidden=(16,), generator=0).double()
    how = {"optimizer": "adam", "lr": 0.01, "max_steps": 60, "batch": 24, "progress_bar": False}
    found = train(network, TARGET, name, scale="classic", **how, **options)
    assert found.status == "out of steps"
    assert found.losses[-10:].mean() < 0.7 * found.losses[:3].mean()


@pytest.mark.parametrize("case", CASES)
def test_no_variant_depends_on_the_number_of_steps_by_itself(case):
    name, options = CASES[case]
    assert not TrainingSettings(recipe_for(name, None, options)).depends_on_max_steps
