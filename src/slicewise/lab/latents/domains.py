"""From labels to domains, the sets of rows that a translation is between."""

from __future__ import annotations

import numpy as np

from slicewise.lab.data import Array
from slicewise.lab.errors import UserError

GENDER_PAIR = ("male", "female")
AGE_PAIR = ("adult", "child")
# Labels with more values are measurements, not domains.
_MOST_VALUES = 50
# A domain has at least this many rows.
_LEAST_ROWS = 6


def by_gender(values: Array) -> dict[str, Array]:
    """Return masks of "male" and "female", given as these words, their first letters, or 1 and 0; other values are unknown."""
    if values.dtype.kind in "biuf":
        masks = {"male": values == 1, "female": values == 0}
    else:
        words = np.char.lower(_words(values, "gender"))
        masks = {side: np.isin(words, (side, side[0])) for side in GENDER_PAIR}
    return _present(masks, "gender", "give male and female, or 1 and 0")


def by_age(values: Array, adult: float, child: float) -> dict[str, Array]:
    """Return masks of "adult", older than `adult`, and "child", younger than `child`; negative or NaN ages are unknown."""
    if values.dtype.kind not in "iuf":
        raise UserError(f"labels 'age' are {values.dtype}: give numbers of years, −1 where unknown")
    if not 0 < child <= adult:
        raise UserError(
            f"adult = {adult:g} and child = {child:g}: a child is younger than an adult, child ≤ adult"
        )
    masks = {"adult": values > adult, "child": (values >= 0) & (values < child)}
    return _present(masks, "age", "give years; adult and child say who is one")


def by_value(name: str, values: Array) -> tuple[dict[str, Array], tuple[str, str] | None]:
    """Return a domain for each value of a label, and the two largest as a pair; nothing for measurements."""
    if values.dtype.kind == "f" and not (values == np.round(values)).all():
        return {}, None
    if values.dtype.kind not in "biuf":
        values = _words(values, name)
    kinds, counts = np.unique(values, return_counts=True)
    if not 2 <= len(kinds) <= _MOST_VALUES:
        return {}, None
    kept = counts >= _LEAST_ROWS
    names = [
        f"{name}={kind:g}" if kinds.dtype.kind in "iuf" else f"{name}={kind}" for kind in kinds
    ]
    domains = {
        called: values == kind
        for called, kind, many in zip(names, kinds, kept, strict=True)
        if many
    }
    often = sorted(np.argsort(-counts, kind="stable")[:2])
    pair = (names[often[0]], names[often[1]])
    return domains, pair if all(side in domains for side in pair) else None


def _present(masks: dict[str, Array], name: str, wanted: str) -> dict[str, Array]:
    found = {side: mask for side, mask in masks.items() if mask.sum() >= _LEAST_ROWS}
    if not found:
        raise UserError(f"labels {name!r} name no {' and no '.join(masks)}: {wanted}")
    return found


def _words(values: Array, name: str) -> Array:
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind != "U":
        raise UserError(f"labels {name!r} are {values.dtype}: give words or numbers")
    return values
