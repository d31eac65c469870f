"""A network, its data and its optimizer, and one step of training."""

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
from slicewise.problem import Instant, Moment, Problem, State
from slicewise.sampling import RunSeeds
from slicewise.steps import moved
from slicewise.support import check_samples, full_precision
from slicewise.training.data import Minibatches, StepDraws
from slicewise.training.networks import Stack
from slicewise.training.optimizers import StackedOptimizer, clip
from slicewise.training.settings import TrainingSettings
from slicewise.transport import project, sorted_lines

# No more bytes of the target than this are gathered and sorted ahead of a graph of steps.
_MAX_BYTES_AHEAD = 2**30


class Trainer:
    """Makes the steps of one training, one after another; `n_steps` is how many were made.

    The gradient of the loss in the samples is mostly known in closed form, and autograd only carries it through the
    network. For recipes that lift samples, or weigh slices by them, autograd differentiates the loss as well.
    """

    def __init__(
        self,
        network: nn.Module,
        target: Tensor,
        source: Tensor | int,
        settings: TrainingSettings,
        optimizer: torch.optim.Optimizer,
        seeds: Tensor,
        backend: str = "auto",
    ) -> None:
        self.network, self.settings, self.optimizer = network, settings, optimizer
        self.stacked = isinstance(network, Stack)
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.batches = Minibatches(target, source, settings.batch, seeds, single=not self.stacked)
        self.seeds = RunSeeds(seeds, target.device)
        # The rates before any decay, which changes those that the optimizer holds.
        given = [group["lr"] for group in optimizer.param_groups]
        self._rates = [rate.clone() if isinstance(rate, Tensor) else rate for rate in given]
        self.ema_weights: list[Tensor] | None = None
        if settings.ema is not None:
            self.ema_weights = [p.detach().clone() for p in self.parameters]
        self.n_steps = 0
        self.slicer_state: State = {}
        self._problem = self._first_problem(backend)

    def _first_problem(self, backend: str) -> Problem:
        """A checked problem of the right sizes, whose samples every step replaces."""
        settings = self.settings
        given, real = self.batches.select(self.batches.draw(0), 0)
        modes = [(module, module.training) for module in self.network.modules()]
        with torch.no_grad():
            self.network.eval()  # this call must not change running statistics
            try:
                made = self._forward(given).to(real.dtype)
            finally:
                for module, mode in modes:  # one by one: some may be frozen
                    module.training = mode
        if made.dim() != real.dim() or made.shape != real.shape:
            raise ValueError(
                f"the network makes samples of shape {tuple(made.shape)} of {tuple(given.shape)}, the target's are "
                f"{tuple(real.shape)}: they must agree"
            )
        check_samples(made, real)
        x, y = (made, real) if self.stacked else (made.unsqueeze(0), real.unsqueeze(0))
        problem = problem_for(x, y, 2.0, None, None, settings.recipe.convention, 0.0, backend)
        self.slicer_state = initial_state(settings.recipe, problem, self.seeds, 0)
        return problem

    def step(self) -> Tensor:
        """Make the next step; return the loss (R,) before it."""
        total = max(self.settings.max_steps, self.n_steps + 1)
        moment = Instant(self.n_steps, total)
        return self.take_step(self.n_steps, moment, self.batches.draw(self.n_steps), 0)

    def slices_ahead(self, draws: StepDraws, steps: Tensor) -> PredrawnSlices | None:
        """Slices of consecutive steps that depend on no samples, and the target's batches sorted along them."""
        seeds, d = self.batches.seeds, self.batches.target.shape[-1]
        if draws.target.numel() * d * self.loss_dtype.itemsize > _MAX_BYTES_AHEAD:
            return None
        found = predraw_slices(self.settings.recipe, self._problem, seeds, steps, order_y=False)
        if found is None:
            return None
        rows = self.batches.target[draws.target].to(found.slices.dtype)  # (S, D, B, d)
        with full_precision(rows.device.type):
            y_sorted = sorted_lines(project(rows, found.slices))
        return PredrawnSlices(found.slices, y_sorted, self.seeds.which)

    def take_step(
        self,
        t: int | Tensor,
        moment: Moment,
        draws: StepDraws,
        index: int,
        slices: PredrawnSlices | None = None,
    ) -> Tensor:
        """Make step t on batch `index` of those drawn, with the slices drawn ahead, if any; return the loss (R,)."""
        given, real = self.batches.select(draws, index)
        made = self._forward(given)
        ahead = None if slices is None else slices.at(index)
        value, gradient = self._loss_and_gradient(made.detach(), real, t, moment, ahead)
        found = torch.autograd.grad(
            made, self.parameters, gradient.to(made.dtype), allow_unused=True
        )
        there = [gradient for gradient in found if gradient is not None]
        if self.settings.clip is not None:
            clip(there, self.settings.clip, stacked=self.stacked)
        for parameter, slope in zip(self.parameters, found, strict=True):
            parameter.grad = slope
        self._optimizer_step(moment)
        if self.ema_weights is not None and self.settings.ema is not None:
            with torch.no_grad():
                current = [p.detach() for p in self.parameters]
                torch._foreach_lerp_(self.ema_weights, current, 1 - self.settings.ema)
        self.n_steps += 1
        return value

    def _forward(self, given: Tensor) -> Tensor:
        if self.settings.precision == "bf16":
            # No cache of cast weights: each is used once per step, and a CUDA graph must not hold an old one.
            with torch.autocast(given.device.type, torch.bfloat16, cache_enabled=False):
                return self.network(given)
        return self.network(given)

    @torch.no_grad()
    def _loss_and_gradient(
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
            if classic and not recipe.closed_form_gradient:
                value, gradient, found = differentiated(
                    recipe,
                    problem,
                    objective,
                    lambda p: prepare_step(recipe, p, self.seeds, t, self.slicer_state),
                )
                learned = found.state
            else:
                slices, learned, problem = slices_for_step(
                    recipe, problem, self.seeds, t, self.slicer_state, ahead
                )
                if classic:
                    value, gradient = priced(recipe, problem, slices, objective)
                else:
                    value, pull = valued(recipe, problem, slices)
                    gradient = moved(pull) * (-1 / problem.n)
        if learned is not None:
            self.slicer_state = as_run_state(learned)
        return value, gradient if self.stacked else gradient.squeeze(0)

    def _optimizer_step(self, moment: Moment) -> None:
        """Make a step of the optimizer, with the decay of this moment."""
        factor = 1.0 if self.settings.decay is None else moment.of(self.settings.decay)
        groups = self.optimizer.param_groups
        if isinstance(factor, Tensor) and not all(isinstance(g["lr"], Tensor) for g in groups):
            self._scaled_optimizer_step(factor)
            return
        if self.settings.decay is not None:
            for group, rate in zip(groups, self._rates, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].copy_(rate * factor)
                else:
                    group["lr"] = rate * factor
        self.optimizer.step()

    @torch.no_grad()
    def _scaled_optimizer_step(self, factor: Tensor) -> None:
        """Make a step at the full rate and keep a fraction of it.

        For optimizers that read their rate on the host, where the decay of a step in a CUDA graph is not known, and
        whose steps are proportional to it.
        """
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate
        before = [parameter.clone() for parameter in self.parameters]
        self.optimizer.step()
        for parameter, old in zip(self.parameters, before, strict=True):
            parameter.copy_(torch.lerp(old, parameter, factor.to(old.dtype)))

    def drop_gradients(self) -> None:
        """Free all gradients: they may lie in the memory of a graph that is gone."""
        self.optimizer.zero_grad(set_to_none=True)

    @property
    def loss_dtype(self) -> torch.dtype:
        """The dtype in which the loss is computed."""
        return self._problem.x.dtype

    @property
    def alive(self) -> Tensor | None:
        """Which networks of a stack have not diverged, (R,); None for one network."""
        return self.optimizer.alive if isinstance(self.optimizer, StackedOptimizer) else None


@torch.no_grad()
def set_weights(network: nn.Module, weights: Iterable[Tensor]) -> None:
    """Copy weights into the trainable parameters of a network, in their order."""
    trainable = [p for p in network.parameters() if p.requires_grad]
    for parameter, weight in zip(trainable, weights, strict=True):
        parameter.copy_(weight)
