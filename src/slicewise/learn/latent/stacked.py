"""Steps of many networks at once, each by its own rate and kind; one that diverges stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.checks import check_choice

KINDS = ("sgd", "momentum", "adam")
# A weight beyond this is none that anything was learned with.
_LARGEST = 1e3
_MOMENTUM, _EARLY, _LATE, _LEAST = 0.9, 0.9, 0.999, 1e-8


class StackedOptimiser(torch.optim.Optimizer):
    """Plain, momentum or Adam steps of parameters (R, ...): those of torch, run by run.

    A network with a weight that is not finite, or beyond 1000, has diverged: it keeps the weights it had, is not
    `alive` any more, and the others never notice.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Sequence[float] | Tensor,
        kinds: str | Sequence[str] = "sgd",
    ) -> None:
        some = list(parameters)
        runs, device = len(some[0]), some[0].device
        each = [kinds] * runs if isinstance(kinds, str) else list(kinds)
        for kind in each:
            check_choice("kind of optimiser", kind, KINDS)
        rates = torch.as_tensor(lr, dtype=some[0].dtype, device=device).expand(runs).clone()
        if len(each) != runs:
            raise ValueError(f"{len(each)} kinds of optimiser for {runs} networks: give one each")
        if not bool((rates.isfinite() & (rates >= 0)).all()):
            raise ValueError(f"lr = {rates.tolist()}: give finite rates of at least 0")
        super().__init__(some, {"lr": rates})
        self._is = {k: torch.tensor([one == k for one in each], device=device) for k in KINDS}
        self.kinds = tuple(each)
        self._has = {kind: kind in each for kind in KINDS}
        self.alive = torch.ones(runs, dtype=torch.bool, device=device)
        for parameter in some:
            self._begin(parameter)

    def _begin(self, parameter: Tensor) -> None:
        """What is remembered of gradients, where a kind does."""
        state = self.state[parameter]
        if self._has["momentum"] or self._has["adam"]:
            state["first"] = torch.zeros_like(parameter)
        if self._has["adam"]:
            state["second"] = torch.zeros_like(parameter)
            # Not "step": torch leaves a state of that name on the host when it is loaded.
            state["count"] = torch.zeros((), device=parameter.device)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step of every network that is alive, down the gradients of its parameters."""
        (group,) = self.param_groups
        there = [p for p in group["params"] if p.grad is not None]
        moved = [
            torch.addcmul(p, _shaped(group["lr"], p), self._direction(p), value=-1) for p in there
        ]
        for new in moved:
            reach = torch.linalg.vector_norm(new.flatten(1), ord=torch.inf, dim=1)
            self.alive &= reach < _LARGEST  # False for NaN too
        for parameter, new in zip(there, moved, strict=True):
            torch.where(_shaped(self.alive, parameter), new, parameter, out=parameter)

    def _direction(self, parameter: Tensor) -> Tensor:
        gradient, state = parameter.grad, self.state[parameter]
        assert gradient is not None
        if "first" not in state:
            return gradient
        first = state["first"]
        adam, momentum = (_shaped(self._is[kind], gradient) for kind in ("adam", "momentum"))
        if not self._has["adam"]:
            first.mul_(_MOMENTUM).add_(gradient)
            return torch.where(momentum, first, gradient)
        state["count"] += 1
        step, second = state["count"].double(), state["second"]  # 1 − 0.999^step needs its digits
        averaged = first.lerp(gradient, 1 - _EARLY)
        first.copy_(torch.where(adam, averaged, _MOMENTUM * first + gradient))
        second.lerp_(gradient.square(), 1 - _LATE)
        size = (second / (1 - _LATE**step)).sqrt() + _LEAST
        scaled = first / (1 - _EARLY**step) / size
        return torch.where(adam, scaled, torch.where(momentum, first, gradient))


def _shaped(each: Tensor, like: Tensor) -> Tensor:
    """A number of each run (R,), to meet something (R, ...)."""
    return each.reshape(-1, *(1,) * (like.dim() - 1))


@torch.no_grad()
def clip(gradients: Sequence[Tensor], most: float, *, stacked: bool) -> None:
    """Shorten gradients whose length is above `most`, in place; of a stack each run's by itself."""
    if stacked:
        squares = [g.square().flatten(1).sum(dim=1) for g in gradients]
    else:
        squares = [g.square().sum() for g in gradients]
    length = torch.stack(squares).sum(dim=0).sqrt()  # (R,), or one number
    factor = (most / (length + 1e-6)).clamp(max=1)  # as torch does it
    for gradient in gradients:
        gradient.mul_(_shaped(factor, gradient) if stacked else factor)
