"""Approximate sliced Wasserstein from means and variances, without random slices.

Reference:
    K. Nadjahi et al., Fast approximation of the sliced-Wasserstein distance using concentration of random projections,
    2021.
"""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.problem import (
    BuiltIn,
    LiftPart,
    Population,
    Problem,
    SideName,
    SlicerPart,
    fields_of,
    mean_of,
    shares_of,
)
from slicewise.sampling import Randomness, sphere
from slicewise.support import values_readable
from slicewise.transport import match_slices, root

_log = logging.getLogger("slicewise")
# As a normal cloud has them in ten dimensions, about.
_FEWEST_DIMENSIONS, _WIDEST_NORMS = 10.0, 0.5
_LOOKED_AT = 256  # samples of a set that are enough to tell


@dataclass(frozen=True, eq=False)
class Summary(Problem):
    """A problem in which each of two sample sets is replaced by one point.

    `Moments` returns it. You do not usually make one yourself.

    Args:
        whole: The problem before the replacement (default None: this problem itself).

    All other fields are those of `Problem`; x and y are (*batch, 1, d + 1).
    """

    whole: Problem | None = None

    @property
    def original(self) -> Problem:
        return self if self.whole is None else self.whole

    def n_points(self) -> Tensor | int:
        return 1 if self.whole is None else self.whole.n_points()


@dataclass(frozen=True, repr=False)
class Moments(BuiltIn, LiftPart):
    """Replace each sample set by one point of R^(d+1): its mean over √d, and s = √(mean ‖x − mean‖² / d).

    Use it with the slicer `Between` for a fast, deterministic approximation of SW_2 in high dimension. The squared
    distance of the two points,

        ‖mean_x − mean_y‖² / d + (s_x − s_y)²

    is SW_2² if along most slices the centered samples look normal with variance s². They do if many coordinates depend
    little on each other. They do not for samples in a low-dimensional subspace, nor for samples with very different
    norms.

    Args:
        check: Whether to test for both of these cases, on up to 256 samples of each set, and log a warning to the
            logger "slicewise" (default True).

    Returns:
        When called with a problem and random numbers: a `Summary` with x and y of shape (*batch, 1, d + 1).

    Raises:
        ValueError: If the problem has p other than 2.

    Example:
        >>> import torch
        >>> from slicewise.parts import Moments
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[-2.0], [2.0]]), torch.tensor([[2.0], [4.0]]))
        >>> points = Moments(check=False)(problem, Randomness(0, torch.device("cpu")))
        >>> points.x, points.y
        (tensor([[0., 2.]]), tensor([[3., 1.]]))

    Reference:
        K. Nadjahi et al., Fast approximation of the sliced-Wasserstein distance using concentration of random
        projections, 2021.
    """

    check: bool = True
    graph_safe = False  # looks at numbers
    needs_target_samples = True

    def __call__(self, problem: Problem, rng: Randomness) -> Problem:
        if problem.p != 2:
            raise ValueError(
                f"p = {problem.p:g}: the moment approximation is of SW_2; give p=2, or use variant 'sw'"
            )
        if self.check and values_readable(problem.x, problem.y):
            _look(problem)
        x, y = _summary(*problem.side("x")), _summary(*problem.side("y"))
        batch = problem.batch
        known = fields_of(problem)
        known |= {"x": x.expand(*batch, 1, -1), "y": y.expand(*batch, 1, -1)}
        # Of several processes each has all of these two points, and nothing to send any more.
        known |= {"x_weights": None, "y_weights": None, "matcher": match_slices, "others": None}
        return Summary(**known, whole=problem)


@dataclass(frozen=True, repr=False)
class Between(BuiltIn, SlicerPart):
    """The one slice along the line through the mean of x and the mean of y.

    Use it after the lift `Moments`, where each set is one point: this slice then gives their exact distance. The slice
    is the unit vector of mean_x − mean_y; its sign does not change the cost. If the means
    coincide, it is the first axis.

    Returns:
        When called with a problem and random numbers: a slice (*batch, 1, d) of unit length.

    Example:
        >>> import torch
        >>> from slicewise.parts import Between
        >>> from slicewise.problem import Problem
        >>> from slicewise.sampling import Randomness
        >>> problem = Problem(torch.tensor([[3.0, 0.0]]), torch.tensor([[1.0, 0.0]]))
        >>> Between()(problem, Randomness(0, torch.device("cpu")))
        tensor([[1., 0.]])
    """

    needs_target_samples = True

    def __call__(self, problem: Problem, rng: Randomness) -> Tensor:
        gap = mean_of(*problem.side("x")) - mean_of(*problem.side("y"))
        return sphere.normalize(gap).expand(*problem.batch, 1, problem.d)


def normality(samples: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Measure how close to normal the projections of samples can be: effective dimensions, and how much norms differ.

    Use it to decide whether `Moments` is a good approximation: many effective dimensions and similar norms are good.
    The two numbers are the two terms that bound the distance to a normal distribution, in units of m = E‖x‖² of the
    centered samples:

    - m² / E⟨x, x′⟩² over pairs of different samples, which is d for a normal cloud in R^d;
    - E |‖x‖² − m| / m, which is about 1.1 / √d for a normal cloud in R^d.

    Args:
        samples: The samples (..., n, d).
        weights: Their weights (..., n), or None (default) for equal ones.

    Returns:
        A tuple of the effective dimensions (...), at most d, and the relative difference of squared norms (...), both
        float64. If all samples coincide, the effective dimensions are infinite.

    Example:
        >>> import torch
        >>> from slicewise.parts import normality
        >>> line = torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])  # in a subspace of one dimension
        >>> dimensions, differ = normality(line)
        >>> round(dimensions.item(), 4), round(differ.item(), 4)
        (1.0, 0.0)

    Reference:
        G. Reeves, Conditional central limit theorems for Gaussian projections, 2017.
    """
    samples = samples.detach().double()
    weights = None if weights is None else weights.detach()
    share = shares_of(weights, samples.shape[-2], torch.float64)
    mass = share if isinstance(share, Tensor) else samples.new_full(samples.shape[-2:-1], share)
    centred = torch.where(mass.unsqueeze(-1) > 0, samples - mean_of(samples, weights), 0)
    # Neither number depends on the size of the samples, whose fourth powers must not overflow or vanish.
    size = centred.abs().amax(dim=(-2, -1), keepdim=True)
    norms = (centred / torch.where(size > 0, size, 1)).square().sum(dim=-1)
    heavy = centred / torch.where(size > 0, size, 1) * mass.sqrt().unsqueeze(-1)
    mean = (mass * norms).sum(dim=-1)
    wide = heavy.shape[-1] > heavy.shape[-2]
    gram = heavy @ heavy.mT if wide else heavy.mT @ heavy  # either has the square of the other
    pairs = gram.square().sum(dim=(-2, -1)) - (mass * norms).square().sum(dim=-1)
    pairs = pairs / (1 - mass.square().sum(dim=-1)).clamp(min=1e-12)
    tiny = torch.finfo(torch.float64).tiny
    differ = (mass * (norms - mean.unsqueeze(-1)).abs()).sum(dim=-1) / mean.clamp(min=tiny)
    # By chance the pairs of few samples may look less alike than none could. One point is as normal as can be.
    dimensions = (mean.square() / pairs.clamp(min=tiny)).clamp(max=samples.shape[-1])
    return torch.where(mean > 0, dimensions, torch.inf), differ


def _summary(
    samples: Tensor, weights: Tensor | None, population: Population, side: SideName
) -> Tensor:
    d = samples.shape[-1]
    mean = mean_of(samples, weights, population, side)  # (..., 1, d)
    middle = mean.detach()  # a constant, as in `covariance_of`
    squares = (samples - middle).square().sum(dim=-1, keepdim=True)
    off = (mean - middle).square().sum(dim=-1, keepdim=True)
    variance = (mean_of(squares, weights, population, side) - off) / d
    return torch.cat([mean / d**0.5, root(variance, 2)], dim=-1)


def _look(problem: Problem) -> None:
    for name in ("x", "y"):
        samples, weights = getattr(problem, name), getattr(problem, f"{name}_weights")
        n = samples.shape[-2]
        if n < 2:
            continue
        some = torch.arange(0, n, -(-n // _LOOKED_AT), device=samples.device)
        samples = samples[..., some, :]
        if weights is not None:
            weights = weights[..., some]
        dimensions, differ = normality(samples, weights)
        least, widest = float(dimensions.min()), float(differ.max())
        if least < _FEWEST_DIMENSIONS or widest > _WIDEST_NORMS:
            _say(name, round(least), round(widest, 1))


@functools.lru_cache(maxsize=64)  # what was said is not said again at every step of a training
def _say(name: str, dimensions: int, differ: float) -> None:
    _log.warning(
        "the moment approximation takes projections for normal, but %s has about %d effective dimensions (at least "
        "%g are wanted) and squared norms that differ by %.0f %% (at most %.0f %%): use 'sw'",
        name,
        dimensions,
        _FEWEST_DIMENSIONS,
        100 * differ,
        100 * _WIDEST_NORMS,
    )
