"""The two ways of training that are compared: a computed step with nothing given, and Adam with a rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from slicewise.optim import Computed
from slicewise.training import Training, train

# Half decades: wide enough for data of 10^±3, where the best rate lies far from the usual ones.
RATES = tuple(10 ** (power / 2) for power in range(-12, 1))
Step = Callable[[Callable[[], Tensor]], Tensor]


def computed(network: nn.Module, target: Tensor, variant: str, **how: Any) -> Training:
    """Train by computed steps: no rate, no schedule, no scale of the loss is given."""
    return train(network, target, variant, **how)


def computed_steps(parameters: Iterable[Tensor], total_steps: int) -> Step:
    """Make computed steps in a loop written out: returns the step, which takes the loss as a function."""
    return Computed(parameters, total_steps=total_steps).step


def searched(
    network: nn.Module, target: Tensor, variant: str, rates: Sequence[float], **how: Any
) -> Training:
    """Train by Adam on the classic loss, each network of a stack at its own rate."""
    how = {"optimizer": "adam", "scale": "classic", "objective": "power", **how}
    return train(network, target, variant, lr=rates, **how)


def displaced(network: nn.Module, target: Tensor, variant: str, **how: Any) -> Training:
    """Train by SGD at the rate 0.1 on the displacement scale."""
    return train(network, target, variant, optimizer="sgd", scale="displacement", lr=0.1, **how)


def plain_steps(optimizer: torch.optim.Optimizer) -> Step:
    """Steps of an ordinary optimizer, in the form of computed ones."""

    def step(closure: Callable[[], Tensor]) -> Tensor:
        optimizer.zero_grad()
        loss = closure()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
