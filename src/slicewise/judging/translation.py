"""Is a translator any good? It should arrive at the target, move little, and keep apart who was apart."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.judging.baselines import constant, gaussian_map, mean_shift
from slicewise.judging.judging import Judge, Judgement, floor
from slicewise.judging.probes import Probe, fit_probe


@dataclass(frozen=True)
class Moved:
    """What was measured of source samples after a translation; NaN where it was not asked for."""

    judgement: Judgement  # against held-out samples of the target
    w2_removed: (
        float  # share of the excess of W_2 over its floor; the mean alone removes about all of it
    )
    frechet_removed: float  # the same of the Fréchet distance
    probe: float  # share that a straight cut between the domains takes for the target
    move: float  # mean length of the moves, as a multiple of the distance between the means
    own_nearest: float  # share whose own source is nearest to them, the average move taken off

    @property
    def may_win(self) -> bool:
        """Is it a result, and not a collapse that a distance happens to like?"""
        return self.judgement.may_win


@dataclass(frozen=True, eq=False)
class TranslationJudge:
    """Two domains, of each what may be trained on and what is held out: (n, d) tensors on one device.

    As many held-out samples are compared as the smaller domain has, not more than there are of the target to train on, and at most
    `most`: exact distances grow as n³. The probe is fitted to training samples only.
    """

    source_train: Tensor
    target_train: Tensor
    source_held: Tensor
    target_held: Tensor
    seed: int = 0
    exact: bool = True
    most: int = 2_048

    @property
    def n(self) -> int:
        """How many samples of each domain are compared: for the floor, as many of the target must be there to train on."""
        there = (self.source_held, self.target_held, self.target_train)
        return min(*map(len, there), self.most)

    @functools.cached_property
    def source(self) -> Tensor:
        """The held-out samples (n, d) that are to be translated."""
        return self.source_held[: self.n]

    @functools.cached_property
    def target(self) -> Tensor:
        """The held-out samples (n, d) they are compared with afterwards."""
        return self.target_held[: self.n]

    @functools.cached_property
    def floor(self) -> Judgement:
        """Real samples of the target against real ones."""
        return floor(self.target_train, self.target, seed=self.seed, exact=self.exact)

    @functools.cached_property
    def before(self) -> Judgement:
        """The source as it is, against the target."""
        return self._judge(self.source, exact=self.exact)

    @functools.cached_property
    def probe(self) -> Probe:
        """The cut between the domains."""
        return fit_probe(self.source_train, self.target_train)

    @functools.cached_property
    def mean_distance(self) -> float:
        """How far apart the means of the domains are."""
        means = [t.double().mean(dim=0) for t in (self.source_train, self.target_train)]
        return float(torch.linalg.vector_norm(means[1] - means[0]))

    def __call__(self, moved: Tensor, *, exact: bool | None = None) -> Moved:
        """Judge `source` after a translation (n, d)."""
        return self.all(moved.unsqueeze(0), exact=exact)[0]

    def all(self, moved: Tensor, *, exact: bool | None = None) -> list[Moved]:
        """Judge `source` after the translations of several runs, (runs, n, d)."""
        if moved.shape[1:] != self.source.shape:
            raise ValueError(
                f"moved has shape {tuple(moved.shape)}: give the {len(self.source)} samples of `source`, moved, for "
                f"each run: (runs, {', '.join(map(str, self.source.shape))})"
            )
        exact = self.exact if exact is None else exact
        judged = self._judge.all(moved, exact=exact)
        return [self._moved(one, found) for one, found in zip(moved, judged, strict=True)]

    def baselines(self) -> dict[str, Moved]:
        """Nothing done, one vector added, the optimal map of Gaussians, and always the target's mean."""
        domains = self.source_train, self.target_train
        return {
            "not moved": self(self.source),
            "mean shift": self(mean_shift(*domains)(self.source)),
            "Gaussian map": self(gaussian_map(*domains)(self.source)),
            "target's mean": self(constant(self.target_train, self.n)),
        }

    @functools.cached_property
    def _judge(self) -> Judge:
        return Judge(self.target, self.seed)

    @torch.no_grad()
    def _moved(self, moved: Tensor, found: Judgement) -> Moved:
        if not math.isfinite(found.sw2):
            return Moved(found, -math.inf, -math.inf, math.nan, math.inf, 0.0)
        source, moved = self.source.double(), moved.detach().double()
        moves = moved - source
        back = moved - moves.mean(dim=0)
        nearest = torch.cdist(back, source).argmin(dim=1)
        own = nearest == torch.arange(len(source), device=source.device)
        length = float(torch.linalg.vector_norm(moves, dim=1).mean())
        return Moved(
            found,
            self._removed("w2", found),
            self._removed("frechet", found),
            self.probe.share(moved),
            length / self.mean_distance if self.mean_distance else math.nan,
            float(own.double().mean()),
        )

    def _removed(self, measure: str, found: Judgement) -> float:
        now, before, least = (getattr(j, measure) for j in (found, self.before, self.floor))
        if math.isnan(now) or not before > least:
            return math.nan
        return (before - now) / (before - least)


def judge_moves(
    source: Tensor,
    moved: Tensor,
    target: Tensor,
    *,
    source_train: Tensor,
    target_train: Tensor,
    seed: int = 0,
    exact: bool = True,
) -> Moved:
    """Judge held-out source samples (n, d) after a translation; for many, keep a `TranslationJudge`."""
    n = min(len(source), len(target))
    judge = TranslationJudge(source_train, target_train, source[:n], target[:n], seed, exact)
    return judge(moved[: judge.n])
