"""Score generated samples against held-out real ones, and rank several sets of them.

SW_2 on fixed slices and the energy distance decide a ranking. The exact W_2 is reported but does not: in high dimension
it is mostly the distance between neighbors and prefers samples that are too close together, so that always returning
the mean scores nearly as well as real data. The fraction of the variance that is left tells the two apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace

import torch
from torch import Tensor

from slicewise.distance import sliced_wasserstein
from slicewise.judging.measures import energy_distance, frechet_distance, total_variance
from slicewise.problem import Target
from slicewise.sampling import Randomness, one_generator, uniform
from slicewise.support import check_choice, check_count, check_samples, renamed_arguments
from slicewise.transport import wasserstein

N_SLICES = 4_000
# Samples with less of the real variance than this cannot be ranked first.
MIN_VARIANCE_RATIO = 0.8
# Runs scored at once: their samples are copied in double precision.
_RUNS_AT_ONCE = 16
# Beyond this, squares overflow: such samples count as not finite.
_LARGEST_COORDINATE = 1e100


@dataclass(frozen=True)
class Scores:
    """Measures of one set of samples against held-out ones; smaller is better, but for `variance_ratio`.

    Attributes:
        sw2: SW_2 on fixed slices.
        energy: Energy distance, an unbiased estimate without a root: it may be slightly negative.
        frechet: Fréchet distance, squared as is usual.
        variance_ratio: Trace of the covariance divided by that of the real samples.
        w2: Exact W_2; NaN if it was not asked for.
        self_w2: Exact W_2 between two sets of one generator; NaN if it was not asked for.
    """

    sw2: float
    energy: float
    frechet: float
    variance_ratio: float
    w2: float = math.nan
    self_w2: float = math.nan

    @property
    def eligible(self) -> bool:
        """Whether it may be ranked first: finite, and with at least `MIN_VARIANCE_RATIO` of the real variance."""
        return math.isfinite(self.sw2) and self.variance_ratio >= MIN_VARIANCE_RATIO

    def relative_to(self, real: Scores) -> dict[str, float]:
        """Divide each measure by that of real samples; not the energy distance, which is about 0 for those."""
        ours, theirs = asdict(self), asdict(real)
        return {
            name: ours[name] / theirs[name] if theirs[name] else math.nan
            for name in ("sw2", "frechet", "w2", "self_w2")
        }


@renamed_arguments(seed="generator")
@dataclass(frozen=True, eq=False)
class Judge:
    """Scores sets of samples against the same held-out ones; use `judge` for a single set.

    Slices are drawn and held-out projections sorted once, at the first call.

    Args:
        real: Held-out samples (m, d), at least two, finite.
        generator: Draws the slices: an int (a seed; the same slices on every device), a `torch.Generator`, or None for
            torch's global generator.
        n_slices: Number of slices.

    Raises:
        ValueError: If `real` has another shape, or entries that are not finite.

    Example:
        >>> real = torch.randn(300, 5)
        >>> judge = Judge(real[:100])
        >>> judge(real[100:200]).eligible, judge(torch.zeros(100, 5)).eligible
        (True, False)
    """

    real: Tensor
    generator: int | torch.Generator | None = 0
    n_slices: int = N_SLICES

    def __post_init__(self) -> None:
        check_samples(self.real, self.real)
        check_count("n_slices", self.n_slices)
        if self.real.dim() != 2 or len(self.real) < 2:
            raise ValueError(
                f"real has shape {tuple(self.real.shape)}: give at least two samples (m, d)"
            )
        if not bool(torch.isfinite(self.real).all()):
            raise ValueError("real has entries that are NaN or infinite: leave such samples out")

    def __call__(
        self, made: Tensor, *, exact: bool = True, another: Tensor | None = None
    ) -> Scores:
        """Score one set of samples.

        Args:
            made: Samples (n, d), n ≥ 2.
            exact: Compute the exact W_2 as well, which takes most of the time.
            another: A second set (n, d) of the same generator, for `Scores.self_w2`.

        Returns:
            The scores; infinite if `made` has entries that are not finite.
        """
        if made.dim() != 2:
            raise ValueError(
                f"made has shape {tuple(made.shape)}: give samples (n, d), or use score_runs"
            )
        second = None if another is None else another.unsqueeze(0)
        return self.score_runs(made.unsqueeze(0), exact=exact, another=second)[0]

    def score_runs(
        self, made: Tensor, *, exact: bool = True, another: Tensor | None = None
    ) -> list[Scores]:
        """Score the samples (runs, n, d) of several runs; otherwise as a call for one."""
        if made.dim() != 3 or made.shape[-1] != self.real.shape[-1] or made.shape[-2] < 2:
            raise ValueError(
                f"made has shape {tuple(made.shape)}, real {tuple(self.real.shape)}: give samples (runs, n, d) of "
                f"that d, at least two a run"
            )
        found = []
        for start in range(0, len(made), _RUNS_AT_ONCE):
            piece = slice(start, start + _RUNS_AT_ONCE)
            second = None if another is None else another[piece]
            found += self._score_some(made[piece].detach(), exact, second)
        return found

    @torch.no_grad()
    def _score_some(self, made: Tensor, exact: bool, another: Tensor | None) -> list[Scores]:
        real = self._real
        wide = made.to(real)
        finite = wide.abs().amax(dim=(-2, -1)) < _LARGEST_COORDINATE  # False for NaN as well
        # A run that diverged must not keep the others from being scored.
        wide = torch.where(finite[:, None, None], wide, 0)
        measures = torch.stack(
            [
                sliced_wasserstein(wide, self._target),
                energy_distance(wide, real),
                frechet_distance(wide, real),
                total_variance(wide) / total_variance(real),
            ],
            dim=-1,
        )
        far, unknown = math.inf, math.nan
        w2 = wasserstein(wide, real).tolist() if exact else [unknown] * len(wide)
        self_w2 = [unknown] * len(wide)
        if another is not None:
            self_w2 = wasserstein(wide, another.to(real)).tolist()
        diverged = Scores(far, far, far, unknown, far if exact else unknown)
        return [
            Scores(*numbers, *distances) if ok else diverged
            for ok, numbers, *distances in zip(
                finite.tolist(), measures.tolist(), w2, self_w2, strict=True
            )
        ]

    @functools.cached_property
    def _real(self) -> Tensor:
        return self.real.detach().double()

    @functools.cached_property
    def _target(self) -> Target:
        # Drawn on the CPU: a seed gives the same slices on every device.
        rng = Randomness(one_generator(self.generator), torch.device("cpu"))
        slices = uniform((self.n_slices, self.real.shape[-1]), rng, torch.float64)
        return Target(self._real, slices.to(self.real.device))


@renamed_arguments(seed="generator")
def judge(
    made: Tensor,
    real: Tensor,
    *,
    generator: int | torch.Generator | None = 0,
    exact: bool = True,
    another: Tensor | None = None,
) -> Scores:
    """Score one set of samples against held-out real ones; for several sets, keep a `Judge`.

    Args:
        made: Samples (n, d).
        real: Held-out samples (m, d).
        generator: Draws the slices; see `Judge`.
        exact: Compute the exact W_2 as well.
        another: A second set (n, d) of the same generator, for `Scores.self_w2`.

    Returns:
        The scores.

    Example:
        >>> real = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> judge(real[:100], real[100:]).sw2 < judge(real[:100] + 1, real[100:]).sw2
        True
    """
    return Judge(real, generator)(made, exact=exact, another=another)


@renamed_arguments(seed="generator")
def real_scores(
    train: Tensor,
    held_out: Tensor,
    *,
    subsets: int = 3,
    generator: int | torch.Generator | None = 0,
    exact: bool = True,
) -> Scores:
    """Score real samples, as the value that a perfect generator would reach.

    Args:
        train: Real samples (n, d), at least as many as are held out.
        held_out: Held-out samples (m, d).
        subsets: Number of random subsets (m, d) of `train` over which scores are averaged.
        generator: Draws the subsets and the slices; see `Judge`.
        exact: Compute the exact W_2 as well.

    Returns:
        The mean scores. `self_w2` is W_2 between a subset and the held-out samples: two sets of a perfect generator.

    Raises:
        ValueError: If `train` has fewer samples than `held_out`.

    Example:
        >>> real = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> real_scores(real[:200], real[200:]).eligible
        True
    """
    judge = Judge(held_out, generator)
    return mean_over_subsets(train, judge, subsets, one_generator(generator), exact=exact)


def mean_over_subsets(
    train: Tensor, judge: Judge, subsets: int, generator: torch.Generator | None, *, exact: bool
) -> Scores:
    """The mean scores of random subsets of `train`, each of as many samples as the judge holds out."""
    n = len(judge.real)
    if len(train) < n:
        raise ValueError(
            f"{len(train)} samples to train on and {n} held out: as many are compared; hold out fewer"
        )
    check_count("subsets", subsets)
    device = None if generator is None else generator.device
    orders = [
        torch.randperm(len(train), generator=generator, device=device) for _ in range(subsets)
    ]
    found = [judge(train[order[:n].to(train.device)], exact=exact) for order in orders]
    mean = Scores(*(sum(numbers) / subsets for numbers in zip(*map(astuple, found), strict=True)))
    return replace(mean, self_w2=mean.w2)


def rank(scores: Sequence[Scores], by: str = "sw2") -> list[int]:
    """Return the indices of scores from best to worst; those that are not eligible come last.

    Args:
        scores: Of several runs.
        by: "sw2", with ties decided by the energy distance, or "energy", with ties decided by SW_2.

    Example:
        >>> rank([Scores(0.3, 0.1, 1.0, 1.0), Scores(0.1, 0.1, 1.0, 0.2), Scores(0.2, 0.1, 1.0, 1.0)])
        [2, 0, 1]
    """
    check_choice("by", by, ("sw2", "energy"))
    other = "energy" if by == "sw2" else "sw2"

    def place(index: int) -> tuple[bool, float, float]:
        one = scores[index]
        first, second = getattr(one, by), getattr(one, other)
        return not one.eligible, math.inf if math.isnan(first) else first, second

    return sorted(range(len(scores)), key=place)


def best(scores: Sequence[Scores], by: str = "sw2") -> int | None:
    """Return the index of the best scores, ranked as by `rank`; None if none are eligible.

    Example:
        >>> best([Scores(0.3, 0.1, 1.0, 1.0), Scores(0.1, 0.1, 1.0, 0.2)])
        0
    """
    first = next(iter(rank(scores, by)), None)
    return first if first is not None and scores[first].eligible else None
