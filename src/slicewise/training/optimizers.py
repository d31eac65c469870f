"""Optimizer steps of many networks at once, each with its own rate and kind; one that diverges stops moving."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from slicewise.optim import Walker
from slicewise.support import check_choice

KINDS = ("sgd", "momentum", "adam")
# A network with a larger weight is taken to have diverged, unless the data ask for such weights.
LARGEST_WEIGHT = 1e3
_MOMENTUM, _BETA1, _BETA2, _EPSILON = 0.9, 0.9, 0.999, 1e-8


def largest_weight(target: Tensor) -> float:
    """The bound of weights for samples of this size: networks need larger ones to make larger samples."""
    return max(LARGEST_WEIGHT, 10 * float(target.abs().max()))


def per_network(name: str, given: Any, runs: int, dtype: torch.dtype) -> Tensor:
    """Turn one number, or one for each network, into numbers (R,)."""
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


class StackedOptimizer(torch.optim.Optimizer):
    """SGD, momentum or Adam steps for the parameters (R, ...) of a `Stack`, each network with its own kind and rate.

    Each network moves as the optimizer of torch would move it alone. A network with a weight that is not finite, or
    beyond a bound (1000), has diverged: it keeps the weights it had before, its entry of `alive` (R,) becomes False, and the
    others are not affected.

    The parameters become views of one tensor (R, n_weights), so that a step is a few operations on it: move a stack to
    its device before making its optimizer.

    Args:
        parameters: Of a stack, (R, ...) each.
        lr: One rate, or one for each network.
        kinds: "sgd", "momentum" or "adam", one for all networks or one for each.
        largest: The bound of weights.

    Raises:
        ValueError: If a kind is unknown, a rate is negative or not finite, or their number is not R.

    Example:
        >>> from slicewise.training import Generator, Stack
        >>> stack = Stack.of(Generator(2, hidden=(4,), generator=0), 3)
        >>> optimizer = StackedOptimizer(stack.parameters(), [0.1, 0.2, 0.01], ["sgd", "sgd", "adam"])
        >>> stack(torch.randn(3, 5, 8)).square().mean().backward()
        >>> optimizer.step(); optimizer.alive
        tensor([True, True, True])
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float | Sequence[float] | Tensor,
        kinds: str | Sequence[str] = "sgd",
        *,
        largest: float = LARGEST_WEIGHT,
    ) -> None:
        some = list(parameters)
        runs, device = len(some[0]), some[0].device
        each = [kinds] * runs if isinstance(kinds, str) else list(kinds)
        for kind in each:
            check_choice("kind of optimizer", kind, KINDS)
        if len(each) != runs:
            raise ValueError(f"{len(each)} kinds of optimizer for {runs} networks: give one each")
        rates = per_network("lr", lr, runs, some[0].dtype).to(device)
        if not bool((rates.isfinite() & (rates >= 0)).all()):
            raise ValueError(f"lr = {rates.tolist()}: give finite rates of at least 0")
        super().__init__(some, {"lr": rates})
        self._is = {k: torch.tensor([one == k for one in each], device=device) for k in KINDS}
        self.kinds = tuple(each)
        self._has = {kind: kind in each for kind in KINDS}
        self.alive = torch.ones(runs, dtype=torch.bool, device=device)
        self._weights, self._largest = as_one(some), largest
        state = self.state[some[0]]  # of all parameters: saved with the first
        if self._has["momentum"] or self._has["adam"]:
            state["first"] = torch.zeros_like(self._weights)
        if self._has["adam"]:
            state["second"] = torch.zeros_like(self._weights)
            # Not "step": torch leaves a state of that name on the host when it is loaded.
            state["count"] = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Make one step of every network that has not diverged."""
        (group,) = self.param_groups
        slopes = [torch.zeros_like(p) if p.grad is None else p.grad for p in group["params"]]
        direction = self._direction(torch.cat([slope.flatten(1) for slope in slopes], dim=1))
        weights = self._weights
        new = torch.addcmul(weights, group["lr"].unsqueeze(1), direction, value=-1)
        largest = torch.linalg.vector_norm(new, ord=torch.inf, dim=1)
        self.alive &= largest < self._largest  # False for NaN as well
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
        # In double precision: 1 − 0.999^step loses its digits in single.
        step, second = state["count"].double(), state["second"]
        averaged = first.lerp(gradient, 1 - _BETA1)
        if self._has["momentum"]:
            averaged = torch.where(adam, averaged, _MOMENTUM * first + gradient)
        first.copy_(averaged)
        second.lerp_(gradient.square(), 1 - _BETA2)
        size = (second / (1 - _BETA2**step)).sqrt() + _EPSILON
        scaled = first / (1 - _BETA1**step) / size
        if all(kind == "adam" for kind in self.kinds):
            return scaled
        return torch.where(adam, scaled, torch.where(momentum, first, gradient))


class ComputedOptimizer(torch.optim.Optimizer):
    """Steps of computed lengths for a network, or for each network of a stack, without a learning rate.

    The steps are made by its `walker`, which a trainer leads; this class is what a checkpoint saves.

    Args:
        parameters: Of a network, or of a stack, (R, ...) each; those of a stack become views of one tensor.
        kind: The direction: "sgd", "momentum" or "adam".
        stacked: Whether these are the parameters of a stack.
        largest: The bound of weights of a stack.
    """

    version = Walker.version

    def __init__(
        self,
        parameters: Iterable[Tensor],
        kind: str = "adam",
        *,
        stacked: bool = False,
        largest: float = LARGEST_WEIGHT,
    ) -> None:
        some = list(parameters)
        super().__init__(some, {"lr": "auto", "kind": kind})
        weights = [as_one(some)] if stacked else some
        shapes = [tuple(p.shape[1:]) for p in some] if stacked else None
        direction = "gradient" if kind == "sgd" else kind
        self.walker = Walker(weights, direction, shapes=shapes, largest=largest)

    @property
    def alive(self) -> Tensor | None:
        """Which networks of a stack have not diverged, (R,); None for one network."""
        return self.walker.alive if self.walker.stacked else None

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on, but the parameters."""
        walker = self.walker
        return {**super().state_dict(), "state": {"numbers": walker.numbers, **walker.state}}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` gave, in the tensors that are there."""
        state = state_dict["state"]
        for name, tensors in self.walker.state.items():
            for mine, given in zip(tensors, state[name], strict=True):
                mine.copy_(given)
        self.walker.load(state["numbers"])


def as_one(parameters: Sequence[Tensor]) -> Tensor:
    """Make the parameters (R, ...) of a stack views of one tensor (R, n_weights), and return it."""
    weights = torch.cat([p.detach().flatten(1) for p in parameters], dim=1)
    place = 0
    for parameter in parameters:
        size = parameter[0].numel()
        parameter.data = weights[:, place : place + size].view(parameter.shape)
        place += size
    return weights


@torch.no_grad()
def within_bounds(weights: Iterable[Tensor], largest: float) -> bool:
    """Whether all weights of one network are finite and below a bound."""
    some = [weight for weight in weights if weight.numel()]
    norms = [
        norm.to(some[0].device, torch.float32) for norm in torch._foreach_norm(some, torch.inf)
    ]
    return bool(torch.stack(norms).max() < largest)  # False for NaN as well


@torch.no_grad()
def clip(gradients: Sequence[Tensor], max_norm: float, *, stacked: bool) -> Tensor:
    """Scale gradients in place to a norm of at most `max_norm`; in a stack, those of each network separately.

    Returns:
        The factor, (R,), or ().
    """
    if stacked:
        squares = [g.square().flatten(1).sum(dim=1) for g in gradients]
    else:
        squares = [g.square().sum() for g in gradients]
    norm = torch.stack(squares).sum(dim=0).sqrt()  # (R,), or ()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1)  # as torch.nn.utils.clip_grad_norm_
    for gradient in gradients:
        shape = (-1, *(1,) * (gradient.dim() - 1)) if stacked else ()
        gradient.mul_(factor.reshape(shape))
    return factor
