"""What a loss is multiplied by, so that the dimension its samples are embedded in does not matter."""

from __future__ import annotations

from typing import Literal, get_args

from slicewise.checks import check_choice
from slicewise.lifts import Circles, Networks
from slicewise.moments import Summary
from slicewise.problem import Problem
from slicewise.recipe import Recipe
from slicewise.slicers import Gaussian
from slicewise.subspace import gaussian_constant

Scale = Literal["classic", "gaussian", "subspace", "displacement"]


def check_scale(scale: Scale, recipe: Recipe, *, power: bool) -> None:
    """Scales that mean something for this recipe."""
    check_choice("scale", scale, get_args(Scale))
    if scale == "displacement":
        recipe.check_linear("scale='displacement'")
        if not power:
            raise ValueError(
                "scale='displacement' with the root: moves have the right length for the power alone; "
                "give power=True, or another scale"
            )
    if scale in ("gaussian", "subspace") and isinstance(recipe.lift, Circles | Networks):
        raise ValueError(
            f"scale={scale!r} with {recipe.lift!r}: how its costs depend on the dimension is not known; use "
            f"scale='classic', or function='poly'"
        )


def measured(problem: Problem) -> Problem:
    """The problem whose dimension counts: that of the samples, where a lift made single points of them."""
    whole = problem.whole if isinstance(problem, Summary) else None
    return problem if whole is None else whole


def scale_factor(recipe: Recipe, d: int, k: int | None, *, p: float) -> float:
    """What makes W_p^p along slices of R^d independent of d (k = None), or that of slices of R^k."""

    def length(d: int) -> float:
        # Normal slices are as long as they are: for these E‖θ‖^p is in the value already.
        return d ** (p / 2) if isinstance(recipe.slicer, Gaussian) else gaussian_constant(d, p=p)

    if k is not None and not 1 <= k <= d:
        raise ValueError(f"k = {k} and d = {d}: a subspace of R^d has 1 <= k <= d")
    return length(d) if k is None else length(d) / length(k)
