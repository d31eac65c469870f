"""How far to step: the theory as functions, and rules that compute a step from the slices drawn.

`theory` states best steps, stability limits and what learning rates mean; `rules` has `Cauchy` and its relatives, and
the displacement that slices suggest. For networks, `held` is the loss with its plans held, along which a step is
measured, and `lengths` computes how far to follow a direction of the weights.

Imports `support`, `transport`, `problem`, `parts`. Used by `distance` (displacements), `flows` and `optim`.
"""

from slicewise.steps.held import HeldLoss, held_loss
from slicewise.steps.lengths import (
    SHARE,
    LengthState,
    StepLength,
    best_length,
)
from slicewise.steps.rules import (
    RULES,
    Cauchy,
    Constant,
    Polyak,
    Pull,
    Rule,
    Tempered,
    TraceRatio,
    direction_of,
    moved,
    pull_of,
    rule_for,
    step_on_lines,
)
from slicewise.steps.theory import (
    best_step,
    contraction,
    fixed_slices_limit,
    marchenko_pastur_limit,
    orthonormal_step,
    paper_step,
    projected_step,
    rate_of_step,
    root_floor,
    stability_limit,
    step_of_rate,
)

__all__ = [
    "RULES",
    "SHARE",
    "Cauchy",
    "Constant",
    "HeldLoss",
    "LengthState",
    "Polyak",
    "Pull",
    "Rule",
    "StepLength",
    "Tempered",
    "TraceRatio",
    "best_length",
    "best_step",
    "contraction",
    "direction_of",
    "fixed_slices_limit",
    "held_loss",
    "marchenko_pastur_limit",
    "moved",
    "orthonormal_step",
    "paper_step",
    "projected_step",
    "pull_of",
    "rate_of_step",
    "root_floor",
    "rule_for",
    "stability_limit",
    "step_of_rate",
    "step_on_lines",
]
