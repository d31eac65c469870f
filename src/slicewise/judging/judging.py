"""Is a generator any good? Measures on held-out data, each of which needs the others.

SW_2 on fixed slices and the energy distance rank. The exact W_2 in high dimension is mostly the distance between
neighbours and prefers samples that are too near to each other: always to answer the mean is nearly as good as to
answer with real data. It is shown, with the share of the variance that is left, and does not decide.
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
from slicewise.sampling import Randomness, uniform
from slicewise.support import check_choice, check_count, check_samples
from slicewise.transport import wasserstein

N_SLICES = 4_000
# A run that keeps less of the variance cannot win, however near its samples are.
LEAST_VARIANCE = 0.8
# So many runs are judged at once: their samples are copied in double precision.
_AT_ONCE = 16
# Beyond, squares overflow: as far away as samples that are not finite.
_HUGE = 1e100


@dataclass(frozen=True)
class Judgement:
    """What was measured of one set of samples against held-out ones; NaN where it was not asked for."""

    sw2: float  # on fixed slices
    energy: float  # U-statistic, no root: it may be a little below 0
    frechet: float  # squared, as is usual
    variance_ratio: float  # trace of the covariance over that of the real samples
    w2: float = math.nan  # exact
    self_w2: float = math.nan  # exact, between two sets of one generator

    @property
    def may_win(self) -> bool:
        """Is it a result, and not a collapse that a distance happens to like?"""
        return math.isfinite(self.sw2) and self.variance_ratio >= LEAST_VARIANCE

    def over(self, floor: Judgement) -> dict[str, float]:
        """Each measure as a multiple of that of real samples; of energy, whose floor is about 0, nothing."""
        ours, real = asdict(self), asdict(floor)
        return {
            name: ours[name] / real[name] if real[name] else math.nan
            for name in ("sw2", "frechet", "w2", "self_w2")
        }


@dataclass(frozen=True, eq=False)
class Judge:
    """Held-out samples (m, d) that others are compared with: what can be prepared is, once.

    Slices follow from the seed and the dimension alone, and are the same on every device.

    >>> real = torch.randn(300, 5)
    >>> judge = Judge(real[:100])
    >>> judge(real[100:200]).may_win, judge(torch.zeros(100, 5)).may_win
    (True, False)
    """

    real: Tensor
    seed: int = 0
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
    ) -> Judgement:
        """Judge samples (n, d), with the exact W_2 if that is asked for, and that to `another` set (n, d)."""
        if made.dim() != 2:
            raise ValueError(f"made has shape {tuple(made.shape)}: give samples (n, d), or use all")
        second = None if another is None else another.unsqueeze(0)
        return self.all(made.unsqueeze(0), exact=exact, another=second)[0]

    def all(
        self, made: Tensor, *, exact: bool = True, another: Tensor | None = None
    ) -> list[Judgement]:
        """Judge the samples of several runs, (runs, n, d); the exact distances take most of the time."""
        if made.dim() != 3 or made.shape[-1] != self.real.shape[-1] or made.shape[-2] < 2:
            raise ValueError(
                f"made has shape {tuple(made.shape)}, real {tuple(self.real.shape)}: give samples (runs, n, d) of "
                f"that d, at least two a run"
            )
        found = []
        for start in range(0, len(made), _AT_ONCE):
            piece = slice(start, start + _AT_ONCE)
            found += self._some(
                made[piece].detach(), exact, None if another is None else another[piece]
            )
        return found

    @torch.no_grad()
    def _some(self, made: Tensor, exact: bool, another: Tensor | None) -> list[Judgement]:
        real = self._wide
        wide = made.to(real)
        sane = wide.abs().amax(dim=(-2, -1)) < _HUGE  # not so of NaN either
        # A run that has blown up must not keep the others from being judged.
        wide = torch.where(sane[:, None, None], wide, 0)
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
        apart = [unknown] * len(wide)
        if another is not None:
            apart = wasserstein(wide, another.to(real)).tolist()
        lost = Judgement(far, far, far, unknown, far if exact else unknown)
        return [
            Judgement(*numbers, *distances) if ok else lost
            for ok, numbers, *distances in zip(
                sane.tolist(), measures.tolist(), w2, apart, strict=True
            )
        ]

    @functools.cached_property
    def _wide(self) -> Tensor:
        return self.real.detach().double()

    @functools.cached_property
    def _target(self) -> Target:
        generator = torch.Generator().manual_seed(self.seed)
        shape = (self.n_slices, self.real.shape[-1])
        slices = uniform(shape, Randomness(generator, torch.device("cpu")), torch.float64)
        return Target(self._wide, slices.to(self.real.device))


def judge(
    made: Tensor,
    real: Tensor,
    *,
    seed: int = 0,
    exact: bool = True,
    another: Tensor | None = None,
) -> Judgement:
    """Judge samples (n, d) against held-out ones (m, d); for many sets against one, keep a `Judge`."""
    return Judge(real, seed)(made, exact=exact, another=another)


def floor(
    train: Tensor, held_out: Tensor, *, subsets: int = 3, seed: int = 0, exact: bool = True
) -> Judgement:
    """What real samples would score: the mean over random subsets of `train`, as many as are held out.

    Its `self_w2` is between the subset and the held-out samples: what two sets of a perfect generator would have.
    """
    n = len(held_out)
    if len(train) < n:
        raise ValueError(
            f"{len(train)} samples to train on and {n} held out: a floor compares as many; hold out fewer"
        )
    check_count("subsets", subsets)
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(train), generator=generator) for _ in range(subsets)]
    judge = Judge(held_out, seed)
    found = [judge(train[order[:n].to(train.device)], exact=exact) for order in orders]
    mean = Judgement(
        *(sum(numbers) / subsets for numbers in zip(*map(astuple, found), strict=True))
    )
    return replace(mean, self_w2=mean.w2)


def ranked(judgements: Sequence[Judgement], by: str = "sw2") -> list[int]:
    """Their places from best to worst: by SW_2, ties by energy (or the other way round); who cannot win is last."""
    check_choice("by", by, ("sw2", "energy"))
    other = "energy" if by == "sw2" else "sw2"

    def place(index: int) -> tuple[bool, float, float]:
        one = judgements[index]
        first, second = getattr(one, by), getattr(one, other)
        return not one.may_win, math.inf if math.isnan(first) else first, second

    return sorted(range(len(judgements)), key=place)


def winner(judgements: Sequence[Judgement], by: str = "sw2") -> int | None:
    """The place of the best of them, if any may win."""
    best = next(iter(ranked(judgements, by)), None)
    return best if best is not None and judgements[best].may_win else None
