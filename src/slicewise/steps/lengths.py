"""How far to follow a direction of a network's weights, without a learning rate.

**The exact step for one batch.** Weights move along a direction u: θ + s u. With slices and plans held the loss is a
quadratic in the outputs (`HeldLoss`), and where outputs are linear in the weights it is one in s,

    L(s) = L − s n + s² c / 2,   n = −⟨∇L, u⟩,   c = the curvature along u,

with its minimum at t* = n / c. The slope n costs nothing, since the gradient is there. The curvature is measured where
the step is to end: c = (L′(s) − L′(0)) / s at a trial length s, so that what a network adds to it (its outputs are not
linear in its weights) is seen as well. The step t* u does not depend on the scale of the data, of the loss or of u: if
u is multiplied by k, n becomes k n, c becomes k² c, and t* u stays.

**What noise does.** The slope n is too steep by the noise of the batch: u was made from this very gradient. The next
batch shows by how much. Its gradient at θ + s u has the slope f along u, and since the step itself has changed the slope
by s c, an unbiased estimate of the slope before the step is f + s c, with c as fresh slices see it: a direction that was
made to suit some slices is steeper along these than along others (`HeldLoss.expected`). Its ratio to n is the *signal* ρ,
between 0 (all noise) and 1 (none). The expected loss of the next batch is least at ρ t*, and does not rise up to 2 ρ t*.

**Why these are limits, and not the step.** t* is the best step if it were the last. A training makes many: early in it t*
changes hidden layers by a tenth of their size at a time, which is right for the loss of the next batch, too, and spoils
what the network could learn later; along a narrow valley t* is far too short. Beyond t*, though, a step overshoots on the
very batch that it was made from, and beyond 2 ρ t* the loss rises.

**The step itself is a share of the weights.** Directions are measured in the size of each tensor of weights
(`optim.Walker`): a step of length s changes entries by up to the share s of it. Steps of `SHARE` = 3 % serve networks of
very different width, depth and scale of data, once outputs start at the scale of the data (`optim.calibrate`). They
shrink in proportion to what is left of the training, which removes the noise of the batches whatever its size is. So

    s = min(SHARE · (1 − progress), min(1, 2 ρ) t*).

With an unknown number of steps they do not shrink, and weights are averaged instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# The share of each tensor of weights that a step changes, before it shrinks.
SHARE = 0.03
# The first trial is this much of the step; then trials at most double until they are as long as it.
_FIRST, _GROWTH = 0.1, 2.0
# How much of a measured t* stays at the next measurement, of its logarithm.
_KEPT = 0.5
# A trial at which the loss is not finite means a minimum at this share of it.
_RETREAT = 0.1
# Bounds of t*, in sizes of the weights: beyond the upper one it limits nothing.
_LEAST, _MOST = 1e-9, 1e3
# No step is longer than this much of ρ t*.
_WITHIN_NOISE = 2.0
# How much of the smoothed signal stays at each measurement; less at the first ones, (2 + k) / (10 + k) at the k-th.
_KEPT_SIGNAL, _YOUNG = 0.96, 8
# Of the slope that a step was made for, a later batch counts as seeing between 1 minus this and this, so that a single one
# cannot outweigh all others. The signal is never less than `_LEAST_SIGNAL`: without steps nothing would raise it again.
_MOST_SEEN, _LEAST_SIGNAL = 2.0, 0.01


def best_length(slope: Tensor, curvature: Tensor) -> Tensor:
    """Compute t* = n / c, the length at which a parabola has its minimum; 0 where it does not fall, or does not curve up.

    Args:
        slope: n, the rate at which the loss falls at first.
        curvature: c, its second derivative along the direction, of the same shape.

    Returns:
        The length, of the same shape.

    >>> best_length(torch.tensor([3.0, -1.0]), torch.tensor([2.0, 2.0]))
    tensor([1.5000, 0.0000])
    """
    return torch.where((slope > 0) & (curvature > 0), slope / curvature, 0)


class LengthState(NamedTuple):
    """What a `StepLength` keeps between steps: one number each for every run, of shape (*runs,)."""

    best: Tensor  # t*, smoothed: a mean of logarithms; 0 before any was measured
    slope: Tensor  # n of the direction that was measured last
    expected: (
        Tensor  # c along that direction, as the next batch should see it; 0 if that is not known
    )
    length: Tensor  # of the last step
    seen: Tensor  # ρ: what batches saw of the slope that steps before them were made for, smoothed
    taken: Tensor  # number of those batches


class StepLength:
    """Computes the length of each step of a training; see the text of this module.

    A step that measures is: `observe` the slope, measure a curvature at `trial()` and `measure` it, take `length()`. The
    step after it tells the slope that its batch sees along the direction before (`look_back`). Steps between take
    `length()` alone. Everything is computed on the device without reading values, for many runs at once.

    Args:
        runs: Shape of every number: () for one network, (R,) for a stack.
        device: Where the numbers live.
        share: Of the size of the weights, in a step.
    """

    def __init__(self, runs: tuple[int, ...], device: torch.device, share: float = SHARE) -> None:
        self.share = share
        # All numbers lie in one tensor, written in place: a CUDA graph can go on from it.
        self.numbers = torch.zeros(len(LengthState._fields), *runs, device=device)

    @property
    def state(self) -> LengthState:
        """The numbers by their names."""
        return LengthState(*self.numbers.unbind(0))

    def observe(self, slope: Tensor) -> None:
        """Take in n = −⟨g, u⟩, (*runs,), of a new gradient along the direction that is about to be followed."""
        self.state.slope.copy_(slope)

    def trial(self, shrink: float | Tensor = 1.0) -> Tensor:
        """Choose the length at which the curvature is measured, (*runs,): that of the step, approached from below."""
        best = self.state.best
        known = torch.where(best > 0, _GROWTH * best, _FIRST * self.share)
        return known.clamp(max=self.share) * shrink

    def look_back(self, slope: Tensor) -> None:
        """Take in the slope −⟨g, u⟩, (*runs,), of a new gradient along the direction of the step before, which measured."""
        state = self.state
        # The step itself has changed the slope.
        before = slope.float() + state.length * state.expected
        known = (state.slope > 0) & (state.expected > 0) & before.isfinite()
        share = torch.where(known, before / torch.where(known, state.slope, 1), 1)
        share = share.clamp(1 - _MOST_SEEN, _MOST_SEEN)
        kept = (1 - _YOUNG / (2 + _YOUNG + state.taken)).clamp(max=_KEPT_SIGNAL)
        old = torch.where(state.taken > 0, state.seen, 1)
        state.seen.copy_(torch.where(known, torch.lerp(share, old, kept), state.seen))
        state.taken.add_(known)

    def signal(self) -> Tensor:
        """Estimate ρ, the part of the slope that is not noise, (*runs,); 1 while nothing is known."""
        state = self.state
        return torch.where(state.taken > 0, state.seen.clamp(_LEAST_SIGNAL, 1), 1)

    def limit(self) -> Tensor:
        """Compute the length that no step exceeds, (*runs,): min(1, 2 ρ) t*; 0 before anything was measured."""
        return (_WITHIN_NOISE * self.signal()).clamp(max=1) * self.state.best

    def measure(self, curvature: Tensor, trial: Tensor, expected: Tensor | None = None) -> None:
        """Take in a curvature.

        Args:
            curvature: c as measured, (*runs,); anything not finite is a trial that was much too long.
            trial: The length at which it was measured, (*runs,).
            expected: The curvature that the next batch should have along this direction, (*runs,), if it is another
                one: a direction that was made to suit some slices is steeper along these.
        """
        state = self.state
        old, slope = state.best, state.slope
        found = torch.where(curvature > 0, slope / curvature, _MOST)
        found = torch.where(curvature.isfinite(), found, _RETREAT * trial).clamp(_LEAST, _MOST)
        # A batch along whose slope the direction climbs says nothing of how far to go.
        found = torch.where((slope > 0) & slope.isfinite(), found, torch.where(old > 0, old, trial))
        state.best.copy_(torch.where(old > 0, found ** (1 - _KEPT) * old**_KEPT, found))
        seen = curvature if expected is None else expected
        state.expected.copy_(torch.where((seen > 0) & seen.isfinite(), seen.float(), 0))

    def length(self, shrink: float | Tensor = 1.0) -> Tensor:
        """Compute the length of this step, (*runs,).

        Args:
            shrink: By how much steps have to be smaller at this point of the training.
        """
        best, length = self.state.best, self.state.length
        wanted = torch.full_like(best, self.share) * shrink
        length.copy_(torch.where(best > 0, torch.minimum(wanted, self.limit()), _FIRST * wanted))
        return length
