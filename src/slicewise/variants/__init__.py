"""Every method by its name: what a recipe is, and the recipes of the literature.

`recipe` defines `Recipe`; `registry` has `Variant`, the properties a variant may have, and `VARIANTS`; `paper` has the
methods that the paper compares, `others` all further ones, one alias each; `options` checks and composes what several
share; `presets` are published settings.

Imports `support`, `problem`, `parts`. Used by `distributed`, `distance` and every room after it.
"""

from slicewise.variants import paper, others  # isort: skip  # the order in which variants are listed
from slicewise.variants.presets import PRESETS
from slicewise.variants.recipe import Recipe
from slicewise.variants.registry import PROPERTIES, VARIANTS, Variant, variant

__all__ = ["PRESETS", "PROPERTIES", "VARIANTS", "Recipe", "Variant", "others", "paper", "variant"]
