"""The statistic of Epps and Pulley on slices: how far characteristic functions are from that of the normal law."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from slicewise.support import full_precision, kernels_for, one_thread, share_pieces
from slicewise.transport import backproject, project

if TYPE_CHECKING:
    from slicewise.distributed import Ranks

# Numbers on lines that are worked on at once: six arrays of them stay in the cache of a core.
_BLOCK = 1 << 15
_NS = 1.2  # of one core for a number at a point of the grid, about
_DEVICE_BLOCK = 1 << 26


class Grid(NamedTuple):
    """Equally spaced points from 0 to `t_max`, weighted by trapezoids and the normal characteristic function."""

    t_max: float
    n_points: int

    @property
    def step(self) -> float:
        """The distance of two points."""
        return self.t_max / (self.n_points - 1)

    def on(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Points, normal characteristic function and weights, (n_points,) each."""
        t = torch.linspace(0, self.t_max, self.n_points, dtype=torch.float64, device=like.device)
        phi = torch.exp(-t.square() / 2)
        weights = torch.full_like(t, 2 * self.step)  # both halves of the line
        for end in (weights[:1], weights[-1:]):
            end.fill_(
                self.step
            )  # `weights[0] = ` would copy from the host, which a CUDA graph cannot
        return t.to(like), phi.to(like), (weights * phi).to(like)


def epps_pulley(u: Tensor, grid: Grid, *, unbiased: bool = False, n: int | None = None) -> Tensor:
    """Σ_t w_t |φ_n(t) − φ(t)|² of each line u (..., n): (...). The definition, in plain PyTorch.

    `unbiased` takes |φ_n|² without the products of a sample with itself, so that the mean of the value, and of its
    gradient, does not depend on n.
    """
    t, phi, weights = grid.on(u)
    n = u.shape[-1] if n is None else n
    angle = u.unsqueeze(-1) * t  # (..., n, T)
    cosine, sine = angle.cos().sum(dim=-2) / n, angle.sin().sum(dim=-2) / n
    return _value(cosine, sine, phi, weights, n, unbiased)


def _value(
    cosine: Tensor, sine: Tensor, phi: Tensor, weights: Tensor, n: int, unbiased: bool
) -> Tensor:
    if unbiased:
        square = (n * (cosine.square() + sine.square()) - 1) / (n - 1)
        return (weights * (square - 2 * phi * cosine + phi.square())).sum(dim=-1)
    return (weights * ((cosine - phi).square() + sine.square())).sum(dim=-1)


class SlicedEppsPulley(torch.autograd.Function):
    """The mean of `epps_pulley` over slices, (*batch,), of x (*batch, n, d); over the samples of all ranks.

    cos(kθ) and sin(kθ) for all points k of the grid follow from cos θ and sin θ by a recurrence of three terms, and
    their weighted sum in the gradient by Clenshaw's: nothing of the size L · n · T is ever kept, and two trigonometric
    functions are taken of a projection instead of two for each point. The gradient is computed in the forward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        slices: Tensor,
        grid: Grid,
        unbiased: bool,
        n: int,
        ranks: Ranks | None,
        wanted: bool,
    ) -> Tensor:
        with full_precision(x.device.type), one_thread(x.device):
            wide = x.detach().to(torch.promote_types(x.dtype, torch.float32))
            along = slices.to(wide.dtype)
            if not wanted:
                return _priced(wide, along, grid, unbiased, n, ranks)[0]
            value, gradient = value_and_gradient(wide, along, grid, unbiased, n, ranks)
            ctx.save_for_backward(gradient, x)
            ctx.save_for_forward(gradient, x)
            ctx.dtype = x.dtype
            return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradient, x = ctx.saved_tensors
        if torch.is_grad_enabled():
            gradient = _NotAgain.apply(gradient, x)
        return (gradient * grads[0][..., None, None]).to(ctx.dtype), *(None,) * 6

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        """Along a tangent of x, for forward derivatives."""
        gradient, _ = ctx.saved_tensors
        return (gradient * tangents[0].to(gradient.dtype)).sum(dim=(-2, -1))


def value_and_gradient(
    x: Tensor, slices: Tensor, grid: Grid, unbiased: bool, n: int, ranks: Ranks | None = None
) -> tuple[Tensor, Tensor]:
    """What `SlicedEppsPulley` computes: the value (*batch,) and its gradient in x, without a graph."""
    value, lines, cosine, sine = _priced(x, slices, grid, unbiased, n, ranks)
    t, phi, weights = grid.on(cosine)
    ours = n / (n - 1) if unbiased else 1.0
    # The slope of cos(t u) in u is −t sin(t u), that of sin(t u) is t cos(t u).
    of_sine = (2 * weights * (ours * cosine - phi) * -t / n).to(x.dtype)
    of_cosine = (2 * weights * ours * sine * t / n).to(x.dtype)
    slopes = _combined(lines, grid, of_cosine, of_sine)
    return value, backproject(slopes, slices, 1 / slices.shape[-2])


def _priced(
    x: Tensor, slices: Tensor, grid: Grid, unbiased: bool, n: int, ranks: Ranks | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The value (*batch,), lines (*batch, L, n), and means of cosines and sines on them (*batch, L, T) in float64."""
    lines = project(x, slices)
    cosine, sine = _sums(lines, grid)
    if ranks is not None:
        cosine, sine = ranks.total(torch.stack([cosine, sine]))
    cosine, sine = cosine / n, sine / n
    _, phi, weights = grid.on(cosine)
    value = _value(cosine, sine, phi, weights, n, unbiased).mean(dim=-1).to(x.dtype)
    return value, lines, cosine, sine


class _NotAgain(torch.autograd.Function):
    """A gradient in x that was computed without a graph: differentiated again it would silently count as a constant."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, x: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            "SIGReg has no second derivatives: use SlicedNormal, which has, or leave it out of what is differentiated twice"
        )


def _blocks(lines: Tensor) -> tuple[list[Tensor], tuple[int, ...]]:
    """The lines (..., n), some rows at a time."""
    rows = lines.reshape(-1, lines.shape[-1])
    size = _BLOCK if lines.device.type == "cpu" else _DEVICE_BLOCK
    return list(rows.split(max(1, size // lines.shape[-1]))), tuple(lines.shape[:-1])


def _over_blocks(work: Callable[[int], None], blocks: list[Tensor], grid: Grid) -> None:
    """Call `work(i)` for each block, on a CPU by several threads where they pay."""
    if blocks[0].device.type == "cpu":
        share_pieces(work, len(blocks), each_ns=_NS * grid.n_points * blocks[0].numel())
        return
    for i in range(len(blocks)):
        work(i)


def _sums(lines: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Σ cos(t u) and Σ sin(t u) for each line and point, (..., T), in float64."""
    if lines.shape[-1] == 0:  # a process without samples
        none = lines.new_zeros(*lines.shape[:-1], grid.n_points, dtype=torch.float64)
        return none, none
    kernels = kernels_for(lines)
    if kernels is not None:
        known = kernels.characteristic_sums(lines, grid.step, grid.n_points)
        if known is not None:
            return known[0], known[1]
    blocks, shape = _blocks(lines)
    found = [lines] * len(blocks)

    def work(i: int) -> None:
        rows = blocks[i]
        angle = rows * grid.step
        first, twice = angle.cos(), angle.cos().mul_(2)
        cos_before, cos_now = torch.ones_like(rows), first
        sin_before, sin_now = torch.zeros_like(rows), angle.sin()
        sums = [torch.stack([cos_before.sum(dim=-1), sin_before.sum(dim=-1)])]
        for k in range(1, grid.n_points):
            sums.append(torch.stack([cos_now.sum(dim=-1), sin_now.sum(dim=-1)]))
            if k + 1 < grid.n_points:
                cos_before, cos_now = cos_now, torch.addcmul(cos_before.neg_(), twice, cos_now)
                sin_before, sin_now = sin_now, torch.addcmul(sin_before.neg_(), twice, sin_now)
        found[i] = torch.stack(sums, dim=-1).double()  # (2, rows, T)

    _over_blocks(work, blocks, grid)
    both = torch.cat(found, dim=1)
    return both[0].reshape(*shape, -1), both[1].reshape(*shape, -1)


def _combined(lines: Tensor, grid: Grid, of_cosine: Tensor, of_sine: Tensor) -> Tensor:
    """Σ_k a_k cos(kθ) + b_k sin(kθ) at each projection, θ = step · u, for coefficients (..., T) of each line."""
    if lines.shape[-1] == 0:
        return lines
    kernels = kernels_for(lines)
    if kernels is not None:
        known = kernels.characteristic_slopes(lines, grid.step, of_cosine, of_sine)
        if known is not None:
            return known
    blocks, shape = _blocks(lines)
    a = of_cosine.reshape(-1, grid.n_points, 1)
    b = of_sine.reshape(-1, grid.n_points, 1)
    found = [lines] * len(blocks)

    def work(i: int) -> None:
        rows, start = blocks[i], i * len(blocks[0])
        stop = start + len(rows)
        angle = rows * grid.step
        cosine = angle.cos()
        twice = cosine * 2
        zero = torch.zeros_like(rows)
        c_now, c_after, s_now, s_after = zero, zero, zero, zero
        for k in range(grid.n_points - 1, 0, -1):
            c_now, c_after = torch.addcmul(a[start:stop, k] - c_after, twice, c_now), c_now
            s_now, s_after = torch.addcmul(b[start:stop, k] - s_after, twice, s_now), s_now
        total = torch.addcmul(a[start:stop, 0] - c_after, cosine, c_now)
        found[i] = total.addcmul_(angle.sin(), s_now)

    _over_blocks(work, blocks, grid)
    return torch.cat(found).reshape(*shape, -1)
