"""Every method by its name: what a recipe is, and the recipes of the literature.

`recipe` defines `Recipe` and `Variant`; `paper` has the methods that the paper compares, `others` all further ones, one
alias each; `options` checks and composes what several share; `presets` are published settings; `registry` is `VARIANTS`.

Imports `support`, `problem`, `parts`. Used by `distance` and every room after it.
"""

from slicewise.variants.catalogue import VARIANTS
from slicewise.variants.presets import PRESETS
from slicewise.variants.recipe import Recipe, Variant
from slicewise.variants.registry import variant

__all__ = [
    "PRESETS",
    "Recipe",
    "VARIANTS",
    "Variant",
    "variant",
]
