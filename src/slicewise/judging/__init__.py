"""How good generated or translated samples are, measured against held-out ones.

`judge` combines the measures of `measures`; `baselines` are what needs no training; `translation` judges maps between
two domains, with the linear classifier of `probes`.

Imports `distance` and the rooms before it. Used by `lab`.

"""

from slicewise.judging.baselines import (
    Affine,
    baselines,
    constant,
    gaussian,
    gaussian_map,
    mean_shift,
)
from slicewise.judging.judging import LEAST_VARIANCE, Judge, Judgement, floor, judge, ranked, winner
from slicewise.judging.measures import (
    energy_distance,
    frechet_distance,
    mean_and_root,
    total_variance,
)
from slicewise.judging.probes import Probe, fit_probe
from slicewise.judging.translation import Moved, TranslationJudge, judge_moves

__all__ = [
    "LEAST_VARIANCE",
    "Affine",
    "Judge",
    "Judgement",
    "Moved",
    "Probe",
    "TranslationJudge",
    "baselines",
    "constant",
    "energy_distance",
    "fit_probe",
    "floor",
    "frechet_distance",
    "gaussian",
    "gaussian_map",
    "judge",
    "judge_moves",
    "mean_and_root",
    "mean_shift",
    "ranked",
    "total_variance",
    "winner",
]
