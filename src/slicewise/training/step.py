"""A network, its data and its optimizer, and one step of training."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slicewise.distance import (
    differentiated,
    held_for,
    held_weights,
    priced,
    problem_for,
    valued,
    weigh,
)
from slicewise.flows import (
    PredrawnSlices,
    StepSlices,
    as_run_state,
    initial_state,
    predraw_slices,
    prepare_step,
    slices_for_step,
)
from slicewise.optim import (
    Ahead,
    Compared,
    Derivatives,
    Measured,
    Randomness,
    Walker,
    calibrate,
    lent_copies,
    measured_curvature,
    untouched,
)
from slicewise.problem import Instant, Moment, Problem, State
from slicewise.sampling import RunSeeds
from slicewise.steps import held_loss, moved
from slicewise.support import check_samples, full_precision
from slicewise.training.data import Minibatches, StepDraws
from slicewise.training.networks import Stack
from slicewise.training.optimizers import (
    ComputedOptimizer,
    StackedOptimizer,
    clip,
    largest_weight,
)
from slicewise.training.settings import TrainingSettings
from slicewise.transport import project, sorted_lines

# No more bytes of the target than this are gathered and sorted ahead of a graph of steps.
_MAX_BYTES_AHEAD = 2**30
# Rows by which outputs are calibrated, in whole batches, of which there are at most so many.
_ROWS_CALIBRATED, _MOST_DRAWS = 1024, 32


class _Found(NamedTuple):
    """What the loss of a step was computed from."""

    slices: Tensor
    value: Tensor  # (R,)
    gradient: Tensor  # (R, B, d)


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
        self.walker: Walker | None = None  # makes the steps, if their lengths are computed
        if isinstance(optimizer, ComputedOptimizer):
            self.walker = optimizer.walker
        self.largest_weight = largest_weight(target)
        self._derivatives = Derivatives(forward=settings.recipe.lift is None)
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
        if self.walker is not None and self.n_steps == 0:
            self._begin(self.walker)
        total = max(self.settings.max_steps, self.n_steps + 1)
        moment = Instant(self.n_steps, total)
        return self.take_step(self.n_steps, moment, self.batches.draw(self.n_steps), 0)

    def _begin(self, walker: Walker) -> None:
        """Before the first step: let outputs have the scale of the target, and take sizes of weights."""
        some = range(min(_MOST_DRAWS, -(-_ROWS_CALIBRATED // self.settings.batch)))
        pairs = [self.batches.select(self.batches.draw(t), 0) for t in some]
        given, real = (torch.cat(rows, dim=-2) for rows in zip(*pairs, strict=True))
        randomness = Randomness(given.device)

        def evaluate() -> list[Compared]:
            with randomness.again(), lent_copies(self.network.modules()):
                return [Compared(self._forward(given), real)]

        walker.begin(calibrate(evaluate, self.parameters, stacked=self.stacked))
        if self.ema_weights is not None:
            self.ema_weights = [p.detach().clone() for p in self.parameters]

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
        ahead = None if slices is None else slices.at(index)
        known = self.slicer_state
        # Within a graph, which begins at a step that measures, only the place of a step is known.
        place = t if isinstance(t, int) else Walker.LATER + index
        measures = self.walker is not None and Walker.measures_at(place)
        randomness = Randomness(given.device) if measures and isinstance(t, int) else None
        made = self._forward(given)
        problem = self._problem_of(made.detach(), real, t, moment)
        value, gradient, found = self._loss_and_gradient(problem, t, ahead)
        slopes = torch.autograd.grad(
            made, self.parameters, gradient.to(made.dtype), allow_unused=True
        )
        there = [gradient for gradient in slopes if gradient is not None]
        factor: Tensor | float = 1.0
        if self.settings.clip is not None:
            factor = clip(there, self.settings.clip, stacked=self.stacked)
        if self.walker is not None:
            self._turn(self.walker, slopes, place, 1 / factor)
            decay = self.settings.decay
            shrink = 1.0 if decay is None else moment.of(decay)
            if measures:
                with contextlib.ExitStack() as same:
                    same.enter_context(untouched(self.network.modules()))
                    if randomness is not None:
                        same.enter_context(randomness.again())

                    def again() -> Ahead:
                        return self._loss_again(self._forward(given), problem, found, t, known)

                    self._measure(self.walker, again, value, t, shrink)
            self.walker.move(place, shrink)
        else:
            for parameter, slope in zip(self.parameters, slopes, strict=True):
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

    def _problem_of(self, made: Tensor, real: Tensor, t: int | Tensor, moment: Moment) -> Problem:
        """The samples of a step, compared."""
        x, y = (made, real) if self.stacked else (made.unsqueeze(0), real.unsqueeze(0))
        progress = t / moment.total if isinstance(t, int) else self._problem.progress
        return dataclasses.replace(
            self._problem,
            x=x.to(self._problem.x.dtype).contiguous(),
            y=y.to(self._problem.y.dtype).contiguous(),
            moment=moment,
            progress=progress,
        )

    @torch.no_grad()
    def _loss_and_gradient(
        self, problem: Problem, t: int | Tensor, ahead: StepSlices | None
    ) -> tuple[Tensor, Tensor, _Found]:
        """The loss (R,), its gradient in the samples, of the shape of the network's outputs, and how it was found."""
        recipe = self.settings.recipe
        classic, objective = self.settings.scale == "classic", self.settings.objective
        with full_precision(problem.x.device.type):
            if classic and not recipe.closed_form_gradient:
                value, gradient, ready = differentiated(
                    recipe,
                    problem,
                    objective,
                    lambda p: prepare_step(recipe, p, self.seeds, t, self.slicer_state),
                )
                slices, learned = ready.slices, ready.state
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
        found = _Found(slices, value, gradient)
        return value, gradient if self.stacked else gradient.squeeze(0), found

    @torch.no_grad()
    def _loss_again(
        self,
        made: Tensor,
        problem: Problem,
        found: _Found,
        t: int | Tensor,
        known: State,
    ) -> Ahead:
        """The loss of other samples with slices and plans held, and how it curves; (R,), or () of one network."""
        settings, recipe = self.settings, self.settings.recipe
        x = (made if self.stacked else made.unsqueeze(0)).to(problem.x.dtype)
        with full_precision(problem.x.device.type):
            if recipe.lift is not None:
                other = dataclasses.replace(problem, x=x)
                ready = prepare_step(recipe, other, self.seeds, t, known)
                value = weigh(recipe, ready.problem, ready.slices, settings.objective)[0]
                others: tuple[Tensor | None, ...] = (None, None)
            else:
                if settings.scale == "displacement":
                    held = held_for(
                        recipe, problem, found.slices, settings.objective, displaced=True
                    )
                else:
                    weights = held_weights(recipe, problem, found.slices, settings.objective)
                    held = held_loss(
                        problem,
                        found.slices,
                        weights,
                        found.value,
                        found.gradient,
                        sought=recipe.seeks_slices,
                    )
                value, *rest = held.ahead(x)
                others = tuple(rest)
        if self.stacked:
            return Ahead(value, *others)
        return Ahead(value.squeeze(0), *(None if one is None else one.squeeze(0) for one in others))

    def _turn(
        self,
        walker: Walker,
        slopes: Sequence[Tensor | None],
        place: int,
        steepness: Tensor | float,
    ) -> None:
        """Give the walker new gradients."""
        pairs = zip(self.parameters, slopes, strict=True)
        gradients = [torch.zeros_like(p) if slope is None else slope for p, slope in pairs]
        if self.stacked:
            gradients = [torch.cat([g.flatten(1) for g in gradients], dim=1)]
        walker.turn(gradients, place, steepness=steepness)

    @torch.no_grad()
    def _measure(
        self,
        walker: Walker,
        again: Callable[[], Ahead],
        value: Tensor,
        t: int | Tensor,
        shrink: float | Tensor,
    ) -> None:
        """Measure how the loss curves along the walker's direction."""
        trial = walker.trial(shrink)
        before = value if self.stacked else value.squeeze(0)
        given = (walker, self.parameters, again, before, trial)

        def measure(forward: bool) -> Measured:
            return measured_curvature(*given, forward=forward)

        walker.measure(self._derivatives.measured(measure, tried_twice=isinstance(t, int)), trial)

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
        ours = isinstance(self.optimizer, (ComputedOptimizer, StackedOptimizer))
        return self.optimizer.alive if ours else None  # type: ignore[attr-defined]


@torch.no_grad()
def set_weights(network: nn.Module, weights: Iterable[Tensor]) -> None:
    """Copy weights into the trainable parameters of a network, in their order."""
    trainable = [p for p in network.parameters() if p.requires_grad]
    for parameter, weight in zip(trainable, weights, strict=True):
        parameter.copy_(weight)
