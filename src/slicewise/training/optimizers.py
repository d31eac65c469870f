"""Steps of many networks at once, each by its own rate and kind; one that diverges stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.support import check_choice

KINDS = ("sgd", "momentum", "adam")
# A weight beyond this is none that anything was learned with.
_LARGEST = 1e3
_MOMENTUM, _EARLY, _LATE, _LEAST = 0.9, 0.9, 0.999, 1e-8


def one_each(name: str, given: Any, runs: int, dtype: torch.dtype) -> Tensor:
    """A number for each network (R,), of one for all or one each."""
    try:
        numbers = torch.as_tensor(given, dtype=dtype).detach()
    except (TypeError, ValueError, RuntimeError) as wrong:
        raise ValueError(f"{name} = {given!r}: give a number, or one for each network") from wrong
    if numbers.dim() > 1 or numbers.numel() not in (1, runs):
        networks = "one network" if runs == 1 else f"{runs} networks"
        raise ValueError(
            f"{name} has shape {tuple(numbers.shape)} for {networks}: give one number, or one for each"
        )
    return numbers.expand(runs).clone()


class StackedOptimiser(torch.optim.Optimizer):
    """Plain, momentum or Adam steps of parameters (R, ...): those of torch, run by run.

    A network with a weight that is not finite, or beyond 1000, has diverged: it keeps the weights it had, is not
    `alive` any more, and the others never notice.

    The parameters are laid side by side, a row for each network, and become views of that: a step is then a few passes
    over one tensor, and on a device few launches. Move a stack to its device before.
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
        if len(each) != runs:
            raise ValueError(f"{len(each)} kinds of optimiser for {runs} networks: give one each")
        rates = one_each("lr", lr, runs, some[0].dtype).to(device)
        if not bool((rates.isfinite() & (rates >= 0)).all()):
            raise ValueError(f"lr = {rates.tolist()}: give finite rates of at least 0")
        super().__init__(some, {"lr": rates})
        self._is = {k: torch.tensor([one == k for one in each], device=device) for k in KINDS}
        self.kinds = tuple(each)
        self._has = {kind: kind in each for kind in KINDS}
        self.alive = torch.ones(runs, dtype=torch.bool, device=device)
        self._weights = torch.cat([p.detach().flatten(1) for p in some], dim=1)  # (R, all of them)
        place = 0
        for parameter in some:
            size = parameter[0].numel()
            parameter.data = self._weights[:, place : place + size].view(parameter.shape)
            place += size
        state = self.state[some[0]]  # all of it, so that it is saved with the first
        if self._has["momentum"] or self._has["adam"]:
            state["first"] = torch.zeros_like(self._weights)
        if self._has["adam"]:
            state["second"] = torch.zeros_like(self._weights)
            # Not "step": torch leaves a state of that name on the host when it is loaded.
            state["count"] = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One step of every network that is alive, down the gradients of its parameters."""
        (group,) = self.param_groups
        slopes = [torch.zeros_like(p) if p.grad is None else p.grad for p in group["params"]]
        direction = self._direction(torch.cat([slope.flatten(1) for slope in slopes], dim=1))
        weights = self._weights
        new = torch.addcmul(weights, group["lr"].unsqueeze(1), direction, value=-1)
        reach = torch.linalg.vector_norm(new, ord=torch.inf, dim=1)
        self.alive &= reach < _LARGEST  # False for NaN too
        torch.where(self.alive.unsqueeze(1), new, weights, out=weights)

    def _direction(self, gradient: Tensor) -> Tensor:
        state = self.state[self.param_groups[0]["params"][0]]
        if "first" not in state:
            return gradient
        first = state["first"]
        adam, momentum = (self._is[kind].unsqueeze(1) for kind in ("adam", "momentum"))
        if not self._has["adam"]:
            first.mul_(_MOMENTUM).add_(gradient)
            return torch.where(momentum, first, gradient)
        state["count"] += 1
        step, second = state["count"].double(), state["second"]  # 1 − 0.999^step needs its digits
        averaged = first.lerp(gradient, 1 - _EARLY)
        if self._has["momentum"]:
            averaged = torch.where(adam, averaged, _MOMENTUM * first + gradient)
        first.copy_(averaged)
        second.lerp_(gradient.square(), 1 - _LATE)
        size = (second / (1 - _LATE**step)).sqrt() + _LEAST
        scaled = first / (1 - _EARLY**step) / size
        if all(kind == "adam" for kind in self.kinds):
            return scaled
        return torch.where(adam, scaled, torch.where(momentum, first, gradient))


@torch.no_grad()
def sound(weights: Iterable[Tensor]) -> bool:
    """Are all weights of a network by itself finite and no larger than those of a stack may be?"""
    some = [weight for weight in weights if weight.numel()]
    reach = [
        length.to(some[0].device, torch.float32) for length in torch._foreach_norm(some, torch.inf)
    ]
    return bool(torch.stack(reach).max() < _LARGEST)  # False for NaN too


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
