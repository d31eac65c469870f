"""Transport plans made of slices: who goes where, and what that costs in the samples' own space.

On a slice the sorted order couples samples. `plan` has these couplings as results: those of single slices, the best of
them, and their mean; `couple` pairs samples by one, on one process or several, and `interpolate` walks along one.

Imports `support`, `sampling`, `transport`, `problem`, `variants`, `distributed`, `distance`. Used by `pot` and `lab`.
"""

from slicewise.plans.coupling import Pairs, couple
from slicewise.plans.interpolation import Interpolation, interpolate
from slicewise.plans.plan import Plan, SlicePlans, plan_of, slice_plans, sliced_plan

__all__ = [
    "Interpolation",
    "Pairs",
    "Plan",
    "SlicePlans",
    "couple",
    "interpolate",
    "plan_of",
    "slice_plans",
    "sliced_plan",
]
