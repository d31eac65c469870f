"""The experiment `estimators`: bias, variance and time of estimators of SW at equal cost. `CHECKS` lists its checks by name."""

from __future__ import annotations

from slicewise.lab.experiments.check import Check
from slicewise.lab.experiments.estimators.energies import ENERGIES
from slicewise.lab.experiments.estimators.largest import LARGEST
from slicewise.lab.experiments.estimators.times import TIMES
from slicewise.lab.experiments.estimators.values import VALUES

CHECKS: dict[str, Check] = {check.name: check for check in (VALUES, TIMES, ENERGIES, LARGEST)}
