"""Transport along slices: project, match on each line, and pull gradients back to the samples.

`match_slices` is the primitive that carries the speed: every faster backend has its signature and is
tested against it, values and all gradients. `pull` runs any of them in pieces of bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from slicewise.support import broadcast, multiply, sort_lines
from slicewise.transport.backproject import backproject
from slicewise.transport.one_dim import Match, Wanted, match

# A function with the signature of `match_slices`, or a `JointMatcher`.
Matcher = Callable[..., Match]


class JointMatcher:
    """A matcher that several processes run together; one that a single process runs is a plain function.

    It cannot be differentiated twice: slopes are exchanged in the forward pass.
    """

    def slices_in_a_piece(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
    ) -> int:
        """How many slices to match at once: the same number on every process."""
        raise NotImplementedError

    def swapped(self) -> JointMatcher:
        """The matcher for the same samples with x and y exchanged."""
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Match:
        """`match_slices`, by all processes."""
        raise NotImplementedError


class MovedPoints(NamedTuple):
    """A law on lines: points that are the same on each, in order, but for where they lie and how far apart.

    A point stands for a part of the law. What that part costs beside its point is a constant on each line.
    """

    points: Tensor  # (m,), in order
    variance: Tensor  # (), the mean variance of what points stand for, at a scale of one
    loc: Tensor  # (..., L, 1)
    scale: Tensor  # (..., L, 1), at least 0

    def on(self, slices: Tensor) -> MovedPoints:
        """These points."""
        return self

    def written_out(self) -> Tensor:
        """The points of every line, (..., L, m)."""
        return torch.addcmul(self.loc, self.scale, self.points)

    def constant(self) -> Tensor:
        """What is added to the cost of each line, (..., L)."""
        return self.scale[..., 0].square() * self.variance


class RoundPoints(NamedTuple):
    """`MovedPoints` of a law that is equally wide in all directions: slices alone say where they lie."""

    points: Tensor  # (m,), in order
    variance: Tensor  # ()
    mean: Tensor  # (..., 1, d)
    width: float  # on slices of length one

    def on(self, slices: Tensor) -> MovedPoints:
        """The points on slices (..., L, d)."""
        # On a CPU three times as fast as a norm.
        lengths = slices.detach().square().sum(dim=-1, keepdim=True).sqrt()
        loc = project(self.mean, slices)
        return MovedPoints(
            self.points, self.variance, loc, (self.width * lengths).expand(loc.shape)
        )


class PointsMatcher:
    """A matcher that takes the points of a law for `y_sorted`: nothing of the size of the lines is made for them.

    For p = 2, as many points as samples, equal weights, and no gradient to the points. Costs are those of the law.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Match:
        """`match_slices`."""
        raise NotImplementedError


class PricingMatcher:
    """A matcher that also adds up what it finds, and takes the gradient back to x."""

    @property
    def plain(self) -> Matcher:
        """The plain version, which compilers and transforms can follow."""
        return match_slices

    def numbers_held(self, x: Tensor, y: Tensor) -> int:
        """How many numbers of one slice and element of the batch are held at once."""
        return x.shape[-2] + y.shape[-2]

    def __call__(self, *args: Any, **kwargs: Any) -> Match:
        """`match_slices`."""
        raise NotImplementedError

    def priced(
        self,
        x: Tensor,
        y: Tensor,
        slices: Tensor,
        x_weights: Tensor | None,
        y_weights: Tensor | None,
        coefficients: Tensor | None,
        *,
        p: float,
        root: bool,
        y_sorted: Tensor | MovedPoints | RoundPoints | None = None,
    ) -> tuple[Tensor, Tensor] | None:
        """Σ coefficients · costs (*batch,), or its p-th root, and the gradient of it in x (*batch, n, d).

        Coefficients are (*batch, L), or None for 1/L each. Projections on all slices are held at once. None where it
        cannot be done in one.
        """
        raise NotImplementedError


# What one piece of slices may take, in bytes (one slice at the least): little on a CPU, whose caches like
# it; on an accelerator enough to keep it busy.
PIECE_BYTES = 64 * 2**20
DEVICE_PIECE_BYTES = 2**31
# Plain torch holds about this many arrays of the size of the projections at once; kernels on a CPU hold one, on
# a device up to three (projections, order and gradient), with sample weights five (cumulative weights in 64 bits).
_PLAIN_FOOTPRINT = 8
_DEVICE_FOOTPRINT = 3
_WEIGHTED_DEVICE_FOOTPRINT = 5


class Gradients(NamedTuple):
    """Gradients of Σ coefficients · costs, for those asked for; before any broadcast is undone."""

    x: Tensor | None = None
    y: Tensor | None = None
    slices: Tensor | None = None
    x_weights: Tensor | None = None
    y_weights: Tensor | None = None


class Needs(NamedTuple):
    """Of which inputs a gradient is asked."""

    x: bool = False
    y: bool = False
    slices: bool = False
    x_weights: bool = False
    y_weights: bool = False

    @property
    def wanted(self) -> Wanted:
        """What a matcher must return for them."""
        return Wanted(self.x or self.slices, self.y or self.slices, self.x_weights, self.y_weights)


def match_slices(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
    *,
    p: float,
    wanted: Wanted = Wanted(),
    y_sorted: Tensor | None = None,
) -> Match:
    """`match` on each of slices (..., L, d) of x (..., n, d) and y (..., m, d): costs (..., L).

    `y_sorted` (..., L, m) holds y's sorted projections where they are known. They serve while nothing
    asks which sample is which: not for gradients to y or the slices, nor for weights.
    """
    known = y_sorted is not None and not wanted.v and y_weights is None
    return match(
        project(x, slices),
        y_sorted if known and y_sorted is not None else project(y, slices),
        v_is_sorted=known,
        p=p,
        u_weights=None if x_weights is None else x_weights.unsqueeze(-2),  # one row for all slices
        v_weights=None if y_weights is None else y_weights.unsqueeze(-2),
        wanted=wanted,
    )


def project(samples: Tensor, slices: Tensor) -> Tensor:
    """Coordinates (..., L, n) of samples (..., n, d) along slices (..., L, d)."""
    return multiply(slices, samples.mT)


def sorted_lines(lines: Tensor) -> Tensor:
    """Each line (..., n) in order."""
    found = sort_lines(lines)
    return lines.sort(dim=-1).values if found is None else found


def pull(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    coefficients: Tensor | None,
    *,
    p: float,
    needs: Needs,
    matcher: Matcher = match_slices,
    y_sorted: Tensor | None = None,
) -> tuple[Tensor, Gradients]:
    """Costs (..., L) and the gradients of Σ coefficients · costs, a bounded piece of slices at a time.

    Peak memory beyond the answer is that of one piece: projections are gone once they are pulled back.
    """
    n_slices = slices.shape[-2]
    piece = slices_in_a_piece(x, y, slices, x_weights, y_weights, matcher, needs)
    wanted = needs.wanted if coefficients is not None else Wanted(False, False)
    if piece >= n_slices:
        found = matcher(x, y, slices, x_weights, y_weights, p=p, wanted=wanted, y_sorted=y_sorted)
        if coefficients is None:
            return found.cost, Gradients()
        return found.cost, pull_back(found, x, y, slices, coefficients, needs)
    costs, turns, total = [], [], Gradients()
    for start in range(0, n_slices, piece):
        some = slices[..., start : start + piece, :]
        known = None if y_sorted is None else y_sorted[..., start : start + piece, :]
        found = matcher(x, y, some, x_weights, y_weights, p=p, wanted=wanted, y_sorted=known)
        costs.append(found.cost)
        if coefficients is not None:
            factor = coefficients[..., start : start + piece]
            gradients = pull_back(found, x, y, some, factor, needs)
            turns.append(gradients.slices)
            total = sum_of(total, gradients._replace(slices=None))
    if needs.slices and coefficients is not None:
        total = total._replace(slices=torch.cat([t for t in turns if t is not None], dim=-2))
    return torch.cat(costs, dim=-1), total


def pull_back(
    found: Match, x: Tensor, y: Tensor, slices: Tensor, factor: Tensor | float, needs: Needs
) -> Gradients:
    """Gradients of Σ factor · cost, factor (..., L) or one number for all, from those on the lines.

    In a backward pass that is itself recorded, what was kept is constant to autograd; `found` then has
    to be stated anew as a function of the inputs.
    """
    u_grad, v_grad = found.u_grad, found.v_grad
    x_grad = backproject(u_grad, slices, factor) if needs.x and u_grad is not None else None
    y_grad = backproject(v_grad, slices, factor) if needs.y and v_grad is not None else None
    if not (needs.slices or needs.x_weights or needs.y_weights):
        return Gradients(x_grad, y_grad)
    each = factor.unsqueeze(-1) if isinstance(factor, Tensor) else factor  # (..., L, 1)
    slices_grad = None
    if needs.slices and u_grad is not None and v_grad is not None:
        slices_grad = each * (u_grad @ x + v_grad @ y)
    a, b = (
        (each * potential).sum(dim=-2) if potential is not None else None
        for potential in (found.u_weights_grad, found.v_weights_grad)
    )
    return Gradients(x_grad, y_grad, slices_grad, a, b)


def sum_of(one: Gradients, other: Gradients) -> Gradients:
    """Two sets of gradients added, one of which may lack some."""
    pairs = zip(one, other, strict=True)
    return Gradients(*(b if a is None else a if b is None else a.add_(b) for a, b in pairs))


def plain_of(matcher: Matcher) -> Matcher:
    """The plain version of a matcher."""
    return matcher.plain if isinstance(matcher, PricingMatcher) else match_slices


def swapped(matcher: Matcher) -> Matcher:
    """The matcher for the same samples with x and y swapped; one that knows no samples is its own."""
    return matcher.swapped() if isinstance(matcher, JointMatcher) else matcher


def slices_in_a_piece(
    x: Tensor,
    y: Tensor,
    slices: Tensor,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    matcher: Matcher,
    needs: Needs,
) -> int:
    """How many slices can be matched at once within `PIECE_BYTES`.

    A matcher that works with other processes says so itself: all of them must come to the same number.
    """
    if isinstance(matcher, JointMatcher):
        return matcher.slices_in_a_piece(x, y, slices, x_weights, y_weights)
    batched = [t.shape[:-2] for t in (x, y, slices) if t.dim() > 2]
    batched += [w.shape[:-1] for w in (x_weights, y_weights) if w is not None and w.dim() > 1]
    elements = math.prod(broadcast(*batched)) if batched else 1
    numbers = x.shape[-2] + y.shape[-2]
    if isinstance(matcher, PricingMatcher):
        numbers = matcher.numbers_held(x, y)
    per_slice = elements * numbers * x.element_size()
    plain = matcher is match_slices or needs.x_weights or needs.y_weights
    if x.device.type != "cpu":
        weighted = x_weights is not None or y_weights is not None
        held = _WEIGHTED_DEVICE_FOOTPRINT if weighted else _DEVICE_FOOTPRINT
        held = _PLAIN_FOOTPRINT if plain else held
        return max(1, DEVICE_PIECE_BYTES // (held * per_slice))
    return max(1, PIECE_BYTES // (per_slice * (_PLAIN_FOOTPRINT if plain else 1)))
