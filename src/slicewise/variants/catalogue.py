"""All variants by name: those of the paper, then the others."""

from __future__ import annotations

from slicewise.variants import paper, others  # isort: skip  # in this order
from slicewise.variants.registry import VARIANTS

__all__ = ["VARIANTS", "others", "paper"]
