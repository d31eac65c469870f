"""Standard laws on the line, in float64: quantile functions and partial integrals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from slicewise.transport import LineCells, LineLaw, double_exponential, solved

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_FAR = 39.0  # beyond it the normal density is zero in float64


class StandardNormal(LineLaw):
    """The normal law of mean 0 and variance 1, which is every slice of the standard normal law in R^d."""

    def quantile(self, level: Tensor) -> Tensor:
        return torch.special.ndtri(level)

    def cdf(self, x: Tensor) -> Tensor:
        return torch.special.ndtr(x)

    def density(self, x: Tensor) -> Tensor:
        return torch.exp(-x * x / 2) / _ROOT_TWO_PI

    def mean_up_to(self, x: Tensor) -> Tensor:
        return -self.density(x)

    def square_up_to(self, x: Tensor) -> Tensor:
        inside = x.clamp(-_FAR, _FAR)
        return torch.special.ndtr(x) - inside * self.density(inside)

    # The level itself: the quantile function has no singularity but a logarithm at the ends, which quadratures stand.
    def to_chart(self, x: Tensor) -> Tensor:
        return torch.special.ndtr(x)

    def from_chart(self, y: Tensor) -> Tensor:
        return torch.special.ndtri(y.clamp(1e-300, 1 - 2.0**-53))

    def chart_density(self, y: Tensor) -> Tensor:
        return torch.ones_like(y)


class NormalPositions(StandardNormal):
    """n points at the normal quantiles of i / (n + 1), as published regularizers take them for the law (p = 2)."""

    def equal_cells(self, n: int) -> LineCells:
        exact = super().equal_cells(n)
        points = torch.special.ndtri(torch.arange(1, n + 1, dtype=torch.float64) / (n + 1))
        return LineCells(exact.places, points, torch.zeros((), dtype=torch.float64))


class _Angular(LineLaw):
    """Laws whose lower half is I_w(a, 1/2) / 2, I the regularized incomplete beta function: a sphere's, Student's.

    The chart is an angle in [−π/2, π/2], in which the density is a multiple of cos^(2a − 1).
    """

    def __init__(self, a: float) -> None:
        self._a = a
        self._constant = math.exp(math.lgamma(a + 0.5) - math.lgamma(a)) / math.sqrt(math.pi)

    def chart_density(self, y: Tensor) -> Tensor:
        cosine = torch.cos(y).clamp(min=0)
        if self._a == 0.5:
            return torch.full_like(y, self._constant)
        return self._constant * cosine ** (2 * self._a - 1)

    def _level(self, angle: Tensor) -> Tensor:
        """The level of an angle; relative precision is that of the nearer tail."""
        tail = _beta_half(torch.cos(angle).square(), self._a) / 2
        return torch.where(angle < 0, tail, 1 - tail)

    def cdf(self, x: Tensor) -> Tensor:
        return _Level.apply(self.to_chart(x), self)

    def density(self, x: Tensor) -> Tensor:
        angle = self.to_chart(x)
        return self.chart_density(angle) * self._turn(angle)

    def _turn(self, angle: Tensor) -> Tensor:
        """By how much the angle changes with x."""
        raise NotImplementedError

    def quantile(self, level: Tensor) -> Tensor:
        return self.from_chart(self._angle(level))

    @torch.no_grad()
    def _angle(self, level: Tensor) -> Tensor:
        """The angle of a level, found in the lower half."""
        lower = torch.minimum(level, 1 - level)
        low = torch.full_like(lower, -math.pi / 2)
        angle = solved(self._level, self.chart_density, lower, low, torch.zeros_like(lower))
        angle = torch.where(lower == 0, -math.pi / 2, torch.where(lower == 0.5, 0.0, angle))
        return torch.where(level > 0.5, -angle, angle)


class SphereSlice(_Angular):
    """One coordinate of a uniform point on the unit sphere of R^d, d ≥ 2: density ∝ (1 − x²)^((d − 3) / 2).

    In d + 2 dimensions it is one coordinate of a uniform point of the unit ball of R^d.
    """

    def __init__(self, d: int) -> None:
        super().__init__((d - 1) / 2)
        self.d = d
        self.second_moment = 1 / d

    def to_chart(self, x: Tensor) -> Tensor:
        return torch.asin(x.clamp(-1, 1))

    def from_chart(self, y: Tensor) -> Tensor:
        return torch.sin(y)

    def _turn(self, angle: Tensor) -> Tensor:
        return 1 / torch.cos(angle).clamp(min=1e-8)

    def mean_up_to(self, x: Tensor) -> Tensor:
        # By parts: z times the density is the slope of −(1 − z²) · density / (d − 1).
        rest = (1 - x.clamp(-1, 1).square()).clamp(min=0)
        return -self._constant / (self.d - 1) * rest ** ((self.d - 1) / 2)

    def square_up_to(self, x: Tensor) -> Tensor:
        inside = x.clamp(-1, 1)
        rest = (1 - inside.square()).clamp(min=0)
        edge = inside * self._constant * rest ** ((self.d - 1) / 2)
        return (self.cdf(inside) - edge) / self.d


class StudentLine(_Angular):
    """Student's law of ν degrees of freedom, scale 1; the chart is the arc tangent of x / √ν."""

    def __init__(self, df: float) -> None:
        super().__init__(df / 2)
        self.df = df
        self.second_moment = df / (df - 2) if df > 2 else math.inf

    def infinite(self, p: float) -> str | None:
        if p < self.df:
            return None
        return f"the moment of order p = {p:g} of Student's law with df = {self.df:g} is infinite: give p < df"

    def to_chart(self, x: Tensor) -> Tensor:
        return torch.atan(x / math.sqrt(self.df))

    def from_chart(self, y: Tensor) -> Tensor:
        return math.sqrt(self.df) * torch.tan(y)

    def _turn(self, angle: Tensor) -> Tensor:
        return torch.cos(angle).square() / math.sqrt(self.df)

    def quantile(self, level: Tensor) -> Tensor:
        found = super().quantile(level)
        end = torch.where(level > 0.5, torch.inf, -torch.inf).to(found.dtype)
        return torch.where((level <= 0) | (level >= 1), end, found)

    def mean_up_to(self, x: Tensor) -> Tensor:
        nu = self.df
        cosine = torch.cos(self.to_chart(x)).clamp(min=0)
        return -self._constant * math.sqrt(nu) / (nu - 1) * cosine ** (nu - 1)

    def square_up_to(self, x: Tensor) -> Tensor:
        nu = self.df
        if nu <= 2:
            return torch.full_like(x, math.nan)  # p = 2 is refused
        angle = self.to_chart(x)
        cosine = torch.cos(angle).clamp(min=0)
        at_end = cosine < 1e-15
        edge = torch.sin(angle) * torch.where(at_end, 0, cosine) ** (nu - 2)
        edge = torch.where(at_end, 0, edge) * self._constant * nu
        return (nu * self.cdf(x) - edge) / (nu - 2)


class QuantileLine(LineLaw):
    """A law of which the quantile function is all that is known, or that and the distribution function."""

    symmetric = False
    closed_form = False

    def __init__(
        self, quantile: Callable[[Tensor], Tensor], cdf: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self._quantile, self._cdf = quantile, cdf
        levels = torch.tensor([0.25, 0.75], dtype=torch.float64)
        found: Any = quantile(levels)
        if not isinstance(found, Tensor) or found.shape != levels.shape:
            raise ValueError(
                "the quantile function does not give a tensor of the shape of the levels it is given: give a function of "
                "levels in (0, 1), e.g. torch.special.ndtri"
            )
        if found.requires_grad:
            raise ValueError(
                "the quantile function depends on tensors that ask for a gradient, which this law has for none: detach them, "
                "or take a law that has parameters, e.g. Normal(mean, cov)"
            )
        if not bool(found.isfinite().all()) or bool(found[1] < found[0]):
            raise ValueError(
                f"quantiles at 0.25 and 0.75 are {found.tolist()}: give a quantile function, finite inside (0, 1) and not "
                f"decreasing"
            )
        self._inside = _finite_inside(quantile)
        precision = found.dtype if found.is_floating_point() else torch.float64
        self.breaks = _breaks_of(self.quantile, precision)
        self._trouble = {p: self._tail(p) for p in (1.0, 2.0)}
        self.second_moment = math.inf if self._trouble[2.0] else self._second()

    def _tail(self, p: float) -> bool:
        """Does the part of the p-th moment beyond a level fail to vanish with the level?"""
        deep = torch.tensor([2.0**-30, 2.0**-48], dtype=torch.float64)
        for levels in (deep, 1 - deep):
            at = self._quantile(levels)
            parts = (deep.log() + p * at.abs().log()).tolist()
            # A tail of index ν falls as 2^(−k (1 − p/ν)).
            slow = not all(map(math.isfinite, at.tolist())) or parts[1] - parts[0] > -0.03 * 18
            if slow and not bool(at.abs().max() <= 1e3):  # NaN is one of these
                return True
        return False

    def infinite(self, p: float) -> str | None:
        bad = self._trouble[p] if p in self._trouble else self._tail(p)
        if not bad:
            return None
        return f"the moment of order p = {p:g} of this law is infinite, as far as its quantiles show: give a smaller p"

    def _second(self) -> float:
        ends = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
        return float(self.cell_integrals(ends)[1].sum())

    def quantile(self, level: Tensor) -> Tensor:
        return self._quantile(level.clamp(*self._inside)).to(level.dtype)

    @torch.no_grad()
    def cdf(self, x: Tensor) -> Tensor:
        if self._cdf is not None:
            ends = torch.tensor([0.0, 1.0], dtype=x.dtype, device=x.device)
            low, high = self.quantile(ends)
            return self._cdf(torch.minimum(torch.maximum(x, low), high)).to(x.dtype)
        low, high = torch.zeros_like(x), torch.ones_like(x)
        for _ in range(60):
            middle = (low + high) / 2
            below = self.quantile(middle) < x
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return (low + high) / 2

    def to_chart(self, x: Tensor) -> Tensor:
        return self.cdf(x)

    def from_chart(self, y: Tensor) -> Tensor:
        return self.quantile(y)

    def chart_density(self, y: Tensor) -> Tensor:
        return torch.ones_like(y)

    def cell_integrals(self, levels: Tensor) -> tuple[Tensor, Tensor]:
        starts, ends = levels[..., :-1], levels[..., 1:]
        first, second = torch.zeros_like(ends), torch.zeros_like(ends)
        for one, other in itertools.pairwise((0.0, *self.breaks, 1.0)):
            # Few cells have a part between two breaks, or several parts; NaN is in all of them.
            part = ~((starts >= other) | (ends <= one))
            low, high = starts[part].clamp(min=one), ends[part].clamp(max=other)
            width = high - low
            for node, weight in zip(*double_exponential(), strict=True):
                z = self.quantile(low + width * node if node < 0.5 else high - width * (1 - node))
                first[part] += weight * width * z
                second[part] += weight * width * z * z
        return first, second


def _finite_inside(quantile: Callable[[Tensor], Tensor]) -> tuple[float, float]:
    """The levels next to 0 and 1 at which quantiles are taken: rounding makes some functions infinite before the end."""
    near = 2.0 ** torch.arange(-53, -43, dtype=torch.float64)
    low, high = (
        next(
            (float(at) for at in levels if bool(quantile(at.reshape(1)).isfinite())),
            float(levels[0]),
        )
        for levels in (near, 1 - near)
    )
    return low, high


# Where quadratures over smaller and smaller intervals still do not agree, a function has a jump, or a derivative of it has
# one: intervals as short as this, and at most so many of them. A table that is interpolated has more: of these the
# largest are taken, as the gap between two groups of numbers. Towards the ends of the range intervals are shorter.
_ROUGH, _AT_THE_ENDS, _MOST_BREAKS = 2.0**-6, 2.0**-12, 32
_AGREE = 450  # in units of the function's own rounding


def _breaks_of(quantile: Callable[[Tensor], Tensor], precision: torch.dtype) -> tuple[float, ...]:
    """Levels at which a quantile function or a derivative of it jumps, in order; the largest where there are many."""

    def apart(low: Tensor, high: Tensor) -> Tensor:
        """By how much the integral over intervals differs from that over two parts of them."""
        # Not in the middle, about which a staircase of equal steps is odd: its errors would cancel there.
        middle = low + 0.382 * (high - low)
        whole, left, right = (
            _integral(quantile, *ends) for ends in ((low, high), (low, middle), (middle, high))
        )
        return (whole - left - right).abs()

    # Odd numbers: a kink at the end of an interval would not be seen, and 1/2 is a usual place for one.
    ends = torch.tensor([0.0, 1 / math.pi, math.sqrt(3) - 1, 1.0], dtype=torch.float64)
    low, high = ends[:-1], ends[1:]
    size = _integral(lambda level: quantile(level).abs(), low, high).sum()
    # A function that computes in single precision is rough everywhere at this scale: that is no kink.
    agree = _AGREE * torch.finfo(precision).eps * size
    found: list[Tensor] = []
    while len(low) and bool(size.isfinite()):
        # What is singular at the ends of the range is no kink: quadratures are made for it.
        at_an_end = (low == 0) | (high == 1)
        error = apart(low, high).masked_fill(at_an_end, math.inf)
        rough = torch.where(at_an_end, high - low > _AT_THE_ENDS, error > agree)
        most = error[rough].topk(min(int(rough.sum()), 2 * _MOST_BREAKS + 2)).indices
        low, high, at_an_end = (of[rough][most] for of in (low, high, at_an_end))
        small = ~at_an_end & (high - low <= _ROUGH)
        found += [torch.stack([low[small], high[small]])]
        low, high = low[~small], high[~small]
        middle = (low + high) / 2
        low, high = torch.cat([low, middle]), torch.cat([middle, high])
    if not found:
        return ()
    low, high = torch.cat(found, dim=1)
    largest = apart(low, high).argsort(descending=True)
    low, high = low[largest], high[largest]
    for _ in range(48):  # the half that disagrees more has it
        middle = (low + high) / 2
        left, right = apart(torch.cat([low, middle]), torch.cat([middle, high])).chunk(2)
        left = left > right
        low, high = torch.where(left, low, middle), torch.where(left, middle, high)
    levels: list[float] = []
    for level in ((low + high) / 2).tolist():
        # One at the end of two intervals is found in both.
        if all(abs(level - one) > 2.0**-30 for one in levels) and len(levels) < _MOST_BREAKS:
            levels.append(level)
    return tuple(sorted(levels))


def _integral(function: Callable[[Tensor], Tensor], low: Tensor, high: Tensor) -> Tensor:
    nodes, weights = (torch.tensor(t, dtype=torch.float64) for t in double_exponential())
    low, high = low.unsqueeze(-1), high.unsqueeze(-1)
    width = high - low
    levels = torch.where(nodes < 0.5, low + width * nodes, high - width * (1 - nodes))
    return (weights * width * function(levels.flatten()).view(levels.shape)).sum(dim=-1)


class _Level(torch.autograd.Function):
    """The level of an angle, whose slope is the density there."""

    @staticmethod
    def forward(ctx: Any, angle: Tensor, line: _Angular) -> Tensor:
        ctx.save_for_backward(angle)
        ctx.line = line
        return line._level(angle)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (angle,) = ctx.saved_tensors
        return grads[0] * ctx.line.chart_density(angle), None


@torch.no_grad()
def _beta_half(w: Tensor, a: float) -> Tensor:
    """I_w(a, 1/2), the regularized incomplete beta function, by its continued fraction.

    NIST Digital Library of Mathematical Functions, 8.17.22, on the side of the mean where it converges fast.
    """
    swap = w > (a + 1) / (a + 2.5)
    first = torch.where(swap, 0.5, a).to(w)
    second = torch.where(swap, a, 0.5).to(w)
    x = torch.where(swap, 1 - w, w)
    log_front = math.lgamma(a + 0.5) - math.lgamma(a) - math.lgamma(0.5)
    inside = x.clamp(min=1e-300)
    front = torch.exp(log_front + first * inside.log() + second * torch.log1p(-x)) / first
    value = torch.where(x > 0, front / _fraction(first, second, x), 0)
    return torch.where(swap, 1 - value, value)


def _fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """1 + d_1 / (1 + d_2 / (1 + …)) by the method of Lentz."""
    tiny = 1e-300
    value = torch.ones_like(x)
    c, d = torch.ones_like(x), torch.zeros_like(x)
    for m in range(400):
        for odd in (True, False):
            if odd:
                term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
            else:
                k = m + 1
                term = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
            d = 1 + term * d
            d = 1 / torch.where(d.abs() < tiny, tiny, d)
            c = 1 + term / c
            c = torch.where(c.abs() < tiny, tiny, c)
            change = c * d
            value = value * change
        if float((change - 1).abs().max()) < 1e-15:
            break
    return value
