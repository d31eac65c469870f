"""How good generated or translated samples are, measured against held-out ones.

`judging` has `judge`, which combines the measures of `measures`; `baselines` has what needs no training; `translation`
scores maps between two domains, with the linear classifier of `probes`.

Imports `distance` and the rooms before it. Used by `lab`.
"""

from slicewise.judging.baselines import (
    AffineMap,
    baselines,
    constant,
    gaussian,
    gaussian_map,
    mean_shift,
)
from slicewise.judging.judging import (
    MIN_VARIANCE_RATIO,
    Judge,
    Scores,
    best,
    judge,
    rank,
    real_scores,
)
from slicewise.judging.measures import (
    energy_distance,
    frechet_distance,
    mean_and_root,
    total_variance,
)
from slicewise.judging.probes import Probe, fit_probe
from slicewise.judging.translation import TranslationJudge, TranslationScores, judge_translation

__all__ = [
    "MIN_VARIANCE_RATIO",
    "AffineMap",
    "Judge",
    "Probe",
    "Scores",
    "TranslationJudge",
    "TranslationScores",
    "baselines",
    "best",
    "constant",
    "energy_distance",
    "fit_probe",
    "frechet_distance",
    "gaussian",
    "gaussian_map",
    "judge",
    "judge_translation",
    "mean_and_root",
    "mean_shift",
    "rank",
    "real_scores",
    "total_variance",
]
