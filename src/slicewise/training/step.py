"""A network, its data and its optimiser, and one step of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from slicewise.distance import differentiated, priced, problem_for, valued
from slicewise.flows import (
    PredrawnSlices,
    StepSlices,
    as_run_state,
    initial_state,
    predraw_slices,
    prepare_step,
    slices_for_step,
)
from slicewise.parts import State
from slicewise.problem import Instant, Moment, Problem
from slicewise.sampling import RunSeeds
from slicewise.steps import moved
from slicewise.support import check_samples, full_precision
from slicewise.training.data import Batches, Drawn
from slicewise.training.networks import Stack
from slicewise.training.optimizers import StackedOptimiser, clip
from slicewise.training.settings import Settings
from slicewise.transport import project, sorted_lines

# No more of the target is laid out ahead, in bytes.
_MOST = 2**30


class Trainer:
    """Makes steps, one after another; `done` is how many there were.

    The gradient of the loss in the samples is mostly known in closed form; autograd carries it through the network
    alone. Recipes that lift samples, or weigh slices by them, need it for the loss as well.
    """

    def __init__(
        self,
        network: nn.Module,
        target: Tensor,
        source: Tensor | int,
        settings: Settings,
        optimiser: torch.optim.Optimizer,
        seeds: Tensor,
        backend: str = "auto",
    ) -> None:
        self.network, self.settings, self.optimiser = network, settings, optimiser
        self.stacked = isinstance(network, Stack)
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.batches = Batches(target, source, settings.batch, seeds, single=not self.stacked)
        self.seeds = RunSeeds(seeds, target.device)
        # As they were given; what the optimiser has follows the decay.
        given = [group["lr"] for group in optimiser.param_groups]
        self.rates = [rate.clone() if isinstance(rate, Tensor) else rate for rate in given]
        self.averaged: list[Tensor] | None = None
        if settings.ema is not None:
            self.averaged = [p.detach().clone() for p in self.parameters]
        self.done = 0
        self.slicer: State = {}
        self._problem = self._first_problem(backend)

    def _first_problem(self, backend: str) -> Problem:
        """A checked problem of the right sizes, to be filled anew at every step."""
        settings = self.settings
        given, real = self.batches.at(self.batches.draw(0), 0)
        modes = [(module, module.training) for module in self.network.modules()]
        with torch.no_grad():
            self.network.eval()  # a look must not move what a network remembers of its batches
            try:
                made = self._made(given).to(real.dtype)
            finally:
                for module, mode in modes:  # each its own: some may be frozen
                    module.training = mode
        if made.dim() != real.dim() or made.shape != real.shape:
            raise ValueError(
                f"the network makes samples of shape {tuple(made.shape)} of {tuple(given.shape)}, the target's are "
                f"{tuple(real.shape)}: they must agree"
            )
        check_samples(made, real)
        x, y = (made, real) if self.stacked else (made.unsqueeze(0), real.unsqueeze(0))
        problem = problem_for(x, y, 2.0, None, None, settings.recipe.convention, 0.0, backend)
        self.slicer = initial_state(settings.recipe, problem, self.seeds, 0)
        return problem

    def step(self) -> Tensor:
        """The next step: its loss, (R,), before it was made."""
        total = max(self.settings.steps, self.done + 1)
        return self.make(self.done, Instant(self.done, total), self.batches.draw(self.done), 0)

    def foresee(self, drawn: Drawn, steps: Tensor) -> PredrawnSlices | None:
        """Slices that are drawn blindly, and the target's batches in order along them, for consecutive steps."""
        seeds, d = self.batches.seeds, self.batches.target.shape[-1]
        if drawn.target.numel() * d * self.precision.itemsize > _MOST:
            return None
        found = predraw_slices(self.settings.recipe, self._problem, seeds, steps, order_y=False)
        if found is None:
            return None
        rows = self.batches.target[drawn.target].to(found.slices.dtype)  # (S, D, B, d)
        with full_precision(rows.device.type):
            y_sorted = sorted_lines(project(rows, found.slices))
        return PredrawnSlices(found.slices, y_sorted, self.seeds.which)

    def make(
        self,
        t: int | Tensor,
        moment: Moment,
        drawn: Drawn,
        index: int,
        foresight: PredrawnSlices | None = None,
    ) -> Tensor:
        """Step t, on one of the batches drawn, with what was foreseen of it."""
        given, real = self.batches.at(drawn, index)
        made = self._made(given)
        ahead = None if foresight is None else foresight.at(index)
        value, gradient = self._price(made.detach(), real, t, moment, ahead)
        found = torch.autograd.grad(
            made, self.parameters, gradient.to(made.dtype), allow_unused=True
        )
        there = [gradient for gradient in found if gradient is not None]
        if self.settings.clip is not None:
            clip(there, self.settings.clip, stacked=self.stacked)
        for parameter, slope in zip(self.parameters, found, strict=True):
            parameter.grad = slope
        self._move(moment)
        if self.averaged is not None and self.settings.ema is not None:
            with torch.no_grad():
                current = [p.detach() for p in self.parameters]
                torch._foreach_lerp_(self.averaged, current, 1 - self.settings.ema)
        self.done += 1
        return value

    def _made(self, given: Tensor) -> Tensor:
        if self.settings.precision == "bf16":
            # Each weight is used once a step, and a graph must not keep one that was cast before it.
            with torch.autocast(given.device.type, torch.bfloat16, cache_enabled=False):
                return self.network(given)
        return self.network(given)

    @torch.no_grad()
    def _price(
        self,
        made: Tensor,
        real: Tensor,
        t: int | Tensor,
        moment: Moment,
        ahead: StepSlices | None,
    ) -> tuple[Tensor, Tensor]:
        """The loss (R,), and its gradient in the samples, of their shape."""
        recipe = self.settings.recipe
        x, y = (made, real) if self.stacked else (made.unsqueeze(0), real.unsqueeze(0))
        progress = t / moment.total if isinstance(t, int) else self._problem.progress
        problem = dataclasses.replace(
            self._problem,
            x=x.to(self._problem.x.dtype).contiguous(),
            y=y.to(self._problem.y.dtype).contiguous(),
            moment=moment,
            progress=progress,
        )
        classic, objective = self.settings.scale == "classic", self.settings.objective
        with full_precision(made.device.type):
            if classic and not recipe.by_hand:
                value, gradient, found = differentiated(
                    recipe,
                    problem,
                    objective,
                    lambda p: prepare_step(recipe, p, self.seeds, t, self.slicer),
                )
                learned = found.state
            else:
                slices, learned, problem = slices_for_step(
                    recipe, problem, self.seeds, t, self.slicer, ahead
                )
                if classic:
                    value, gradient = priced(recipe, problem, slices, objective)
                else:
                    value, pull = valued(recipe, problem, slices)
                    gradient = moved(pull) * (-1 / problem.n)
        if learned is not None:
            self.slicer = as_run_state(learned)
        return value, gradient if self.stacked else gradient.squeeze(0)

    def _move(self, moment: Moment) -> None:
        """A step of the optimiser, by the rate of this moment."""
        share = 1.0 if self.settings.decay is None else moment.of(self.settings.decay)
        groups = self.optimiser.param_groups
        if isinstance(share, Tensor) and not all(isinstance(g["lr"], Tensor) for g in groups):
            self._move_in_part(share)
            return
        if self.settings.decay is not None:
            for group, rate in zip(groups, self.rates, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].copy_(rate * share)
                else:
                    group["lr"] = rate * share
        self.optimiser.step()

    @torch.no_grad()
    def _move_in_part(self, share: Tensor) -> None:
        """A whole step, of which a share is kept: for optimisers whose moves are in proportion to their rate, and that
        ask the host for it, which is not there when a graph is replayed."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate
        before = [parameter.clone() for parameter in self.parameters]
        self.optimiser.step()
        for parameter, old in zip(self.parameters, before, strict=True):
            parameter.copy_(torch.lerp(old, parameter, share.to(old.dtype)))

    def forget_gradients(self) -> None:
        """Leave none behind: they may lie in the memory of a graph that is gone."""
        self.optimiser.zero_grad(set_to_none=True)

    @property
    def precision(self) -> torch.dtype:
        """That of the loss."""
        return self._problem.x.dtype

    @property
    def alive(self) -> Tensor | None:
        """Which networks of a stack have not diverged, (R,)."""
        return self.optimiser.alive if isinstance(self.optimiser, StackedOptimiser) else None


@torch.no_grad()
def with_weights(network: nn.Module, weights: Iterable[Tensor]) -> None:
    """Put weights into the parameters of a network that are trained, in their order."""
    there = [p for p in network.parameters() if p.requires_grad]
    for parameter, weight in zip(there, weights, strict=True):
        parameter.copy_(weight)
