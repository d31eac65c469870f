"""How far to follow a direction of a network's weights: the length computed from slopes and one curvature.

**The exact step for one batch.** Weights move along a direction u: θ + s u. With slices and plans held the loss is a
quadratic in the outputs (`HeldLoss`), and where outputs are linear in the weights it is one in s,

    L(s) = L − s n + s² c / 2,   n = −⟨∇L, u⟩,   c = the curvature along u,

with its minimum at t* = n / c. The slope n costs nothing, since the gradient is there. The curvature is measured where
the step is to end: c = (L′(s) − L′(0)) / s at a trial length s, so that what a network adds to it (its outputs are not
linear in its weights) is seen as well. Where outputs bend too much on the way, as a sigmoid that saturates, lengths are
limited to what keeps them nearly straight. The step t* u does not depend on the scale of the data, of the loss or of u: if
u is multiplied by k, n becomes k n, c becomes k² c, and t* u stays.

**What noise does.** The slope n is too steep by the noise of the batch: u was made from this very gradient. The next
batch knows better. Its gradient at θ + s u has the slope f along u, and since the step itself has changed the slope by
s c, an unbiased estimate of the slope before the step is f + s c, with c as fresh slices see it: a direction that was
made to suit some slices is steeper along these than along others (`HeldLoss.expected`). Its ratio to n is the *signal* ρ, between 0 (all
noise) and 1 (none). What a batch sees counts between −1 and 2 times n, so that a single one that went wrong does not stop
a training. The step that makes the expected loss of the next batch smallest is ρ t*.

**Why not ρ t* itself.** It is the best step if it were the last. But where a loss is steep along some directions and flat
along others, t* is that of the steep ones, and progress along the flat ones needs long steps. Up to s = 2 ρ t* the
expected loss of the next batch does not rise. Momentum averages what such steps do back and forth along steep
directions, and goes on along flat ones: on quadratics of condition 10⁴ with little noise, 2,000 steps of 1.9 t* come ten
times as near to the minimum as steps of t* (`benchmarks/networks/quadratics`). What goes back and forth is removed at
the end, with the noise. Networks are no quadratics, though: at k = 1.9 an autoencoder loses half of what it would learn,
and a generator of pixels up to 255 ends twice as far away. So steps take the `Share` ρ^a (1 + (k − 1) ρ^b) of t*:

- without noise (ρ near 1) k = 1.4;
- where noise rules, ρ^a. In a stationary state the loss neither rises nor falls, which is at s = 2 ρ t*; hence lengths
  settle where the share is 2 ρ, at `settled_share`: about t*/2 for a = 1/2, t*/8 for a = 3/4. With a = 1 they would
  shrink for good.

With a known number of steps lengths shrink to a hundredth over the second half, by the same factor in each step: which
scale of lengths removes the noise is not known beforehand. With an unknown number k = 1, and weights are averaged.

**What is smoothed.** At the start of a training gradients and curvatures may fall by a factor of a million within some
dozens of steps. Slopes are therefore averaged in units of the gradient's norm, and multiplied by the norm of now, which
is smoothed itself unless it shrinks; norms and curvatures are averaged as logarithms. Slopes and curvature are measured
in every sixteenth step, after the first ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Share(NamedTuple):
    """Which share of t* a step takes, for a signal ρ: ρ^a (1 + (k − 1) ρ^b)."""

    exponent: float  # a, at least 0 and below 1: what noise does
    most: float = 1.0  # k, from 1 to below 2: the share without noise
    power: float = 1.0  # b: how near to 1 the signal has to be for that

    def of(self, signal: Tensor) -> Tensor:
        """Compute the share for a signal, of the same shape."""
        share = signal**self.exponent
        return share if self.most == 1 else share * (1 + (self.most - 1) * signal**self.power)


# For a training whose number of steps is known, and for one that may end at any time.
BOUNDED, UNBOUNDED = Share(0.5, 1.4, 2.0), Share(0.75)
# How much of a smoothed number stays at each measurement, less at the first ones: slopes, signal, sizes and curvatures.
_KEPT_SLOPE, _KEPT_SIGNAL, _KEPT_SIZE, _YOUNG = 0.92, 0.96, 0.8, 8
_TINY = torch.finfo(torch.float32).tiny
# A first step is this much of the computed one, and no more than twice the first trial; then lengths at most double. A
# limit that is not reached sinks slowly.
_FIRST, _GROWTH, _SINKING = 0.1, 2.0, 0.95
# A curvature that is measured counts at least this much of the present one; trials are at least this much of t*.
_LEAST_CURVATURE, _LEAST_TRIAL = 0.1, 0.02
# The curvature is at least this much of the one that was measured last.
_LATEST = 0.5
# Of the slope that a step was made for, a later batch counts as seeing between 1 minus this and this: as far above a signal
# of one half as below. The signal is never less than `_LEAST_SIGNAL`: without steps nothing would raise it again.
_MOST_SEEN, _LEAST_SIGNAL = 2.0, 0.01
# Outputs that bend by more than this along a trial were followed too far.
_STRAIGHT = 0.5
# A trial at which the loss is not finite means a minimum at this share of it.
_RETREAT = 0.1


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


def settled_share(share: Share) -> float:
    """Compute the share of t* at which lengths settle once noise and progress balance, where it is 2 ρ.

    Args:
        share: Of the signal.

    Returns:
        The share; 2^(−a/(1−a)) if k = 1.

    Raises:
        ValueError: For an exponent outside of [0, 1), or k outside of [1, 2): such lengths do not settle.

    >>> settled_share(Share(0.5)), round(settled_share(Share(0.75)), 12)
    (0.5, 0.125)
    """
    if not (0 <= share.exponent < 1 and 1 <= share.most < 2):
        raise ValueError(
            f"{share}: lengths settle for exponents from 0 to below 1, and for most from 1 to below 2"
        )
    low, high = 0.0, 1.0
    for _ in range(60):  # above 2 ρ for small ρ, below it for large ones
        middle = (low + high) / 2
        found = middle**share.exponent * (1 + (share.most - 1) * middle**share.power)
        low, high = (middle, high) if found > 2 * middle else (low, middle)
    return 2 * high


class LengthState(NamedTuple):
    """What a `StepLength` keeps between steps: one number each for every run, of shape (*runs,)."""

    taken: Tensor  # number of slopes that were taken in
    usual: Tensor  # norm of the gradient, smoothed: a mean of logarithms
    slope: Tensor  # smoothed n, in units of the gradient's norm
    curvature: Tensor  # smoothed c, a mean of logarithms; 0 before any was measured
    found: Tensor  # c as it was measured last
    expected: Tensor  # c along the last direction, as the next batch should see it; 0 if it was not measured there
    size: Tensor  # norm of the gradient, when a slope was last taken in
    own: Tensor  # n of the last direction whose slope was taken in
    fresh: Tensor  # smoothed slope along such directions, by the batches after them, in units of the gradient's norm
    lagged: Tensor  # smoothed n of the same directions, in the same units
    wanted: Tensor  # length of the last step before it was shrunk
    length: Tensor  # of the last step
    limit: Tensor  # of the next one


# Numbers that are computed in pairs: of a new gradient, and slopes along directions that were followed, by the batches
# after them and by their own.
_NEW = slice(LengthState._fields.index("size"), LengthState._fields.index("own") + 1)
_BOTH = slice(LengthState._fields.index("fresh"), LengthState._fields.index("lagged") + 1)


class StepLength:
    """Computes the length of each step of a training; see the text of this module.

    A step that measures is: `observe` the slope, measure a curvature at `trial()` and `measure` it, take `length()`. The
    step after it tells the slope that its batch sees along the direction before (`look_back`). Steps between keep the
    length. Everything is computed on the device without reading values, for many runs at once.

    Args:
        runs: Shape of every number: () for one network, (R,) for a stack.
        device: Where the numbers live.
        share: `BOUNDED` if the end is known, else `UNBOUNDED`.
    """

    def __init__(self, runs: tuple[int, ...], device: torch.device, share: Share = BOUNDED) -> None:
        self.share = share
        self._share: Tensor | None = None  # at the present step
        # All numbers lie in one tensor, written at the end of each step: a CUDA graph can go on from it.
        self.numbers = torch.zeros(len(LengthState._fields), *runs, device=device)
        self.state = LengthState(*self.numbers.unbind(0))

    def load(self, numbers: Tensor) -> None:
        """Take up the numbers of another one, in the tensor that is there."""
        self.numbers.copy_(numbers)
        self.state = LengthState(*self.numbers.unbind(0))
        self._share = None

    def __getstate__(self) -> dict[str, object]:
        return {"share": self.share, "numbers": self.numbers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _share=None)
        self.state = LengthState(*self.numbers.unbind(0))

    def look_back(self, fresh: Tensor) -> None:
        """Take in the slope −⟨g, u⟩, (*runs,), of a new gradient along the direction of the step before, which measured."""
        old = self.state
        # The step itself has changed the slope.
        before = torch.addcmul(fresh.float(), old.length, old.expected)
        known = (old.expected > 0) & before.isfinite()
        # A single batch that sees a slope far beyond what was hoped for, as after a step into a sigmoid's flat end, must
        # not outweigh all others for long.
        most = old.own.abs()
        before = before.minimum(_MOST_SEEN * most).maximum((1 - _MOST_SEEN) * most)
        size = torch.where(known, old.size, 1)
        both, smooth = torch.stack([before, old.own]) / size, self.numbers[_BOTH]
        smooth.copy_(torch.where(known, torch.lerp(both, smooth, self._kept(_KEPT_SIGNAL)), smooth))

    def observe(self, own: Tensor, size: Tensor) -> None:
        """Take in the slope of a new gradient along the direction that is about to be followed.

        Args:
            own: n = −⟨g, u⟩, (*runs,).
            size: The norm of the gradient, (*runs,).
        """
        old = self.state
        fine = own.isfinite() & (size > 0)
        new = torch.where(fine, torch.stack([size, own]).float(), self.numbers[_NEW])
        size, own = new.unbind(0)
        rate = own / size.clamp(min=_TINY)
        self.state = old._replace(
            taken=old.taken + fine,
            size=size,
            usual=_between(size, old.usual, self._kept(_KEPT_SIZE)),
            slope=torch.lerp(rate, old.slope, self._kept(_KEPT_SLOPE)),
            own=own,
            expected=torch.zeros_like(own),
        )
        self._share = None

    def _kept(self, most: float) -> Tensor:
        """How much of a smoothed number stays: nothing at first, then little."""
        taken = self.state.taken
        return torch.where(taken > 0, 1 - _YOUNG / (2 + _YOUNG + taken), 0).clamp(max=most)

    def best(self) -> Tensor:
        """Estimate t*, the length at which the loss of a batch is least along the present direction, (*runs,)."""
        state = self.state
        curvature = torch.maximum(state.curvature, _LATEST * state.found)
        # Gradients that shrink fast, as at the start, are followed at once; a single large one is not.
        return best_length(state.slope * torch.minimum(state.usual, state.size), curvature)

    def signal(self) -> Tensor:
        """Estimate ρ, the part of the slope that is not noise, at most 1 and never quite 0; 1 while nothing is known."""
        ratio = self.state.fresh / self.state.lagged
        return torch.where(self.state.lagged > 0, ratio.clamp(_LEAST_SIGNAL, 1), 1)

    def _wanted(self) -> Tensor:
        """Which share of t* to take, (*runs,); the same before and after the curvature is measured."""
        if self._share is None:
            self._share = self.share.of(self.signal())
        return self._share

    def trial(self, first: Tensor) -> Tensor:
        """Choose the length at which the curvature is measured: about that of the step.

        Args:
            first: What to try before any curvature is known, (*runs,): a small change of the weights.
        """
        best = self.best()
        wanted = self._wanted().clamp(min=_LEAST_TRIAL) * best
        known = (self.state.curvature > 0) & (wanted > 0)
        return torch.where(known, torch.minimum(wanted, self.state.limit), first)

    def measure(
        self,
        curvature: Tensor,
        trial: Tensor,
        *,
        bend: Tensor | None = None,
        expected: Tensor | None = None,
        largest: Tensor | None = None,
    ) -> None:
        """Take in a curvature.

        Args:
            curvature: c as measured, (*runs,); anything not finite is a trial that was much too long.
            trial: The length at which it was measured, (*runs,).
            bend: How far outputs are from linear in the step, between 0 and 1, (*runs,): the distance of their mean
                change from the change at its end. None if that is not known.
            expected: The curvature that the next batch is expected to have along this direction, (*runs,), if it is
                another one: a direction that was made to suit some slices is steeper along these.
            largest: A length that no step may exceed, (*runs,).
        """
        old = self.state
        first = old.curvature <= 0
        steep = old.own.abs() / trial.clamp(min=_TINY)
        found = torch.where(curvature.isfinite(), curvature.float(), steep / _RETREAT)
        # A parabola that does not curve up says no more than that its minimum is far away.
        least = torch.where(first, steep * _FIRST, _LEAST_CURVATURE * old.curvature)
        found = torch.where(first & (found > 0), found, torch.maximum(found, least))
        kept = torch.where(first, 0, self._kept(_KEPT_SIZE))
        new = old._replace(curvature=_between(found, old.curvature, kept), found=found)
        self.state = new
        careful = torch.minimum(_FIRST * self.best(), _GROWTH * trial)
        limit = torch.where(first, careful, old.limit)
        if bend is not None:
            # Beyond this, outputs saturate or explode: the parabola says nothing about them.
            limit = torch.where(bend > _STRAIGHT, (trial * _STRAIGHT / bend).minimum(limit), limit)
        if largest is not None:
            limit = torch.minimum(limit, largest)
        seen = found
        if expected is not None:
            seen = torch.where((expected > 0) & (expected < torch.inf), expected.float(), found)
        self.state = new._replace(expected=seen, limit=limit)

    def length(self, shrink: float | Tensor = 1.0, *, anew: bool = True) -> Tensor:
        """Compute the length of this step, (*runs,), times `shrink`.

        Args:
            shrink: By how much lengths have to be smaller at this point of the training.
            anew: Whether this step has measured; if not, the length is that of the step before, but for `shrink`.
        """
        old = self.state
        if anew:
            wanted = torch.minimum(self._wanted() * self.best(), old.limit)
            limit = torch.maximum(_GROWTH * wanted, _SINKING * old.limit)
            new = old._replace(wanted=wanted, length=wanted * shrink, limit=limit)
            self.numbers.copy_(torch.stack(new))
            self.state = LengthState(*self.numbers.unbind(0))
        else:
            old.length.copy_(old.wanted * shrink)
        return self.state.length


def _between(new: Tensor, old: Tensor, kept: Tensor) -> Tensor:
    """A mean of logarithms: numbers that change by orders of magnitude are followed, single large ones hardly."""
    return new ** (1 - kept) * old**kept
