"""Feature scaling before distances are computed, in the form that POT takes and offers it."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from slicewise.pot.arrays import Array, ArrayKind, kind_of

NORMS = ("standard", "minmax", "l2")


def apply_scaler(X_s: Array, X_t: Array, scaler: Any = None) -> tuple[Array, Array]:
    """Scale two arrays by an object with a `transform` method, or by a function.

    Raises:
        ValueError: for a scaler of any other kind.
    """
    if scaler is None:
        return X_s, X_t
    transform = getattr(scaler, "transform", None)
    if not callable(transform):
        transform = scaler
    if not callable(transform):
        raise ValueError(
            f"scaler must be None, a function, or an object with a method transform, not {type(scaler).__name__}"
        )
    return transform(X_s), transform(X_t)


class DataScaler:
    """Scale features by numbers that were fitted to one or several arrays.

    Use it if features have different units: the largest would hide all others from slices. Fit it once, on a
    representative sample, and give it to every call.

    Args:
        norm: "standard" (mean 0 and variance 1 of each feature), "minmax" (each feature in [0, 1]) or "l2" (each
            sample of length one; nothing is fitted).
    """

    def __init__(self, norm: str = "standard") -> None:
        if norm not in NORMS:
            raise ValueError(f"norm = {norm!r}: choose from {', '.join(NORMS)}")
        self.norm = norm
        self._shift: Tensor | None = None
        self._scale: Tensor | None = None

    def fit(self, X: Array | list[Array]) -> DataScaler:
        """Fit to one array (n, d), or to all of several."""
        several = list(X) if isinstance(X, (list, tuple)) else [X]
        if not several:
            raise ValueError("an empty list: give at least one array to fit to")
        kind = kind_of(*several)
        data = torch.cat([kind.tensor(one) for one in several])
        if self.norm == "standard":
            self._shift, self._scale = data.mean(dim=0), data.std(dim=0, correction=0)
        elif self.norm == "minmax":
            self._shift = data.amin(dim=0)
            self._scale = data.amax(dim=0) - self._shift
        if self._scale is not None and bool((self._scale == 0).any()):
            warnings.warn(
                f"{int((self._scale == 0).sum())} features are constant: they are shifted, not scaled",
                RuntimeWarning,
                stacklevel=2,
            )
            self._scale = torch.where(self._scale == 0, 1, self._scale)
        return self

    def transform(self, X: Array | list[Array]) -> Any:
        """Scale one array (n, d), or each of several."""
        if isinstance(X, (list, tuple)):
            return [self.transform(one) for one in X]
        kind = kind_of(X)
        return kind.back(self._scaled(kind.tensor(X), kind))

    def fit_transform(self, X: Array | list[Array]) -> Any:
        """Fit, then scale the same."""
        return self.fit(X).transform(X)

    def _scaled(self, data: Tensor, kind: ArrayKind) -> Tensor:
        if self.norm == "l2":
            length = torch.linalg.vector_norm(data, dim=1, keepdim=True)
            return data / torch.where(length > 0, length, 1)
        if self._shift is None or self._scale is None:
            raise RuntimeError(
                f"DataScaler(norm={self.norm!r}) has not been fitted: call fit first"
            )
        return (data - self._shift.to(data)) / self._scale.to(data)
