"""An optimizer without a learning rate: steps are shares of the weights, and the loss computes how long they may be."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from slicewise.distance import Tape, playing, recording
from slicewise.optim.calibration import Compared, calibrate, reach
from slicewise.optim.ranks import (
    FailedElsewhereError,
    Together,
    check_known,
    checked_group,
    is_sharded,
    local,
    reshard,
)
from slicewise.optim.trial import (
    N_AVERAGED,
    Ahead,
    Derivatives,
    Measured,
    Randomness,
    lent_copies,
    measured_curvature,
    modules_with,
    untouched,
)
from slicewise.optim.walker import Walker
from slicewise.support import check_choice, check_count, check_number

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.distributed import ProcessGroup

_log = logging.getLogger("slicewise")
Direction = Literal["adam", "momentum", "gradient"]
HowDerived = Literal["auto", "forward", "difference"]
Closure = Callable[[], Tensor]
# A scheduler may let steps be 0; the curvature is still measured along some way.
_LEAST_TRIAL = 1e-3


class Computed(torch.optim.Optimizer):
    """Train without a learning rate, whatever the scale of the data and of the loss.

    Use it in place of `torch.optim.Adam` where a sliced-Wasserstein loss is minimized, alone or beside other terms. The
    loss is given as a closure that computes it for the batch at hand. Before the first step the last layer is scaled and
    shifted, so that outputs begin at the mean and the spread of what they are compared with (unless the network is
    compiled, sharded or reached otherwise than by layers, or samples are weighted or a law). Every step changes each
    tensor of weights by at most 3 % of its size, less and less to the end; now and then one more forward pass measures
    how the loss curves along the direction, and no step is longer than that allows. docs/networks.md derives the rule,
    and says where it was measured and where it falls short.

    The closure must compute the same loss each time it is called for a batch: draw batches outside of it. It is called
    a few times before the first step. Dropout draws the same masks again, and running statistics (BatchNorm) are updated
    once.

    Args:
        params: Parameters, or parameter groups. A group may have `factor` (default 1.0): how much further its
            parameters move than others. The first group's `lr` (1.0) multiplies every computed length, for schedulers.
        direction: "adam" (the default), "momentum" or "gradient".
        total_steps: Number of steps of the training, if it is known: steps then shrink in proportion to what is left,
            which removes the noise of the batches. None averages the weights instead, see `averaged`.
        derivatives: How the curvature is measured: "forward" (forward-mode differentiation), "difference" (values
            alone; for networks without forward derivatives, such as LSTMs), or "auto": forward, and differences once
            that has failed.
        max_norm: Largest norm of the gradient that the direction is made of, or None. The length is still computed
            from the whole gradient.
        calibrate_outputs: Whether to scale and shift the layers that make outputs before the first step. An output that
            agrees with what it is compared with stays; give False for a trained network that must not be rescaled.
        group: The processes that train this network together (DDP, FSDP), e.g. `torch.distributed.group.WORLD`; False
            for networks that are trained apart in spite of other processes.

    Raises:
        ValueError: For arguments that are not as described, and if there are several processes and no `group`.

    Example:
        >>> import slicewise as sw
        >>> _ = torch.manual_seed(0)
        >>> model, loss = torch.nn.Linear(2, 8), sw.SlicedWasserstein(n_slices=20)
        >>> optimizer = Computed(model.parameters(), total_steps=50)
        >>> y = 100 * torch.randn(64, 8)  # no rate has to fit this scale
        >>> before = loss(model(torch.randn(64, 2)), y).item()
        >>> for _ in range(50):
        ...     z = torch.randn(64, 2)
        ...     left = optimizer.step(lambda: loss(model(z), y)).item()
        >>> left < before / 2
        True
    """

    def __init__(
        self,
        params: Iterable[Any],
        direction: Direction = "adam",
        *,
        total_steps: int | None = None,
        derivatives: HowDerived = "auto",
        max_norm: float | None = None,
        calibrate_outputs: bool = True,
        group: ProcessGroup | Literal[False] | None = None,
    ) -> None:
        check_choice("derivatives", derivatives, ("auto", "forward", "difference"))
        check_count("total_steps", total_steps)
        if max_norm is not None:
            check_number("max_norm", max_norm, above=0)
        super().__init__(params, {"factor": 1.0, "lr": 1.0})
        for one in self.param_groups:
            check_number("factor", one["factor"], above=0, or_equal=True)
        self.total_steps, self.max_norm = total_steps, max_norm
        self.parameters = [p for one in self.param_groups for p in one["params"] if p.requires_grad]
        if not self.parameters:
            raise ValueError(
                "params has nothing that requires a gradient: give a network's parameters"
            )
        self.group = checked_group(group, self.parameters)
        self._together = Together(self.group)
        self._is_sharded = any(is_sharded(p) for p in self.parameters)
        self._derivatives = Derivatives(
            # Shards are gathered by hooks that know nothing of tangents.
            forward=derivatives != "difference" and not self._is_sharded,
            may_fall_back=derivatives == "auto",
        )
        self.walker = Walker(self.parameters, direction, bounded=total_steps is not None)
        self.n_steps = 0
        self.calibrate, self._has_begun = calibrate_outputs, False
        self._passes: list[_Pass] = []
        self._norm: Tensor | None = None  # of the gradient as `backward` left it
        # The modules of the parameters, once they were looked for.
        self._found: list[nn.Module] | None = None
        self._within_average = False
        self._needs_grad = False  # whether the closure differentiates something itself

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_passes": [], "_found": None}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, and the losses they are of."""
        super().zero_grad(set_to_none)
        self._passes, self._norm = [], None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, before the first step only."""
        if hasattr(self, "walker"):
            raise ValueError(
                "a group of parameters is added to a training that has begun: make a new optimizer"
            )
        super().add_param_group(param_group)

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """Make one step.

        Args:
            closure: Computes and returns the loss, a scalar, without calling `backward`. None if `backward` was called
                before, once or several times.

        Returns:
            The loss before the step, of this process; of several closures, their sum.

        Raises:
            ValueError: If there is no loss to step on, or it is no scalar.
        """
        if self._within_average:
            raise ValueError("a step within averaged(): step on the weights themselves, after it")
        if closure is not None:
            self.zero_grad()
            self._differentiated(closure, None)
        if not self._passes:
            raise ValueError(
                "step() without a loss: give a closure, optimizer.step(lambda: loss(model(z), y)), or call "
                "optimizer.backward(closure) before"
            )
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        # What takes no part in the loss, or was frozen since, does not move.
        pairs = zip(self.parameters, self._factors(), strict=True)
        factors = [0.0 if p.grad is None else factor for p, factor in pairs]
        gradients, steepness = self._clipped(gradients)
        walker = self.walker
        walker.turn(gradients, self.n_steps, factors=factors, steepness=steepness)
        shrink = float(self.param_groups[0]["lr"])
        if self.total_steps is not None:
            shrink *= max(0.0, 1 - self.n_steps / self.total_steps)
        if all(one.tape is not None for one in self._passes):
            if self.n_steps == 0:
                self._check_repeatable()
            trial = walker.trial(max(shrink, _LEAST_TRIAL))
            walker.measure(self._curvature(trial), trial)
        if self.n_steps == self.total_steps:
            _log.warning(
                "all of total_steps = %d are made: further steps move nothing", self.total_steps
            )
        walker.move(self.n_steps, shrink)
        total = torch.stack([one.value for one in self._passes]).sum()
        self.n_steps += 1
        self._passes = []
        return total

    def backward(self, closure: Closure, scaler: GradScaler | None = None) -> Tensor:
        """Compute a loss and add its gradient to those that are there, for a `step()` without a closure.

        Use it to accumulate gradients over several batches, or to do something to them before the step. If they were
        clipped by their norm, the length is still that of the whole gradient.

        Args:
            closure: Computes and returns the loss.
            scaler: Scales the loss for half-precision gradients; call `scaler.unscale_(optimizer)` before the step.

        Returns:
            The loss.
        """
        made = self._differentiated(closure, scaler)
        self._norm = self._gradient_norm() / (1.0 if scaler is None else scaler.get_scale())
        return made.value

    def _begin(self, closure: Closure) -> None:
        """Before the first step: let outputs have the scale of what they are compared with, and take sizes of weights."""
        if not self.calibrate or self._is_sharded:
            self.walker.begin()
            self._has_begun = True
            return
        randomness = Randomness(self.parameters[0].device)

        def rehearsed() -> tuple[Tensor, list[Compared]]:
            same = (randomness.again(), lent_copies(self._modules), recording(rehearsing=True))
            with same[0], same[1], same[2] as tape:
                loss = _scalar(closure())
            given = [(x, y) for x, y in tape.compared if isinstance(y, Tensor)]
            return loss, [Compared(x, y) for x, y in given if not y.requires_grad]

        moves = [i for i, factor in enumerate(self._factors()) if factor]
        movable, mean = [self.parameters[i] for i in moves], self._together.mean
        with _own_backward_named():
            scales = calibrate(lambda: rehearsed()[1], movable, mean=mean)
            factors = reach(lambda: rehearsed()[0], movable, scales, mean=mean)
        self.walker.begin(*({moves[i]: t for i, t in some.items()} for some in (scales, factors)))
        self._has_begun = True

    def _factors(self) -> list[float]:
        """How much further each parameter moves than others."""
        factors = {id(p): one["factor"] for one in self.param_groups for p in one["params"]}
        return [factors[id(p)] for p in self.parameters]

    def _differentiated(self, closure: Closure, scaler: GradScaler | None) -> _Pass:
        if not self._has_begun:
            self._begin(closure)
        made, loss = _Pass.make(closure, self._measures, self.parameters[0].device)
        with _own_backward_named():
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None and made.tape is not None:
            made.tape.loss_scale = scaler.get_scale()
        if all(p.grad is None for p in self.parameters):
            raise ValueError(
                "no parameter of this optimizer has a gradient: give it those of the network that the closure calls, and make "
                "the optimizer after the network has its final ones (fully_shard replaces them)"
            )
        self._passes.append(made)
        return made

    def _check_repeatable(self) -> None:
        """Compute the losses once more, at the same weights: they have to be the same."""
        with torch.no_grad():
            again = self._again().value
        before = torch.stack([one.value for one in self._passes]).sum()
        if bool((again - before).abs() > 0.01 * before.abs()):
            raise ValueError(
                f"the closure returned {before.item():.6g}, and {again.item():.6g} when it was called again at the same "
                f"weights: let it compute the same loss of the same batch each time, with batches and noise drawn outside "
                f"of it, or by torch's global generator"
            )

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Let the parameters be their average over the last steps, for as long as the context lasts.

        Use it to evaluate or to save the network, if no `total_steps` were given. Running statistics are those of the
        last weights; `torch.optim.swa_utils.update_bn` makes them anew.

        Raises:
            ValueError: If `total_steps` was given: the weights need no average then.
        """
        if "average" not in self.walker.state:
            raise ValueError(
                "averaged() with total_steps: lengths shrink to nothing, and nothing is averaged"
            )
        weights = [local(p.detach()) for p in self.parameters]
        average = self.walker.pieces(self.walker.state["average"])
        kept = [w.clone() for w in weights]
        self._within_average = True
        with self._gathered_anew():
            with torch.no_grad():
                torch._foreach_copy_(weights, average)
            try:
                yield
            finally:
                self._within_average = False
                with torch.no_grad():
                    torch._foreach_copy_(weights, kept)

    @property
    def length(self) -> Tensor:
        """The length of the last step: the share of their size that it changed weights by, at most."""
        return self.walker.length

    @property
    def limit(self) -> Tensor:
        """The length that no step exceeds: that of the least loss of a batch along the direction, less if noise rules."""
        return self.walker.limit

    @property
    def signal(self) -> Tensor:
        """The part of the slope that is not noise of the batch, as estimated: between 0 and 1."""
        return self.walker.signal

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, but the parameters."""
        state = {name: list(tensors) for name, tensors in self.walker.state.items()}
        walker = {
            "version": Walker.version,
            "tensors": state,
            "numbers": self.walker.numbers,
            "n_steps": self.n_steps,
        }
        return {**super().state_dict(), "walker": walker}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave.

        Raises:
            ValueError: If it belongs to another optimizer, another network or another version of the rule.
        """
        walker = state_dict.get("walker")
        if walker is None or set(walker["tensors"]) != set(self.walker.state):
            raise ValueError(
                "this state belongs to another optimizer, or to one with another direction or total_steps: load it "
                "into one that was made with the same arguments"
            )
        if walker.get("version") != Walker.version:
            raise ValueError(
                "this state was saved by another version of slicewise, whose step lengths follow another rule: load "
                "the network's weights and begin with a new optimizer"
            )
        for name, tensors in walker["tensors"].items():
            if [t.shape for t in tensors] != [t.shape for t in self.walker.state[name]]:
                raise ValueError(
                    "this state belongs to a network of other shapes: load it into its own"
                )
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "walker"})
        with torch.no_grad():
            for name, tensors in walker["tensors"].items():
                for mine, given in zip(self.walker.state[name], tensors, strict=True):
                    mine.copy_(given)
            self.walker.load(walker["numbers"])
        self.n_steps = walker["n_steps"]
        self._has_begun = self._has_begun or self.n_steps > 0

    @property
    def _modules(self) -> list[nn.Module]:
        """The modules that the parameters belong to."""
        if self._found is None:
            self._found = modules_with(self.parameters)
            if self.group is not None:
                check_known(self._found)
        return self._found

    @contextmanager
    def _gathered_anew(self) -> Iterator[None]:
        """Let FSDP gather weights anew, before and after: nothing else tells it that shards have changed."""
        if not self._is_sharded:
            yield
            return
        reshard(self._modules)
        try:
            yield
        finally:
            reshard(self._modules)

    @property
    def _measures(self) -> bool:
        return Walker.measures_at(self.n_steps)

    def _gradient_norm(self) -> Tensor:
        given = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        gradients = [local(g) for g in given]
        return self.walker.inner(gradients, gradients).sqrt()

    def _clipped(self, gradients: list[Tensor]) -> tuple[list[Tensor], Tensor | float]:
        """Gradients of the largest norm allowed, and by how much those of the loss are longer."""
        steepness: Tensor | float = 1.0
        if self._norm is not None:
            now = self._gradient_norm()
            steepness = torch.where(now > 0, self._norm / torch.where(now > 0, now, 1), 1.0)
        if self.max_norm is not None:
            norm = self.walker.inner(*([local(g) for g in gradients],) * 2).sqrt()
            factor = (self.max_norm / norm.clamp(min=1e-30)).clamp(max=1)
            gradients = [g * factor.to(g.dtype) for g in gradients]
            steepness = steepness / factor
        return gradients, steepness

    def _curvature(self, trial: Tensor) -> Measured:
        def measure(forward: bool) -> Measured:
            if forward:
                return self._measured_forward(trial)
            return self._measured(trial, self._together.mean, forward=False)

        if all(one.can_be_held for one in self._passes):
            return self._derivatives.measured(measure)
        return measure(False)

    def _measured_forward(self, trial: Tensor) -> Measured:
        """Measure by forward derivatives; where one process has none, all of them fail alike."""
        have_met = False

        def mean(numbers: Tensor) -> Tensor:
            nonlocal have_met
            have_met = True
            return self._together.mean_or_failure(numbers, N_AVERAGED, trial.device)

        try:
            return self._measured(trial, mean, forward=True)
        except (RuntimeError, ValueError):
            if self.group is not None and not have_met:
                with contextlib.suppress(FailedElsewhereError):  # which is here
                    self._together.mean_or_failure(None, N_AVERAGED, trial.device)
            raise

    def _measured(
        self, trial: Tensor, mean: Callable[[Tensor], Tensor], *, forward: bool
    ) -> Measured:
        before = torch.stack([one.value for one in self._passes]).sum()
        given = (self.walker, self.parameters, self._again, before, trial)
        with self._gathered_anew():
            return measured_curvature(*given, forward=forward, mean=mean)

    def _again(self) -> Ahead:
        """The losses at the weights of now, slices and plans held."""
        with contextlib.ExitStack() as same:
            same.enter_context(untouched(self._modules))
            if self._needs_grad:
                same.enter_context(torch.enable_grad())
            try:
                found = [one.again() for one in self._passes]
            except RuntimeError as wrong:
                if self._needs_grad or "does not require grad" not in str(wrong):
                    raise
                # The closure differentiates something itself, such as a penalty on gradients.
                self._needs_grad, self._derivatives.forward = True, False
                with torch.enable_grad():
                    found = [one.again() for one in self._passes]
        values, *others = zip(*found, strict=True)
        return Ahead(torch.stack(values).sum(), *map(_sum, others))


class _Pass:
    """One closure that was computed, and all it takes to compute it again."""

    def __init__(self, closure: Closure, loss: Tensor) -> None:
        self._closure = closure
        self.value = loss.detach()
        self.tape: Tape | None = None
        self._randomness: Randomness | None = None

    @classmethod
    def make(cls, closure: Closure, measures: bool, device: torch.device) -> tuple[_Pass, Tensor]:
        """Compute the closure; if it is to be computed again, note what it draws and which losses it computes."""
        if not measures:
            with torch.enable_grad():
                loss = _scalar(closure())
            return cls(closure, loss), loss
        randomness = Randomness(device)
        with torch.enable_grad(), recording() as tape:
            loss = _scalar(closure())
        made = cls(closure, loss)
        made.tape, made._randomness = tape, randomness
        return made, loss

    @property
    def can_be_held(self) -> bool:
        return self.tape is not None and self.tape.can_be_held

    def again(self) -> Ahead:
        """The loss at the weights of now, slices and plans held; generators stay as they are."""
        tape, randomness = self.tape, self._randomness
        assert tape is not None
        assert randomness is not None
        losses = [call.loss for call in tape.calls]
        with randomness.again(), untouched(losses), playing(tape):
            loss = self._closure()
        tape.check_played()
        return Ahead(loss, tape.curvature, tape.expected)


def _sum(some: Sequence[Tensor | None]) -> Tensor | None:
    known = [one for one in some if one is not None]
    return torch.stack(known).sum() if known else None


@contextmanager
def _own_backward_named() -> Iterator[None]:
    """Say what is wrong with a closure that has differentiated its loss already."""
    try:
        yield
    except RuntimeError as wrong:
        if "second time" not in str(wrong):
            raise
        raise ValueError(
            "the closure has called backward itself: let it compute and return the loss alone"
        ) from wrong


def _scalar(loss: object) -> Tensor:
    if not isinstance(loss, Tensor) or loss.dim() != 0:
        got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"the closure returns {got}: let it return the loss, a scalar tensor")
    if not loss.requires_grad:
        raise ValueError(
            "the loss depends on no parameter: let the closure compute it from the network's outputs, with gradients "
            "enabled and without calling backward"
        )
    return loss
