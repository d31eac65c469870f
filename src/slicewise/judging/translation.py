"""Score translations between two domains: samples should reach the target, move little, and stay distinct."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from slicewise.judging.baselines import constant, gaussian_map, mean_shift
from slicewise.judging.judging import Judge, Scores, mean_over_subsets
from slicewise.judging.probes import Probe, fit_probe
from slicewise.sampling import one_generator
from slicewise.support import renamed_arguments


@dataclass(frozen=True)
class TranslationScores:
    """Measures of source samples after a translation.

    Attributes:
        scores: Against held-out samples of the target.
        w2_removed: Fraction of the excess of W_2 over that of real samples that the translation removes; a shift of the
            mean alone removes most of it. NaN if W_2 was not computed.
        frechet_removed: The same of the Fréchet distance.
        probe: Fraction that a linear classifier between the domains takes for the target.
        move: Mean length of the moves, divided by the distance between the means of the domains.
        own_nearest: Fraction of samples that, with the mean move taken off, are nearest to their own source sample.
    """

    scores: Scores
    w2_removed: float
    frechet_removed: float
    probe: float
    move: float
    own_nearest: float

    @property
    def eligible(self) -> bool:
        """Whether it may be ranked first; see `Scores.eligible`."""
        return self.scores.eligible


@renamed_arguments(seed="generator", most="max_samples")
@dataclass(frozen=True, eq=False)
class TranslationJudge:
    """Scores translations from one domain to another; use `judge_translation` for a single one.

    Compares as many held-out samples as the smaller domain has, at most as many as the target has to train on, and at
    most `max_samples`, since exact distances take O(n³). The classifier is fitted to training samples only.

    Args:
        source_train: Samples (n, d) of the source that may be trained on.
        target_train: Samples (n, d) of the target that may be trained on.
        source_held: Held-out samples (n, d) of the source.
        target_held: Held-out samples (n, d) of the target.
        generator: Draws the slices; see `Judge`.
        exact: Compute the exact W_2 as well.
        max_samples: Held-out samples compared at most.

    Example:
        >>> x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> judge = TranslationJudge(x[:100], x[100:200] + 5, x[200:250], x[250:] + 5)
        >>> judge(judge.source + 5).probe, judge(judge.source).probe
        (1.0, 0.0)
    """

    source_train: Tensor
    target_train: Tensor
    source_held: Tensor
    target_held: Tensor
    generator: int | torch.Generator | None = 0
    exact: bool = True
    max_samples: int = 2_048

    @property
    def n(self) -> int:
        """Number of samples of each domain that are compared."""
        # Of the training samples, too: `real_scores` compares as many of them.
        there = (self.source_held, self.target_held, self.target_train)
        return min(*map(len, there), self.max_samples)

    @functools.cached_property
    def source(self) -> Tensor:
        """The held-out samples (n, d) to translate."""
        return self.source_held[: self.n]

    @functools.cached_property
    def target(self) -> Tensor:
        """The held-out samples (n, d) that translations are compared with."""
        return self.target_held[: self.n]

    @functools.cached_property
    def real_scores(self) -> Scores:
        """Scores of real samples of the target."""
        generator = one_generator(self.generator)
        return mean_over_subsets(self.target_train, self._judge, 3, generator, exact=self.exact)

    @functools.cached_property
    def unmoved_scores(self) -> Scores:
        """Scores of the source samples as they are."""
        return self._judge(self.source, exact=self.exact)

    @functools.cached_property
    def probe(self) -> Probe:
        """The linear classifier between the domains."""
        return fit_probe(self.source_train, self.target_train)

    @functools.cached_property
    def mean_distance(self) -> float:
        """The distance between the means of the domains."""
        means = [t.double().mean(dim=0) for t in (self.source_train, self.target_train)]
        return float(torch.linalg.vector_norm(means[1] - means[0]))

    def __call__(self, moved: Tensor, *, exact: bool | None = None) -> TranslationScores:
        """Score `source` after a translation, (n, d)."""
        return self.score_runs(moved.unsqueeze(0), exact=exact)[0]

    def score_runs(self, moved: Tensor, *, exact: bool | None = None) -> list[TranslationScores]:
        """Score `source` after the translations of several runs, (runs, n, d)."""
        if moved.shape[1:] != self.source.shape:
            raise ValueError(
                f"moved has shape {tuple(moved.shape)}: give the {len(self.source)} samples of `source`, moved, for "
                f"each run: (runs, {', '.join(map(str, self.source.shape))})"
            )
        exact = self.exact if exact is None else exact
        scores = self._judge.score_runs(moved, exact=exact)
        return [self._measure(one, found) for one, found in zip(moved, scores, strict=True)]

    def baselines(self) -> dict[str, TranslationScores]:
        """Score translations that need no training.

        Returns:
            Scores of the source "not moved", after a "mean shift", after the "Gaussian map", and of the "target's
            mean".
        """
        domains = self.source_train, self.target_train
        return {
            "not moved": self(self.source),
            "mean shift": self(mean_shift(*domains)(self.source)),
            "Gaussian map": self(gaussian_map(*domains)(self.source)),
            "target's mean": self(constant(self.target_train, self.n)),
        }

    @functools.cached_property
    def _judge(self) -> Judge:
        return Judge(self.target, self.generator)

    @torch.no_grad()
    def _measure(self, moved: Tensor, scores: Scores) -> TranslationScores:
        if not math.isfinite(scores.sw2):
            return TranslationScores(scores, -math.inf, -math.inf, math.nan, math.inf, 0.0)
        source, moved = self.source.double(), moved.detach().double()
        moves = moved - source
        back = moved - moves.mean(dim=0)
        nearest = torch.cdist(back, source).argmin(dim=1)
        own = nearest == torch.arange(len(source), device=source.device)
        length = float(torch.linalg.vector_norm(moves, dim=1).mean())
        return TranslationScores(
            scores,
            self._removed("w2", scores),
            self._removed("frechet", scores),
            self.probe.share(moved),
            length / self.mean_distance if self.mean_distance else math.nan,
            float(own.double().mean()),
        )

    def _removed(self, measure: str, scores: Scores) -> float:
        now, before, least = (
            getattr(one, measure) for one in (scores, self.unmoved_scores, self.real_scores)
        )
        if math.isnan(now) or not before > least:
            return math.nan
        return (before - now) / (before - least)


@renamed_arguments(seed="generator")
def judge_translation(
    source: Tensor,
    moved: Tensor,
    target: Tensor,
    *,
    source_train: Tensor,
    target_train: Tensor,
    generator: int | torch.Generator | None = 0,
    exact: bool = True,
) -> TranslationScores:
    """Score one translation of held-out source samples; for several, keep a `TranslationJudge`.

    Args:
        source: Held-out samples (n, d) of the source.
        moved: These samples after the translation, (n, d).
        target: Held-out samples (m, d) of the target.
        source_train: Samples of the source that were trained on.
        target_train: Samples of the target that were trained on.
        generator: Draws the slices; see `Judge`.
        exact: Compute the exact W_2 as well.

    Returns:
        The scores.

    Example:
        >>> x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
        >>> trained = {"source_train": x[:100], "target_train": x[100:200] + 5}
        >>> judge_translation(x[200:250], x[200:250] + 5, x[250:] + 5, **trained).own_nearest
        1.0
    """
    n = min(len(source), len(target))
    held_out = source[:n], target[:n]
    judge = TranslationJudge(source_train, target_train, *held_out, generator, exact)
    return judge(moved[: judge.n])
