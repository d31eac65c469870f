"""Where the data live: their span, exact coordinates in it, and what slicing loses outside it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem.population import ALONE, Population, absent_to_origin, shares_of
from slicewise.problem.problem import Problem
from slicewise.support import (
    Result,
    broadcast,
    check_finite,
    check_samples,
    check_weights,
    takes_arrays,
)


def gaussian_constant(d: int, *, p: float = 2) -> float:
    """Compute C_d = E‖g‖^p of a standard normal g in R^d.

    SW_p^p with standard normal slices is C_d times SW_p^p with uniform ones, whatever the dimension the data are embedded
    in: multiply by it to compare values across dimensions.

    Args:
        d: the dimension, at least 1.
        p: the order.

    Returns:
        C_d, d itself for p = 2.

    Raises:
        ValueError: if d is below 1.

    >>> gaussian_constant(10), gaussian_constant(10**6)
    (10.0, 1000000.0)
    """
    if d < 1:
        raise ValueError(f"d = {d}: give a dimension of at least 1")
    if p == 2:
        return float(d)
    return 2 ** (p / 2) * math.exp(_log_gamma_ratio(d / 2, p / 2))


def essf(d: int, k: int, *, p: float = 2) -> float:
    """Compute the effective subspace scaling factor C_k / C_d: what is left of SW_p^p of k-dimensional data in R^d.

    SW_p^p computed in R^d is `essf(d, k)` times SW_p^p computed in the data's own R^k.

    Args:
        d: the dimension of the space.
        k: the dimension of the subspace that holds the data, 1 to d.
        p: the order.

    Returns:
        The factor, k / d for p = 2.

    Raises:
        ValueError: if k is not in 1 to d.

    >>> essf(100, 2)
    0.02
    """
    if not 1 <= k <= d:
        raise ValueError(f"k = {k} and d = {d}: a subspace of R^d has 1 <= k <= d")
    return gaussian_constant(k, p=p) / gaussian_constant(d, p=p)


@takes_arrays("slices", "basis")
def empirical_essf(slices: Tensor, basis: Tensor, *, p: float = 2) -> Tensor:
    """Compute the effective subspace scaling factor of the slices at hand: the mean of ‖Uᵀθ‖^p over slices θ.

    Args:
        slices: directions (*batch, L, d), as rows.
        basis: U, (d, k) with orthonormal columns, such as that of `effective_subspace`.
        p: the order.

    Returns:
        The factor, (*batch,); its mean over uniform slices is `essf(d, k, p=p)`.

    Raises:
        ValueError: if slices and basis are of different dimensions.

    >>> empirical_essf(torch.eye(4), torch.eye(4)[:, :1])  # one of four slices lies in the line
    tensor(0.2500)
    """
    if slices.shape[-1] != basis.shape[-2]:
        raise ValueError(
            f"slices has shape {tuple(slices.shape)} and basis {tuple(basis.shape)}: give slices "
            f"(L, d) as rows and basis (d, k) as columns of one dimension d"
        )
    return torch.linalg.vector_norm(slices @ basis, dim=-1).pow(p).mean(dim=-1)


@dataclass(frozen=True, eq=False, repr=False)
class Subspace(Result):
    """The affine subspace that holds the samples: `mean` plus the span of the columns of `basis`.

    `effective_subspace` returns one. Use `reduce` to slice samples in their own k dimensions, and `embed` to return to
    the original space.

    Attributes:
        basis: orthonormal columns, (*batch, d, k). For batched samples, bases of lower rank end in zero columns.
        mean: the mean of the samples, (*batch, d).
        spectrum: the standard deviations along all principal directions, largest first, (*batch, min(n + m, d)).
        ranks: the dimension of each subspace of the batch, (*batch,).
        k: the dimension of the subspace; for batched samples the largest of `ranks`.

    >>> x = torch.tensor([[0.0, 0.0, 5.0], [2.0, 0.0, 5.0]])  # samples on a line
    >>> line = effective_subspace(x, x)
    >>> line.k, line.reduce(x).round(), line.embed(line.reduce(x)).allclose(x)
    (1, tensor([[-1.],
            [ 1.]]), True)
    """

    renamed = {"lift": "embed"}  # noqa: RUF012

    basis: Tensor  # (*batch, d, k)
    mean: Tensor  # (*batch, d)
    spectrum: Tensor  # (*batch, min(n + m, d))
    ranks: Tensor  # (*batch,)

    def __repr__(self) -> str:
        """One line: bases are pages of numbers."""
        batch = f"batch {tuple(self.ranks.shape)}, " if self.ranks.dim() else ""
        least = int(self.ranks.min()) if self.ranks.numel() else self.k
        k = f"{self.k}" if least == self.k else f"{least} to {self.k}"
        return f"Subspace({batch}k={k} of d={self.basis.shape[-2]} dimensions)"

    @property
    def k(self) -> int:
        """Return the dimension of the subspace, the largest of `ranks` for batched samples."""
        return self.basis.shape[-1]

    def reduce(self, x: Tensor) -> Tensor:
        """Compute the coordinates of samples in the subspace.

        Args:
            x: samples, (*batch, n, d).

        Returns:
            The coordinates, (*batch, n, k).

        Raises:
            ValueError: if the samples are not of d dimensions.
        """
        self._check_last("x", x, self.basis.shape[-2])
        return (x - self.mean.unsqueeze(-2)) @ self.basis

    def embed(self, z: Tensor) -> Tensor:
        """Compute samples from their coordinates in the subspace: the inverse of `reduce` on the subspace.

        Args:
            z: coordinates, (*batch, n, k).

        Returns:
            The samples, (*batch, n, d).

        Raises:
            ValueError: if the coordinates are not of k dimensions.
        """
        self._check_last("z", z, self.k)
        return z @ self.basis.mT + self.mean.unsqueeze(-2)

    def _check_last(self, name: str, samples: Tensor, wanted: int) -> None:
        if samples.shape[-1] != wanted:
            raise ValueError(
                f"{name} has shape {tuple(samples.shape)}, this subspace is of k = {self.k} dimensions in "
                f"R^{self.basis.shape[-2]}: give (*batch, n, {wanted})"
            )


@takes_arrays("x", "y", "x_weights", "y_weights")
def effective_subspace(
    x: Tensor,
    y: Tensor,
    *,
    variance: float = 1.0,
    x_weights: Tensor | None = None,
    y_weights: Tensor | None = None,
) -> Subspace:
    """Find the smallest affine subspace that holds x and y, or a given share of their variance.

    With `variance=1` its dimension is the numerical rank, and slicing the reduced samples is exact: W_p is the same, and
    SW_p^p is larger by 1 / essf(d, k). Samples of weight zero do not count.

    Args:
        x: samples (*batch, n, d).
        y: samples (*batch, m, d).
        variance: the share of the variance to hold, in (0, 1].
        x_weights, y_weights: sample weights (n,) or (*batch, n) that sum to one.

    Returns:
        A `Subspace`: `basis` (*batch, d, k), `mean`, `spectrum`, `ranks`; `reduce(x)` and `embed(z)` go there and back.

    Raises:
        ValueError: for arguments that do not fit together, and samples that are not finite.

    >>> x, y = torch.randn(10, 2) @ torch.randn(2, 50), torch.zeros(10, 50)
    >>> effective_subspace(x, y).k
    2
    """
    if not 0 < variance <= 1:
        raise ValueError(f"variance = {variance}: give a share of the variance in (0, 1]")
    check_samples(x, y)
    check_weights("x_weights", x_weights, x)
    check_weights("y_weights", y_weights, y)
    x, y = absent_to_origin(x, x_weights), absent_to_origin(y, y_weights)
    return _span(x, y, variance, x_weights, y_weights, x.dtype)


def span_of(problem: Problem) -> Subspace:
    """The span of a problem's samples."""
    precision = problem.x.dtype if problem.precision is None else problem.precision
    weights = (problem.x_weights, problem.y_weights)
    y = problem.y
    if problem.law is not None and y.shape[-2] > 0:  # of several processes, the first has its frame
        y = problem.law.points(problem.d).to(y)
    return _span(problem.x, y, 1.0, *weights, precision, problem.population)


def basis_of(problem: Problem) -> Tensor:
    """The span of a problem's samples, as a basis (*batch, d, k)."""
    return span_of(problem).basis


def _check_finite_everywhere(x: Tensor, y: Tensor, population: Population) -> None:
    """A decomposition would fail on such samples with less to say; of several ranks, all say it or none."""
    if population is ALONE:
        check_finite(x=x, y=y)
        return
    unfit = ~(x.isfinite().all() & y.isfinite().all())
    if population.total(unfit.double().reshape(1)) > 0:
        check_finite(x=x, y=y)
        raise ValueError("x or y of another rank is not finite: check what it was given")


def _span(
    x: Tensor,
    y: Tensor,
    variance: float,
    x_weights: Tensor | None,
    y_weights: Tensor | None,
    precision: torch.dtype,
    population: Population = ALONE,
) -> Subspace:
    _check_finite_everywhere(x, y, population)
    dtype, x, y = x.dtype, x.detach().double(), y.detach().double()
    n_x, n_y = population.count("x", x), population.count("y", y)
    x_share, y_share = (
        _shares(x, x_weights, n_x, population),
        _shares(y, y_weights, n_y, population),
    )
    batch = broadcast(x.shape[:-2], y.shape[:-2], x_share.shape[:-1], y_share.shape[:-1])
    rows = torch.cat([x.expand(*batch, *x.shape[-2:]), y.expand(*batch, *y.shape[-2:])], dim=-2)
    share = torch.cat([x_share.expand(*batch, -1), y_share.expand(*batch, -1)], dim=-1) / 2
    mean = population.total((share.unsqueeze(-2) @ rows).squeeze(-2))  # (*batch, d)
    # Zero weight scales a padding row to nothing: it can turn no principal direction.
    centred = share.sqrt().unsqueeze(-1) * (rows - mean.unsqueeze(-2))
    _, spectrum, directions = torch.linalg.svd(population.stacked(centred), full_matrices=False)
    # Rounding moved each coordinate by up to eps of its size; as a matrix of n rows, scaled by 1/√n as
    # these are, such noise has singular values up to eps · size · (1 + √(d/n)).
    size = population.largest_entry(rows * (share > 0).unsqueeze(-1))[..., 0, 0]
    relative = 2 * torch.finfo(precision).eps * (1 + math.sqrt(rows.shape[-1] / (n_x + n_y)))
    noise = relative * size
    threshold = torch.maximum(noise, 1e-10 * spectrum[..., 0])
    ranks = (spectrum > threshold.unsqueeze(-1)).sum(dim=-1)
    if variance < 1:
        energy = spectrum.square().cumsum(dim=-1)
        enough = (energy < variance * energy[..., -1:]).sum(dim=-1) + 1
        ranks = torch.minimum(ranks, enough)
    k = max(int(ranks.max()), 1)
    basis = directions[..., :k, :].mT * (torch.arange(k, device=x.device) < ranks[..., None, None])
    # A decomposition may turn a direction round with the machine or its threads: fix which way they point.
    largest = torch.take_along_dim(basis, basis.abs().argmax(dim=-2, keepdim=True), dim=-2)
    basis = basis * torch.where(largest < 0, -1, 1)
    return Subspace(basis.to(dtype), mean.to(dtype), spectrum.to(dtype), ranks)


def _shares(samples: Tensor, weights: Tensor | None, n: int, population: Population) -> Tensor:
    share = shares_of(None if weights is None else weights.detach(), n, torch.float64, population)
    return samples.new_full(samples.shape[-2:-1], share) if isinstance(share, float) else share


def _log_gamma_ratio(x: float, a: float) -> float:
    """log Γ(x + a) − log Γ(x), also where the two agree in their first ten digits."""
    if x < 20:
        return math.lgamma(x + a) - math.lgamma(x)

    def tail(z: float) -> float:  # what Stirling's formula leaves out, to 1e-17 for z >= 20
        w = 1 / z**2
        return (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w / 1188)))) / z

    return (x - 0.5) * math.log1p(a / x) + a * math.log(x + a) - a + tail(x + a) - tail(x)
