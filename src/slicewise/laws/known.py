"""Laws in R^d that samples are compared with: normal, Student's, uniform on a sphere or in a ball, on a line, mixtures."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from slicewise.laws.lines import (
    NormalPositions,
    QuantileLine,
    SphereSlice,
    StandardNormal,
    StudentLine,
)
from slicewise.sampling import Generators, Randomness, uniform
from slicewise.support import broadcast, check_count, check_generator, values_readable
from slicewise.transport import KnownLaw, LineLaw, Placed

_POSITIONS = NormalPositions()
_NORMAL = StandardNormal()  # one, so that what is kept of it serves every law


class _Rows(NamedTuple):
    """Where a component stands in a frame: the row of its mean, the rows of its axes, or its width where it has none."""

    mean: int
    axes: slice | None
    width: float
    signed: bool = False  # one axis, along which the law may be turned round


# Laws by number: an operation in compiled code takes tensors and numbers only.
_known: WeakValueDictionary[int, Law] = WeakValueDictionary()
_numbers = itertools.count()


def law_of_number(number: int) -> Law:
    """The law that has this number in this process."""
    return _known[number]


class Law:
    """A law in R^d that is known, to be given in the place of samples y.

    Every cost and gradient is that of the samples x against the law itself: nothing is sampled.

    Attributes:
        d: The dimension; None for a law that takes that of the samples.
    """

    d: int | None = None
    number: int  # by which compiled code knows it
    is_constant = True  # one law, of whose parameters no gradient is asked

    def __new__(cls, *_: Any, **__: Any) -> Self:
        made = super().__new__(cls)
        made.number = next(_numbers)
        _known[made.number] = made
        return made

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"number": self.number})  # numbers are those of a process

    @property
    def version(self) -> tuple[int, ...] | None:
        """Numbers that change when a parameter is changed in place; None where that cannot be told."""
        return None

    def on_lines(self, d: int) -> tuple[tuple[LineLaw, ...], tuple[float, ...]]:
        """The laws on the line that it is on every slice, moved and scaled, and how much each counts."""
        raise NotImplementedError

    def frame(self, d: int, *, whole: bool) -> tuple[Tensor, tuple[_Rows, ...]]:
        """Its means and axes as rows (*batch, k, d), differentiable in its parameters, and what each row is.

        Axes of a law that is as wide in every direction are left out, unless the `whole` is asked for.
        """
        raise NotImplementedError

    def sample(self, n: int, d: int | None = None, *, generator: Generators = None) -> Tensor:
        """Draw samples.

        Args:
            n: How many.
            d: The dimension, for a law that has none of its own.
            generator: An int (a seed), a `torch.Generator`, or None for torch's global generator.

        Returns:
            Samples (*batch, n, d), float64, on the device of the law's parameters; without gradients.
        """
        check_count("n", n)
        check_generator(generator)
        with torch.no_grad():
            return self._drawn(n, self.dimension(d), generator)

    def _drawn(self, n: int, d: int, generator: Generators) -> Tensor:
        raise NotImplementedError

    def dimension(self, d: int | None) -> int:
        """The dimension for samples of d dimensions.

        Raises:
            ValueError: If the law has another one, or neither is known.
        """
        if d is None and self.d is None:
            raise ValueError(f"{self!r} has no dimension of its own: give d")
        if d is not None and self.d is not None and d != self.d:
            raise ValueError(f"{self!r} is a law in {self.d} dimensions, the samples have {d}")
        return int(self.d if d is None else d)  # type: ignore[arg-type]

    def points(self, d: int) -> Tensor:
        """Points (*batch, k, d) that span what the law does: means, and the ends of axes, as many as its whole frame."""
        frame, rows = self.frame(d, whole=True)
        found = frame.detach().clone()
        for one in rows:
            if one.axes is not None:
                found[..., one.axes, :] += found[..., one.mean : one.mean + 1, :]
        return found

    def check_order(self, p: float, d: int) -> None:
        """Refuse a p whose moment is infinite: so is the distance."""
        for line in self.on_lines(d)[0]:
            trouble = line.infinite(p)
            if trouble is not None:
                raise ValueError(trouble)

    def mean_and_spread(self, d: int, frame: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Its mean (*batch, d), and the root of the mean squared distance from it (*batch,); infinite if that is.

        Of another batch of such laws, if their whole frame (*batch, k, d) is given.
        """
        lines, weights = self.on_lines(d)
        own, rows = self.frame(d, whole=True)
        frame = own if frame is None else frame
        means, squares = [], []
        for line, weight, one in zip(lines, weights, rows, strict=True):
            mean = frame[..., one.mean, :]
            axes = frame[..., one.axes, :] if one.axes is not None else frame[..., :0, :]
            means.append(weight * mean)
            width = axes.square().sum(dim=(-2, -1)) * line.second_moment
            squares.append(weight * (width + mean.square().sum(dim=-1)))
        mean = torch.stack(means).sum(dim=0)
        square = torch.stack(squares).sum(dim=0) - mean.square().sum(dim=-1)
        return mean, square.clamp(min=0).sqrt()


@dataclasses.dataclass(frozen=True, eq=False)
class OnSlices(KnownLaw):
    """A law as the engine knows it: what its frame means on slices of d dimensions."""

    lines: tuple[LineLaw, ...]
    weights: tuple[float, ...]
    rows: tuple[_Rows, ...]

    @property
    def is_whole(self) -> bool:
        return all(one.axes is not None for one in self.rows)

    @property
    def width(self) -> float | None:
        return self.rows[0].width if len(self.rows) == 1 and self.rows[0].axes is None else None

    def placed(self, frame: Tensor, lengths: Tensor) -> Placed:
        locs, scales = [], []
        for one in self.rows:
            loc = frame[..., one.mean]
            if one.axes is None:
                scale = one.width * lengths.expand(loc.shape)
            elif one.signed:
                scale = frame[..., one.axes.start]
            else:
                # Kept from 0, where a norm has no slope: a law without width stays one.
                square = frame[..., one.axes].square().sum(dim=-1)
                point = square == 0
                scale = torch.where(point, 0, torch.where(point, 1, square).sqrt())
            locs.append(loc)
            scales.append(scale)
        if len(self.rows) == 1:
            return Placed(locs[0].unsqueeze(-1), scales[0].unsqueeze(-1))
        return Placed(torch.stack(locs, dim=-1), torch.stack(scales, dim=-1))

    def frame_gradient(self, frame: Tensor, placed: Placed, grads: Placed) -> Tensor:
        batch = broadcast(frame.shape[:-1], grads.loc.shape[:-1])
        columns: list[Tensor] = [frame.new_zeros(())] * frame.shape[-1]
        for k, one in enumerate(self.rows):
            columns[one.mean] = grads.loc[..., k].expand(batch)
            if one.axes is None:
                continue
            slope, scale = grads.scale[..., k], placed.scale[..., k]
            for row in range(one.axes.start, one.axes.stop):
                if one.signed:
                    columns[row] = slope.expand(batch)
                else:
                    along = frame[..., row] / torch.where(scale == 0, 1, scale)
                    columns[row] = (slope * along).expand(batch)
        return torch.stack(columns, dim=-1)


def on_slices(law: Law, d: int, *, whole: bool) -> tuple[Tensor, OnSlices]:
    """The frame of a law, to stand for samples y, and what it means."""
    frame, rows = law.frame(d, whole=whole)
    return frame, OnSlices(*law.on_lines(d), rows)


def _as_parameter(name: str, value: Any) -> Tensor:
    try:
        found = value if isinstance(value, Tensor) else torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"{name} is {value!r}: give a number, a list of numbers or a tensor"
        ) from None
    if found.is_complex():
        raise ValueError(f"{name} has dtype {found.dtype}: give real numbers")
    if not found.is_floating_point():
        found = found.double()
    if values_readable(found) and not bool(found.detach().isfinite().all()):
        raise ValueError(f"{name} has NaN or infinite entries: give finite numbers")
    return found


class _Elliptical(Law):
    """A law whose slices are one law on the line, moved and scaled: a mean and axes."""

    def __init__(self, mean: Any, width: Any, *, width_name: str) -> None:
        self.mean = _as_parameter("mean", mean)
        self._width = _as_parameter(width_name, width)
        shapes = [self.mean.shape[-1]] if self.mean.dim() else []
        shapes += [self._width.shape[-1]] if self._width.dim() else []
        if len(set(shapes)) > 1:
            raise ValueError(
                f"mean has shape {tuple(self.mean.shape)} and {width_name} {tuple(self._width.shape)}: their last "
                f"dimensions must agree"
            )
        self.d = shapes[0] if shapes else None
        tracked = self.mean.requires_grad or self._width.requires_grad
        self.is_constant = not tracked and self.mean.dim() <= 1 and self._width.dim() <= 2

    @property
    def version(self) -> tuple[int, ...] | None:
        both = (self.mean, self._width)
        if any(t.is_inference() for t in both):
            return None
        # Which tensors, too: attributes may be replaced.
        return tuple(number for t in both for number in (id(t), t._version))

    def _isotropic_width(self) -> Tensor | None:
        """The width, a number, where it is the same in all directions."""
        raise NotImplementedError

    def _axes(self, d: int) -> Tensor:
        """Axes (*batch, k, d), whose Gram matrix is the scale matrix."""
        raise NotImplementedError

    def _line(self, d: int) -> LineLaw:
        raise NotImplementedError

    def on_lines(self, d: int) -> tuple[tuple[LineLaw, ...], tuple[float, ...]]:
        return (self._line(self.dimension(d)),), (1.0,)

    def frame(self, d: int, *, whole: bool) -> tuple[Tensor, tuple[_Rows, ...]]:
        width = self._isotropic_width()
        mean = self.mean if self.mean.dim() else self.mean.expand(d)
        mean = mean.unsqueeze(-2)
        if (
            width is not None
            and not whole
            and not (width.requires_grad and torch.is_grad_enabled())
        ):
            return mean, (_Rows(0, None, float(width)),)
        axes = self._axes(d)
        batch = broadcast(mean.shape[:-2], axes.shape[:-2])
        wide = torch.promote_types(mean.dtype, axes.dtype)
        both = [t.to(axes.device, wide).expand(*batch, *t.shape[-2:]) for t in (mean, axes)]
        return torch.cat(both, dim=-2), (_Rows(0, slice(1, 1 + axes.shape[-2]), 1.0),)

    def _standard(
        self, n: int, d: int, k: int, generator: Generators, batch: tuple[int, ...]
    ) -> Tensor:
        """Standard samples (*batch, n, k)."""
        raise NotImplementedError

    def _drawn(self, n: int, d: int, generator: Generators) -> Tensor:
        axes = self._axes(d).double()
        mean = self.mean.to(axes.device).double()
        batch = tuple(broadcast(axes.shape[:-2], mean.shape[:-1] if mean.dim() else ()))
        standard = self._standard(n, d, axes.shape[-2], generator, batch)
        return standard @ axes + (mean.unsqueeze(-2) if mean.dim() else mean)

    def _normals(self, shape: tuple[int, ...], generator: Generators) -> Tensor:
        rng = Randomness(generator, self._width.device)
        return rng.normal(*shape).double()


class _WithCovariance(_Elliptical):
    """One whose axes are a root of a matrix that is given: a number, a diagonal or a matrix."""

    def __init__(self, mean: Any, cov: Any, *, name: str) -> None:
        super().__init__(mean, cov, width_name=name)
        self._name = name
        if self._width.dim() >= 2 and self._width.shape[-1] != self._width.shape[-2]:
            raise ValueError(
                f"{name} has shape {tuple(self._width.shape)}: give a number, a diagonal (d,) or a matrix (d, d)"
            )
        if self._width.dim() >= 2:
            off = (self._width - self._width.mT).detach().abs().max()
            if float(off) > 1e-5 * float(self._width.detach().abs().max()):
                raise ValueError(f"{name} is not symmetric: give (A + A.mT) / 2")
            self._root()  # refuses what is no covariance, now
        else:
            self._deviations()

    def _deviations(self) -> Tensor:
        """The roots of a number or of a diagonal."""
        least = float(self._width.detach().min())
        if least < 0:
            raise ValueError(
                f"{self._name} has negative entries ({least:.3g}): variances are at least 0"
            )
        if least == 0 and self._width.requires_grad:
            raise ValueError(
                f"{self._name} asks for a gradient and has a variance of 0, where it has none: give positive ones"
            )
        return self._width.sqrt()

    def _isotropic_width(self) -> Tensor | None:
        return self._deviations() if self._width.dim() == 0 else None

    def _root(self) -> Tensor:
        wide = self._width.double()
        factor, trouble = torch.linalg.cholesky_ex(wide)
        if not bool(trouble.any()):
            return factor.mT
        # Singular, or no covariance at all.
        values, vectors = torch.linalg.eigh(wide)
        if bool((values.detach() < -1e-7 * values.detach().abs().amax()).any()):
            raise ValueError(
                f"a covariance has no negative eigenvalues, this one has {float(values.detach().min()):.3g}: give a "
                f"positive semidefinite matrix"
            )
        if wide.requires_grad:
            raise ValueError(
                f"{self._name} is singular and asks for a gradient: it has none; give a positive definite matrix"
            )
        return values.clamp(min=0).sqrt().unsqueeze(-1) * vectors.mT

    def _axes(self, d: int) -> Tensor:
        if self._width.dim() == 0:
            return self._deviations() * torch.eye(
                d, dtype=self._width.dtype, device=self._width.device
            )
        if self._width.dim() == 1:
            return torch.diag_embed(self._deviations())
        return self._root()


class Normal(_WithCovariance):
    """The normal law.

    Use `Normal()`, of mean 0 and covariance 1, as the target of embeddings in self-supervised learning and as the prior
    of autoencoders; it takes the dimension of the samples.

    Args:
        mean: A number, or (d,), or (*batch, d) for one law for each element of a batch.
        cov: The covariance: a number (times the identity), (d,) (a diagonal), or (*batch, d, d).

    Raises:
        ValueError: For shapes that do not fit, and a matrix that is no covariance.

    Gradients go to `mean` and `cov` where they ask for one.

    >>> import slicewise as sw
    >>> x = torch.zeros(3, 2)
    >>> float(sw.sliced_wasserstein(x, Normal(), objective="power"))  # every slice has variance 1
    1.0
    """

    def __init__(self, mean: Any = 0.0, cov: Any = 1.0) -> None:
        super().__init__(mean, cov, name="cov")
        self.cov = self._width

    def _line(self, d: int) -> LineLaw:
        return _NORMAL

    def _standard(
        self, n: int, d: int, k: int, generator: Generators, batch: tuple[int, ...]
    ) -> Tensor:
        return self._normals((*batch, n, k), generator)

    def __repr__(self) -> str:
        return f"Normal(mean={_brief(self.mean)}, cov={_brief(self.cov)})"


class PlottingPositions(Normal):
    """The normal quantiles of i / (n + 1) in the place of the standard normal law, for samples of equal weight and p = 2.

    Not a law: as n points they are narrower than it, by a bias that falls like log n / n. Only to compute what is
    published.
    """

    def _line(self, d: int) -> LineLaw:
        return _POSITIONS


class StudentT(_WithCovariance):
    """Student's law in R^d, with heavier tails than the normal law; distances need p < df.

    Args:
        df: Degrees of freedom, above 1; a constant.
        mean: A number, (d,) or (*batch, d).
        scale: The scale matrix: a number (times the identity), (d,) (a diagonal), or (*batch, d, d). The covariance is
            scale · df / (df − 2).

    Raises:
        ValueError: For df ≤ 1 and shapes that do not fit.

    >>> StudentT(5.0).sample(4, d=3, generator=0).shape
    torch.Size([4, 3])
    """

    def __init__(self, df: float | Tensor, mean: Any = 0.0, scale: Any = 1.0) -> None:
        if isinstance(df, Tensor) and df.requires_grad:
            raise ValueError(
                "df asks for a gradient, which mean and scale alone have: give float(df)"
            )
        if not 1 < float(df) < math.inf:
            raise ValueError(f"df = {df}: give a finite number above 1; p must be less than df")
        super().__init__(mean, scale, name="scale")
        self.df, self.scale = float(df), self._width

    def _line(self, d: int) -> LineLaw:
        return _student(self.df)

    def _standard(
        self, n: int, d: int, k: int, generator: Generators, batch: tuple[int, ...]
    ) -> Tensor:
        rng = Randomness(generator, self._width.device)
        normal = rng.normal(*batch, n, k).double()
        # χ² from the law of Gamma, by a generator of its own that is seeded from the same source.
        own = torch.Generator().manual_seed(int(float(rng.uniform(1)[0]) * 2**31))
        half = torch.full((*batch, n, 1), self.df / 2, dtype=torch.float64)
        squares = 2 * torch._standard_gamma(half, generator=own).to(normal.device)
        return normal * (self.df / squares).sqrt()

    def __repr__(self) -> str:
        return f"StudentT({self.df:g}, mean={_brief(self.mean)}, scale={_brief(self.scale)})"


class _Round(_Elliptical):
    """Uniform on a sphere or in a ball."""

    def __init__(self, radius: Any, center: Any) -> None:
        super().__init__(center, radius, width_name="radius")
        if self._width.dim() != 0 or not float(self._width.detach()) > 0:
            raise ValueError(f"radius = {radius!r}: give a positive number")
        self.radius, self.center = self._width, self.mean

    def _isotropic_width(self) -> Tensor | None:
        return self.radius

    def _axes(self, d: int) -> Tensor:
        return self.radius * torch.eye(d, dtype=self.radius.dtype, device=self.radius.device)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(radius={_brief(self.radius)}, center={_brief(self.center)})"


class UniformSphere(_Round):
    """The uniform law on a sphere of R^d, d ≥ 2: the target of embeddings of unit length.

    Args:
        radius: A positive number.
        center: A number, (d,) or (*batch, d).

    >>> import slicewise as sw
    >>> x = torch.zeros(3, 4)
    >>> round(float(sw.sliced_wasserstein(x, UniformSphere(2.0), objective="power")), 6)  # radius² / d
    1.0
    """

    def __init__(self, radius: Any = 1.0, center: Any = 0.0) -> None:
        super().__init__(radius, center)

    def _line(self, d: int) -> LineLaw:
        if d < 2:
            raise ValueError(
                "a sphere in one dimension is two points: give samples, e.g. y = torch.tensor([[-1.0], [1.0]])"
            )
        return _sphere(d)

    def _standard(
        self, n: int, d: int, k: int, generator: Generators, batch: tuple[int, ...]
    ) -> Tensor:
        return uniform((*batch, n, k), Randomness(generator, self._width.device), torch.float64)


class UniformBall(_Round):
    """The uniform law in a ball of R^d.

    Args:
        radius: A positive number.
        center: A number, (d,) or (*batch, d).

    >>> UniformBall().sample(5, d=2, generator=0).norm(dim=-1).max() <= 1
    tensor(True)
    """

    def __init__(self, radius: Any = 1.0, center: Any = 0.0) -> None:
        super().__init__(radius, center)

    def _line(self, d: int) -> LineLaw:
        return _sphere(d + 2)  # of which it is a marginal

    def _standard(
        self, n: int, d: int, k: int, generator: Generators, batch: tuple[int, ...]
    ) -> Tensor:
        shape = (*batch, n, d + 2)
        return uniform(shape, Randomness(generator, self._width.device), torch.float64)[..., :k]


class Quantile(Law):
    """A law that is given by its quantile function: in one dimension, or as every slice of a law in R^d.

    Integrals over the quantile function are computed by double-exponential quadrature. For a quantile function that is
    smooth inside (0, 1) their error is below 1e-10 of the law's width, tails like those of the normal law included.
    Up to 32 levels at which it or a derivative jumps are found, and integrals are split there: the same error. Jumps less
    than 1/64 from each other, or next to 0 or 1, may be missed, as of a Poisson law's tails: errors are then up to the
    size of the jump times its distance from the end. Of more than 32 the largest are taken: distances to tables of 40 to
    10,000 numbers with straight lines between, also in two groups, and to 40 atoms were off by up to 0.7 %.

    Args:
        quantile: A function of a float64 tensor of levels in (0, 1), not decreasing; or a law of `torch.distributions`
            for numbers, with `icdf`, whose parameters are not batched. Its parameters are constants.
        every_slice: Take it as the law of every slice of unit length: that of a law in R^d that is invariant under
            rotations. It must then be symmetric. Without it, samples have one dimension.

    Raises:
        ValueError: For a function that is no quantile function.

    >>> import slicewise as sw
    >>> x = torch.tensor([[0.0], [1.0]])
    >>> law = Quantile(torch.distributions.Uniform(0.0, 1.0))
    >>> round(float(sw.sliced_wasserstein(x, law, p=1)), 6)
    0.25
    """

    def __init__(
        self,
        quantile: Callable[[Tensor], Tensor] | torch.distributions.Distribution,
        *,
        every_slice: bool = False,
    ) -> None:
        self._given = quantile
        if isinstance(quantile, torch.distributions.Distribution):
            line = _line_of(quantile)
        elif callable(quantile):
            line = QuantileLine(quantile)
        else:
            raise ValueError(
                f"quantile is a {type(quantile).__name__}: give a function of levels, or a law of torch.distributions"
            )
        self.every_slice = every_slice
        if every_slice:
            level = torch.linspace(0.05, 0.45, 9, dtype=torch.float64)
            gap = (line.quantile(level) + line.quantile(1 - level)).abs().max()
            if float(gap) > 1e-6 * (1 + float(line.quantile(level).abs().max())):
                raise ValueError(
                    "every_slice=True with a law that is not symmetric about 0: slices of a law that is invariant under "
                    "rotations are; give a symmetric quantile function"
                )
        else:
            self.d = 1
        self._line = line

    def dimension(self, d: int | None) -> int:
        if self.d == 1 and d not in (None, 1):
            raise ValueError(
                f"{self!r} is a law on the line, the samples have {d} dimensions: give samples (n, 1), or every_slice=True "
                f"if every slice has this law"
            )
        return super().dimension(d)

    def on_lines(self, d: int) -> tuple[tuple[LineLaw, ...], tuple[float, ...]]:
        self.dimension(d)
        return (self._line,), (1.0,)

    def frame(self, d: int, *, whole: bool) -> tuple[Tensor, tuple[_Rows, ...]]:
        zero = torch.zeros(1, d, dtype=torch.float64)
        if not self.every_slice:
            return torch.cat([zero, torch.ones(1, 1, dtype=torch.float64)]), (
                _Rows(0, slice(1, 2), 1.0, signed=True),
            )
        if not whole:
            return zero, (_Rows(0, None, 1.0),)
        axes = torch.eye(d, dtype=torch.float64)
        return torch.cat([zero, axes]), (_Rows(0, slice(1, 1 + d), 1.0),)

    def _drawn(self, n: int, d: int, generator: Generators) -> Tensor:
        if self.every_slice and d > 1:
            raise ValueError(
                f"{self!r} says what every slice of a law is, not the law: no samples can be drawn in {d} dimensions"
            )
        level = Randomness(generator, torch.device("cpu")).uniform(n, 1).double()
        return self._line.quantile(level)

    def __repr__(self) -> str:
        name = getattr(self._given, "__name__", None) or repr(self._given)
        return f"Quantile({name}{', every_slice=True' if self.every_slice else ''})"


class Mixture(Law):
    """A mixture of laws with means and widths: on each slice, the mixture of their slices.

    Quantiles of a mixture have no formula: they are found by Newton's method on every slice, to the last digits of float64.

    Args:
        components: Laws of this module, other than mixtures and `Quantile`.
        weights: How much each counts, summing to one; None is equally. Constants: gradients go to the components.

    Raises:
        ValueError: For weights that do not sum to one, and for components that do not fit together.

    >>> two = Mixture([Normal([-2.0, 0.0], 0.1), Normal([2.0, 0.0], 0.1)])
    >>> two.sample(6, generator=0).shape
    torch.Size([6, 2])
    """

    def __init__(
        self, components: Sequence[Law], weights: Sequence[float] | Tensor | None = None
    ) -> None:
        if isinstance(components, Law):
            raise ValueError(f"components is {components!r}: give a list of laws")
        self.components = tuple(components)
        if not self.components:
            raise ValueError("a mixture of no laws: give at least one component")
        for one in self.components:
            if not isinstance(one, _Elliptical):
                name = repr(one) if isinstance(one, Law) else type(one).__name__
                raise ValueError(
                    f"{name} in a mixture: components are Normal, StudentT, UniformSphere or UniformBall"
                )
        given = [1 / len(self.components)] * len(self.components) if weights is None else weights
        if isinstance(given, Tensor) and given.requires_grad:
            raise ValueError("weights of a mixture are constants: give weights.tolist()")
        self.weights = tuple(float(w) for w in given)
        if len(self.weights) != len(self.components) or min(self.weights) < 0:
            raise ValueError(
                f"weights = {list(self.weights)} for {len(self.components)} components: give one weight of at least 0 for each"
            )
        if abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError(f"weights sum to {sum(self.weights):.6g}: divide them by their sum")
        dimensions = {one.d for one in self.components} - {None}
        if len(dimensions) > 1:
            raise ValueError(
                f"components in {sorted(map(str, dimensions))} dimensions: give laws of one"
            )
        self.d = next(iter(dimensions), None)
        self.is_constant = all(one.is_constant for one in self.components)

    def on_lines(self, d: int) -> tuple[tuple[LineLaw, ...], tuple[float, ...]]:
        lines = tuple(one.on_lines(self.dimension(d))[0][0] for one in self.components)
        return lines, self.weights

    def frame(self, d: int, *, whole: bool) -> tuple[Tensor, tuple[_Rows, ...]]:
        frames, rows, start = [], [], 0
        for one in self.components:
            frame, (row,) = one.frame(d, whole=whole)
            axes = row.axes
            if axes is not None:
                axes = slice(axes.start + start, axes.stop + start)
            rows.append(_Rows(start, axes, row.width))
            frames.append(frame)
            start += frame.shape[-2]
        batch = broadcast(*(f.shape[:-2] for f in frames))
        wide = functools.reduce(torch.promote_types, (f.dtype for f in frames))
        whole_frame = [f.to(wide).expand(*batch, *f.shape[-2:]) for f in frames]
        return torch.cat(whole_frame, dim=-2), tuple(rows)

    def _drawn(self, n: int, d: int, generator: Generators) -> Tensor:
        rng = Randomness(generator, torch.device("cpu"))
        chances = torch.tensor(self.weights, dtype=torch.float64).cumsum(0)
        which = torch.searchsorted(chances, rng.uniform(n).double()).clamp(
            max=len(self.weights) - 1
        )
        seeds = (rng.uniform(len(self.components)) * 2**31).long().tolist()
        drawn = [
            one.sample(n, d, generator=seed)
            for one, seed in zip(self.components, seeds, strict=True)
        ]
        found = torch.zeros_like(torch.broadcast_tensors(*drawn)[0])
        for k, one in enumerate(drawn):
            found = torch.where((which == k).to(one.device).unsqueeze(-1), one, found)
        return found

    def __repr__(self) -> str:
        return f"Mixture({list(self.components)}, weights={[round(w, 6) for w in self.weights]})"


@functools.cache
def _sphere(d: int) -> SphereSlice:
    return SphereSlice(d)


@functools.cache
def _student(df: float) -> StudentLine:
    return StudentLine(df)


def _line_of(law: torch.distributions.Distribution) -> QuantileLine:
    if tuple(law.batch_shape) or tuple(law.event_shape):
        raise ValueError(
            f"{law!r} is a batch of laws, or a law in several dimensions: give one law for numbers, e.g. "
            f"torch.distributions.Laplace(0.0, 1.0)"
        )
    wide = _double(law)
    if any(isinstance(t, Tensor) and t.requires_grad for t in vars(law).values()):
        raise ValueError(
            f"{law!r} has parameters that ask for a gradient, which they do not get here: detach them, or take a law that "
            f"has parameters, e.g. Normal(mean, cov)"
        )
    try:
        wide.icdf(torch.tensor([0.5], dtype=torch.float64))
    except NotImplementedError:
        raise ValueError(
            f"{law!r} has no quantile function (icdf): give one as a function of levels, or samples as y"
        ) from None
    try:
        wide.cdf(wide.icdf(torch.tensor([0.5], dtype=torch.float64)))
    except NotImplementedError:
        return QuantileLine(wide.icdf)
    return QuantileLine(wide.icdf, wide.cdf)


def _double(law: torch.distributions.Distribution) -> torch.distributions.Distribution:
    """The same law with parameters in float64, without the checks of arguments that refuse the ends of the support."""
    names = law.arg_constraints
    try:
        parameters = {
            name: getattr(law, name).detach().double() for name in names if name in vars(law)
        }
        return type(law)(**parameters, validate_args=False)
    except (TypeError, AttributeError, NotImplementedError):
        law._validate_args = False
        return law


def _brief(value: Tensor) -> str:
    """A parameter as it is printed: a number, or which of several it is."""
    still = value.detach()
    if still.dim() == 0:
        return f"{float(still):.6g}"
    return f"<tensor {tuple(still.shape)}, sum {float(still.double().sum()):.9g}>"


def refuse_laws(what: str, *given: object, instead: str = "give samples of it") -> None:
    """Refuse a law where samples are needed.

    Args:
        what: The function that was called.
        *given: What may be a law.
        instead: What to do.

    Raises:
        ValueError: If something that was given is a law.
    """
    for one in given:
        if isinstance(one, Law):
            raise ValueError(f"{what} takes samples, and was given {one}, a law: {instead}")
