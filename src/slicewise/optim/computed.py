"""An optimizer without a learning rate: the length of every step is computed from the loss."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from slicewise.distance import Tape, playing, recording
from slicewise.optim.ranks import (
    FailedElsewhereError,
    Together,
    check_known,
    checked_group,
    is_sharded,
    local,
)
from slicewise.optim.trial import Modules, Randomness, measured_curvature, untouched
from slicewise.optim.walker import Walker, half_decay
from slicewise.support import check_choice, check_count, check_number

if TYPE_CHECKING:
    from torch.amp import GradScaler
    from torch.distributed import ProcessGroup

_log = logging.getLogger("slicewise")
Direction = Literal["adam", "momentum", "gradient"]
Derivatives = Literal["auto", "forward", "difference"]
Closure = Callable[[], Tensor]


class Computed(torch.optim.Optimizer):
    """Train without a learning rate: follow a direction by a length that is computed from the loss.

    Use it in place of `torch.optim.Adam` where a sliced-Wasserstein loss is minimized, alone or beside other terms. The
    loss is given as a closure that computes it for the batch at hand; the optimizer differentiates it, measures now and
    then by one more forward pass how the loss curves along the direction, and steps. Nothing depends on the scale of
    the data, of the loss or of the weights. docs/networks.md derives the rule and shows where it was measured.

    The closure must compute the same loss each time it is called for a batch: draw batches outside of it. Dropout draws
    the same masses again, and running statistics (BatchNorm) are updated once.

    Args:
        params: Parameters, or parameter groups. A group may have `factor` (default 1.0): how much further its
            parameters move than others.
        direction: "adam" (the default), "momentum" or "gradient".
        total_steps: Number of steps of the training, if it is known: the second half then shrinks to nothing, which
            removes the noise of the batches. None averages the weights instead, see `averaged`.
        derivatives: How the curvature is measured: "forward" (forward-mode differentiation), "difference" (values
            alone; for networks without forward derivatives, such as LSTMs), or "auto": forward, and differences once
            that has failed.
        max_norm: Largest norm of the gradient that the direction is made of, or None. The length is still computed
            from the whole gradient.
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
        >>> losses = []
        >>> for _ in range(50):
        ...     z = torch.randn(64, 2)
        ...     losses.append(optimizer.step(lambda: loss(model(z), y)).item())
        >>> losses[-1] < losses[0] / 2
        True
    """

    def __init__(
        self,
        params: Iterable[Any],
        direction: Direction = "adam",
        *,
        total_steps: int | None = None,
        derivatives: Derivatives = "auto",
        max_norm: float | None = None,
        group: ProcessGroup | Literal[False] | None = None,
    ) -> None:
        check_choice("derivatives", derivatives, ("auto", "forward", "difference"))
        check_count("total_steps", total_steps)
        if max_norm is not None:
            check_number("max_norm", max_norm, above=0)
        super().__init__(params, {"factor": 1.0})
        for one in self.param_groups:
            check_number("factor", one["factor"], above=0, or_equal=True)
        self.total_steps, self.max_norm = total_steps, max_norm
        self._forward = derivatives != "difference"
        self._may_fall_back = derivatives == "auto"
        self.parameters = [p for one in self.param_groups for p in one["params"] if p.requires_grad]
        if not self.parameters:
            raise ValueError(
                "params has nothing that requires a gradient: give a network's parameters"
            )
        self.group = checked_group(group, self.parameters)
        self._together = Together(self.group)
        self._is_sharded = any(is_sharded(p) for p in self.parameters)
        if self._is_sharded:
            self._forward = False  # shards are gathered by hooks that know nothing of tangents
        self.walker = Walker(self.parameters, direction, bounded=total_steps is not None)
        self.n_steps = 0
        self._passes: list[_Pass] = []
        self._norm: Tensor | None = None
        self._modules = Modules()  # that were called when the curvature was measured last

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, before the first step only."""
        if hasattr(self, "walker"):
            raise ValueError(
                "a group of parameters is added to a training that has begun: make a new optimizer"
            )
        super().add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget gradients, and with them the losses that they belong to."""
        super().zero_grad(set_to_none)
        self._passes = []

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """Make one step.

        Args:
            closure: Computes and returns the loss, a scalar, without calling `backward`. None if `backward` was called
                before, once or several times.

        Returns:
            The loss before the step, of this process; of several closures, their sum.

        Raises:
            ValueError: If there is no loss to step on, it is no scalar, or no parameter has a gradient.
        """
        if closure is not None:
            self.zero_grad()
            self.backward(closure)
            self._norm = None  # nobody had a chance to clip
        if not self._passes:
            raise ValueError(
                "step() without a loss: give a closure, optimizer.step(lambda: loss(model(z), y)), or call "
                "optimizer.backward(closure) before"
            )
        if all(p.grad is None for p in self.parameters):
            raise ValueError(
                "no parameter of this optimizer has a gradient: make the optimizer after the network has its final "
                "parameters (fully_shard replaces them), and call zero_grad() before backward, not after"
            )
        gradients = [
            local(torch.zeros_like(p) if p.grad is None else p.grad) for p in self.parameters
        ]
        factors = [
            one["factor"] for one in self.param_groups for p in one["params"] if p.requires_grad
        ]
        gradients, steepness = self._clipped(gradients)
        walker = self.walker
        walker.weights = self._weights()
        walker.turn(gradients, factors=factors, steepness=steepness)
        if all(one.tape is not None for one in self._passes):
            trial = walker.trial()
            walker.measure(self._curvature(trial), trial, self.n_steps)
        shrink = 1.0
        if self.total_steps is not None:
            shrink = half_decay(min(1.0, self.n_steps / self.total_steps))
        walker.move(shrink)
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
        made, loss = _Pass.make(closure, self._measures, self.parameters[0].device)
        if self.group is not None and self.n_steps == 0:
            check_known(made.modules.all())
        if scaler is None:
            loss.backward()
        else:
            made.scale = scaler.scale(torch.ones_like(made.value))
            scaler.scale(loss).backward()
        self._passes.append(made)
        self._norm = self._gradient_norm() if scaler is None else None
        return made.value

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
        weights, average = self._weights(), self.walker.state["average"]
        kept = [w.clone() for w in weights]
        self._modules.reshard()
        with torch.no_grad():
            torch._foreach_copy_(weights, average)
        try:
            with self._modules.watched() if self._is_sharded else nullcontext():
                yield
        finally:
            self._modules.reshard()
            with torch.no_grad():
                torch._foreach_copy_(weights, kept)

    @property
    def length(self) -> Tensor:
        """The length of the last step: by how much the direction was multiplied."""
        return self.walker.length

    @property
    def signal(self) -> Tensor:
        """The part of the slope that is not noise of the batch, as estimated: between 0 and 1."""
        return self.walker.signal

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, but the parameters; where they are sharded, the shards of this rank."""
        state = {name: list(tensors) for name, tensors in self.walker.state.items()}
        walker = {"tensors": state, "numbers": self.walker.numbers, "n_steps": self.n_steps}
        return {**super().state_dict(), "walker": walker}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave.

        Raises:
            ValueError: If it belongs to another optimizer or another network.
        """
        walker = state_dict.get("walker")
        if walker is None or set(walker["tensors"]) != set(self.walker.state):
            raise ValueError(
                "this state belongs to another optimizer, or to one with another direction or total_steps: load it "
                "into one that was made with the same arguments"
            )
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "walker"})
        with torch.no_grad():
            for name, tensors in walker["tensors"].items():
                for mine, given in zip(self.walker.state[name], tensors, strict=True):
                    mine.copy_(given)
            self.walker.numbers.copy_(walker["numbers"])
        self.n_steps = walker["n_steps"]

    @property
    def _measures(self) -> bool:
        return Walker.measures_at(self.n_steps)

    def _gradient_norm(self) -> Tensor:
        return self.walker.norm([p.grad for p in self.parameters])

    def _weights(self) -> list[Tensor]:
        """The parameters of now, which share their memory: a network may have been moved or sharded anew."""
        return [local(p.detach()) for p in self.parameters]

    def _clipped(self, gradients: list[Tensor]) -> tuple[list[Tensor], Tensor | float]:
        """Gradients of the largest norm allowed, and by how much those of the loss are longer."""
        steepness: Tensor | float = 1.0
        if self._norm is not None:
            now = self._gradient_norm()
            steepness = torch.where(now > 0, self._norm / torch.where(now > 0, now, 1), 1.0)
        if self.max_norm is not None:
            norm = self.walker.inner(gradients, gradients).sqrt()
            factor = (self.max_norm / norm.clamp(min=1e-30)).clamp(max=1)
            gradients = [g * factor.to(g.dtype) for g in gradients]
            steepness = steepness / factor
        return gradients, steepness

    def _curvature(self, trial: Tensor) -> Tensor:
        if self._is_sharded:
            self._modules = Modules()
            for one in self._passes:
                self._modules.add(one.modules)
        if self._forward and all(one.can_be_held for one in self._passes):
            try:
                return self._measured_forward(trial)
            except RuntimeError as missing:  # a NotImplementedError is one, too
                if not self._may_fall_back:
                    raise
                self._forward = False
                reason = str(missing).partition("\n")[0]
                _log.warning(
                    "no forward derivatives of this network (%s): the curvature is measured by differences",
                    reason,
                )
        return self._measured(trial, self._together.mean, forward=False)

    def _measured_forward(self, trial: Tensor) -> Tensor:
        """The curvature by forward derivatives; where one process has none, all of them fail alike."""
        have_met = False

        def mean(numbers: Tensor) -> Tensor:
            nonlocal have_met
            have_met = True
            return self._together.mean_or_failure(numbers, trial.device)

        try:
            return self._measured(trial, mean, forward=True)
        except RuntimeError:
            if self.group is not None and not have_met:
                with suppress(FailedElsewhereError):  # which is here
                    self._together.mean_or_failure(None, trial.device)
            raise

    def _measured(
        self, trial: Tensor, mean: Callable[[Tensor], Tensor], *, forward: bool
    ) -> Tensor:
        before = torch.stack([one.value for one in self._passes]).sum()

        def evaluate() -> tuple[Tensor, Tensor | None]:
            losses, held = zip(*(one.again() for one in self._passes), strict=True)
            known = [curvature for curvature in held if curvature is not None]
            return torch.stack(losses).sum(), torch.stack(known).sum() if known else None

        given = (self.walker, self.parameters, evaluate, before, trial)
        if not self._is_sharded:
            return measured_curvature(*given, forward=forward, mean=mean)
        self._modules.reshard()
        try:
            return measured_curvature(*given, forward=forward, mean=mean)
        finally:
            self._modules.reshard()


class _Pass:
    """One closure that was computed, and all it takes to compute it again."""

    def __init__(self, closure: Closure, loss: Tensor) -> None:
        self._closure = closure
        self.value = loss.detach()
        self.scale: Tensor | float = 1.0  # by which gradients, and curvatures, are too large
        self.tape: Tape | None = None
        self.modules = Modules()
        self._randomness: Randomness | None = None

    @classmethod
    def make(cls, closure: Closure, measures: bool, device: torch.device) -> tuple[_Pass, Tensor]:
        """Compute the closure; if it is to be computed again, note what it draws and which losses it computes."""
        if not measures:
            with torch.enable_grad():
                loss = _scalar(closure())
            return cls(closure, loss), loss
        randomness, modules = Randomness(device), Modules()
        with torch.enable_grad(), recording() as tape, modules.watched():
            loss = _scalar(closure())
        made = cls(closure, loss)
        made.tape, made.modules, made._randomness = tape, modules, randomness
        return made, loss

    @property
    def can_be_held(self) -> bool:
        return self.tape is not None and self.tape.can_be_held

    def again(self) -> tuple[Tensor, Tensor | None]:
        """The loss at the weights of now, slices and plans held, and how it curves; all else stays as it is."""
        assert self.tape is not None
        assert self._randomness is not None
        with self._randomness.again(), untouched(self.modules.all()), playing(self.tape):
            loss = self._closure()
        curvature = self.tape.curvature
        return loss, None if curvature is None else curvature / self.scale


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
