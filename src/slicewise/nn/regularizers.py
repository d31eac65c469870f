"""Regularizers toward the standard normal law: one interface, exact over processes, of a strength that does not drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from slicewise.distance import SlicedWasserstein, law_pricer, tape_in_use
from slicewise.laws import Law, Normal, PlottingPositions
from slicewise.nn.characteristic import Grid, SlicedEppsPulley, value_and_gradient
from slicewise.nn.together import Known, Pricing, evaluated
from slicewise.sampling import Generators, Randomness, as_generators, uniform
from slicewise.support import (
    check_choice,
    check_count,
    check_finite,
    check_generator,
    check_set,
    check_slices,
    full_precision,
    is_transformed,
    share_pieces,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from slicewise.distributed import Ranks

Defaults = Literal["slicewise", "published"]


class Regularizer(nn.Module):
    """What the regularizers have in common.

    Embeddings are (*batch, n, d); each element of the batch, a view say, is compared with the law by itself, and the
    mean over the batch is returned.

    Args:
        n_slices: How many directions to draw at each call.
        group: A process group of `torch.distributed`. Embeddings are then this process's share, of any size, and the value
            is that of all of them, the same on every process.
        averaged: Multiply gradients by the number of processes, for gradients that are averaged over them afterwards, as
            DDP and FSDP do.
        generator: Where slices come from: an int seeds a stream of its own; None is torch's global generator. With a
            group, those of the first process count.
    """

    def __init__(
        self,
        n_slices: int,
        *,
        group: ProcessGroup | None = None,
        averaged: bool = False,
        generator: Generators = None,
    ) -> None:
        super().__init__()
        check_count("n_slices", n_slices)
        check_generator(generator)
        self.n_slices, self.averaged = n_slices, averaged
        self.generator = as_generators(generator)
        self.ranks: Ranks | None = None
        if group is not None:
            from slicewise.distributed import Ranks

            self.ranks = Ranks(group)

    # Slices are drawn, and processes meet, beside compiled code.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, x: Tensor, *, slices: Tensor | None = None) -> Tensor:
        """Compute the regularizer of embeddings x (*batch, n, d).

        Args:
            slices: Directions (L, d) to use in place of drawing some.

        Returns:
            A scalar.
        """
        check_set("x", x, may_be_empty=self.ranks is not None)
        if slices is None and self._is_plain(x):
            wide = x.detach().to(torch.promote_types(x.dtype, torch.float32))
            pricing = self._pricing(wide)
            if pricing is not None:
                found = evaluated(pricing, wide, self.n_slices, self.generator)
                # NaN shows in the value; on a device nobody looks, which would wait for it.
                if not x.is_cuda and not bool(found.value.isfinite()):
                    check_finite(x=x)
                value: Tensor = Known.apply(x, found, self._along)
                return value
        with full_precision(x.device.type):
            wide = x.to(torch.promote_types(x.dtype, torch.float32))
            if self.ranks is None:  # with others, NaN reaches all of them instead of stopping one
                check_finite(x=x)
            if slices is None:
                drawn = self._drawn(wide)
            else:
                check_slices(slices, x, tuple(x.shape[:-2]), x.shape[-1])
                drawn = slices.to(wide)
            value = self._value(wide, drawn).mean()
        if self.averaged and self.ranks is not None:
            from slicewise.distributed import Terms

            return Terms(self.ranks, averaged=True).corrected(value)
        return value

    def _is_plain(self, x: Tensor) -> bool:
        """Are value and gradient wanted, of one process, with nobody looking on?"""
        if self.ranks is not None or type(x) not in (Tensor, nn.Parameter):
            return False
        if not (x.requires_grad and torch.is_grad_enabled()) or tape_in_use() is not None:
            return False
        return not is_transformed(x) and forward_ad.unpack_dual(x).tangent is None

    def _along(self, x: Tensor, slices: Tensor) -> Tensor:
        """The mean over the batch along slices, as a function that autograd can follow."""
        with full_precision(x.device.type):
            return self._value(x.to(slices.dtype), slices).mean()

    def _pricing(self, x: Tensor) -> Pricing | None:
        """How value and gradient of embeddings like x are computed together; None where autograd has to do it."""
        return None

    def _value(self, x: Tensor, slices: Tensor) -> Tensor:
        """The value of each element of the batch, (*batch,)."""
        raise NotImplementedError

    def _drawn(self, x: Tensor) -> Tensor:
        rng = Randomness(self.generator, x.device)
        slices = uniform((self.n_slices, x.shape[-1]), rng, x.dtype)
        return slices if self.ranks is None else self.ranks.from_first(slices)

    def _count(self, x: Tensor) -> int:
        """The number of samples on all processes."""
        n = x.shape[-2]
        if self.ranks is not None:
            n = int(self.ranks.total(torch.tensor([n], dtype=torch.int64, device=x.device)))
        if n < 2:
            raise ValueError(f"x has {n} samples in all: give at least two")
        return n

    def extra_repr(self) -> str:
        """The settings."""
        words = f"n_slices={self.n_slices}"
        return (
            words if self.ranks is None else f"{words}, rank {self.ranks.rank} of {self.ranks.size}"
        )


class SlicedNormal(Regularizer):
    """The sliced W_2^2 between embeddings and the standard normal law itself, without sampling the law.

    Its gradient does not vanish where embeddings have collapsed to a point, and grows with their distance from the law:
    neither a scale nor a window has to be chosen.

    Args:
        n_slices: How many directions to draw at each call.
        law: Another law than the standard normal.
        group, averaged, generator: As in `Regularizer`.

    >>> loss = SlicedNormal(100, generator=0)
    >>> bool(loss(torch.randn(500, 8)) < loss(torch.zeros(500, 8)))
    True
    """

    def __init__(
        self,
        n_slices: int = 256,
        *,
        law: Law | None = None,
        group: ProcessGroup | None = None,
        averaged: bool = False,
        generator: Generators = None,
    ) -> None:
        super().__init__(n_slices, group=group, averaged=averaged, generator=generator)
        if law is not None and not isinstance(law, Law):
            raise ValueError(
                f"law is a {type(law).__name__}: give one of slicewise.laws, e.g. Normal()"
            )
        self.law = Normal() if law is None else law
        self._distance = SlicedWasserstein(reduction="none", group=group)

    def _value(self, x: Tensor, slices: Tensor) -> Tensor:
        value: Tensor = self._distance(x, self.law, slices=slices)
        return value

    def _pricing(self, x: Tensor) -> Pricing | None:
        price = law_pricer(x, self.law)
        if price is None:
            return None
        key = ("SlicedNormal", self.law, self.law.version)
        return Pricing(price, key if price.graph_safe else None)


_BLOCK = 1 << 16  # numbers whose squares stay in the cache of a core
_FINISH_NS = 1.5  # of one core, for a number of a gradient that is put together, about


def _in_parts(*sets: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Sets (*batch, n, d) of samples; on a CPU some samples of each at a time."""
    x = sets[0]
    some = x.shape[-2] if x.is_cuda else max(1, _BLOCK * x.shape[-2] // max(x.numel(), 1))
    return zip(*(one.split(some, dim=-2) for one in sets), strict=True)


class SIGReg(Regularizer):
    """Sketched isotropic Gaussian regularization of LeJEPA: the test of Epps and Pulley on random slices.

    For each slice the squared difference between the characteristic functions of the embeddings and of the normal law is
    integrated over t, with the normal characteristic function as weight.

    Args:
        n_slices, t_max, n_points: How many directions; where the grid ends; its number of points. None is 1,024, 3 and 17.
        times_n: Multiply by the number of embeddings, as published. The strength then grows with the batch, and with the
            number of processes.
        unbiased: Leave the products of an embedding with itself out, so that the mean of value and gradient does not
            depend on the number of embeddings: neither on processes nor on gradient accumulation.
        defaults: "slicewise" (times_n=False, unbiased=True) or "published" (times_n=True, unbiased=False), for those
            that are not given.
        group, averaged, generator: As in `Regularizer`.

    >>> loss = SIGReg(64, generator=0)
    >>> bool(loss(torch.randn(500, 8)) < loss(torch.zeros(500, 8)))
    True

    R. Balestriero, Y. LeCun, LeJEPA: provable and scalable self-supervised learning without the heuristics, 2025.
    """

    def __init__(
        self,
        n_slices: int = 1024,
        *,
        t_max: float = 3.0,
        n_points: int = 17,
        times_n: bool | None = None,
        unbiased: bool | None = None,
        defaults: Defaults = "slicewise",
        group: ProcessGroup | None = None,
        averaged: bool = False,
        generator: Generators = None,
    ) -> None:
        super().__init__(n_slices, group=group, averaged=averaged, generator=generator)
        check_choice("defaults", defaults, ("slicewise", "published"))
        check_count("n_points", n_points, at_least=2)
        if not 0 < t_max < float("inf"):
            raise ValueError(f"t_max = {t_max}: give a positive, finite number")
        published = defaults == "published"
        self.grid = Grid(float(t_max), n_points)
        self.times_n = published if times_n is None else times_n
        self.unbiased = not published if unbiased is None else unbiased

    def _value(self, x: Tensor, slices: Tensor) -> Tensor:
        n = self._count(x)
        if slices.requires_grad:
            raise ValueError("slices ask for a gradient, which SIGReg has for x alone: detach them")
        tangent = forward_ad.unpack_dual(x).tangent
        wanted = tangent is not None or (x.requires_grad and torch.is_grad_enabled())
        given: tuple[Any, ...] = (self.grid, self.unbiased, n, self.ranks, wanted)
        value: Tensor = SlicedEppsPulley.apply(x, slices, *given)
        return n * value if self.times_n else value

    def _pricing(self, x: Tensor) -> Pricing:
        n, grid, unbiased = self._count(x), self.grid, self.unbiased
        times = n if self.times_n else 1

        def compute(x: Tensor, slices: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = value_and_gradient(x, slices, grid, unbiased, n)
            return (value, gradient) if times == 1 else (times * value, times * gradient)

        return Pricing(compute, ("SIGReg", grid, unbiased, times))

    def extra_repr(self) -> str:
        """The settings."""
        words = f"t_max={self.grid.t_max:g}, n_points={self.grid.n_points}, times_n={self.times_n}"
        return f"{super().extra_repr()}, {words}, unbiased={self.unbiased}"


class VISReg(Regularizer):
    """Variance, invariance and sketching: center, scale, and the shape of the standardized embeddings.

    The value is `center` · mean of squared means + `scale` · mean of (standard deviation − 1)² + `shape` · sliced W_2^2 of
    the standardized embeddings to the normal law. Standard deviations are constants to the gradient of the shape.

    Args:
        n_slices: How many directions; 4,096 were published for large runs.
        center, scale, shape: How much each term counts.
        eps: Added to the standard deviations that embeddings are divided by.
        defaults: "slicewise" compares with the normal law itself; "published" with its quantiles at i / (n + 1), as in the
            paper. In both the value is that of all processes of a group; the paper's is the mean of each process's own.
        group, averaged, generator: As in `Regularizer`.

    >>> loss = VISReg(64, generator=0)
    >>> bool(loss(torch.randn(500, 8)) < loss(torch.zeros(500, 8)))
    True

    H. Wu et al., VISReg, 2026.
    """

    def __init__(
        self,
        n_slices: int = 1024,
        *,
        center: float = 1.0,
        scale: float = 1.0,
        shape: float = 1.0,
        eps: float = 1e-4,
        defaults: Defaults = "slicewise",
        group: ProcessGroup | None = None,
        averaged: bool = False,
        generator: Generators = None,
    ) -> None:
        super().__init__(n_slices, group=group, averaged=averaged, generator=generator)
        check_choice("defaults", defaults, ("slicewise", "published"))
        if not eps > 0:
            raise ValueError(f"eps = {eps}: give a positive number")
        self.center, self.scale, self.shape, self.eps = center, scale, shape, eps
        self.law: Law = Normal() if defaults == "slicewise" else PlottingPositions()
        self._distance = SlicedWasserstein(reduction="none", group=group)

    def _value(self, x: Tensor, slices: Tensor) -> Tensor:
        n = self._count(x)
        mean = self._summed(x.sum(dim=-2, keepdim=True)) / n
        # About a constant, less what that is off by, so that sums over processes have the right gradient.
        middle = mean.detach()
        square = self._summed((x - middle).square().sum(dim=-2, keepdim=True)) / n
        variance = square - (mean - middle).square()
        # Kept from 0, where a root has no slope: the limit from above is taken, and pulls embeddings apart.
        std = variance.clamp(min=torch.finfo(x.dtype).tiny).sqrt()
        standard = (x - self._handed_out(mean)) / (std.detach() + self.eps)
        shape = self._distance(standard, self.law, slices=slices)
        center = mean.square().mean(dim=(-2, -1))
        scale = (std - 1).square().mean(dim=(-2, -1))
        return self.center * center + self.scale * scale + self.shape * shape

    def _pricing(self, x: Tensor) -> Pricing | None:
        n, d = self._count(x), x.shape[-1]
        price = law_pricer(x, self.law)
        if price is None:
            return None
        settings = (self.center, self.scale, self.shape, self.eps)
        of_center, of_scale, of_shape, eps = settings
        tiny = torch.finfo(x.dtype).tiny

        def ready(x: Tensor) -> tuple[Tensor, ...]:
            mean = x.mean(dim=-2, keepdim=True)
            standard, squares = torch.empty_like(x), torch.zeros_like(mean)
            for given, centered in _in_parts(x, standard):
                torch.sub(given, mean, out=centered)
                squares += centered.square().sum(dim=-2, keepdim=True)
            variance = squares / n
            std = variance.clamp(min=tiny).sqrt()
            # In place, since new memory costs more than arithmetic.
            return standard.div_(std + eps), mean, variance, std

        def compute(made: tuple[Tensor, ...], slices: Tensor) -> tuple[Tensor, Tensor]:
            standard, mean, variance, std = made
            wide = std + eps
            shape, gradient = price(standard, slices)
            center, scale = mean.square().mean(dim=(-2, -1)), (std - 1).square().mean(dim=(-2, -1))
            value = of_center * center + of_scale * scale + of_shape * shape
            # The law is symmetric about 0, as the sums of samples along slices are: the shape's gradient through the mean
            # is 0. A variance that is kept from 0 has no slope.
            spread = (2 * of_scale / (n * d)) * (std - 1) / std * wide
            spread = torch.where(variance >= tiny, spread, 0)
            lighter, shift = of_shape / wide, (2 * of_center / (n * d)) * mean
            parts = list(_in_parts(gradient, standard))

            def finish(k: int) -> None:
                part, own = parts[k]
                part.mul_(lighter).addcmul_(own, spread).add_(shift)

            if x.is_cuda:
                finish(0)
            else:
                share_pieces(finish, len(parts), each_ns=_FINISH_NS * parts[0][0].numel())
            return value, gradient

        key = ("VISReg", self.law, self.law.version, *settings)
        return Pricing(compute, key if price.graph_safe else None, ready)

    def _summed(self, tensor: Tensor) -> Tensor:
        if self.ranks is None:
            return tensor
        from slicewise.distributed import summed

        return summed(tensor, self.ranks)

    def _handed_out(self, tensor: Tensor) -> Tensor:
        if self.ranks is None:
            return tensor
        from slicewise.distributed import handed_out

        return handed_out(tensor, self.ranks)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{super().extra_repr()}, center={self.center:g}, scale={self.scale:g}, shape={self.shape:g}"
