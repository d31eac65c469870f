"""All variants by name: those of the paper, then their relatives."""

from __future__ import annotations

from slicewise import variants, relatives  # isort: skip  # in this order
from slicewise.registry import VARIANTS

__all__ = ["VARIANTS", "relatives", "variants"]
