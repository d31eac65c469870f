"""Names as users remember them, and what they are called here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# What every call takes beside the options of its variant.
OF_THE_CALL = ("p", "x_weights", "y_weights", "power", "slices", "generator", "backend", "progress")

# Arguments as other libraries (POT, geomloss, optimisers) have them, and what comes nearest.
_ELSEWHERE = {
    "n_projections": ("n_slices",),
    "n_proj": ("n_slices",),
    "num_projections": ("n_slices",),
    "projections": ("slices",),
    "directions": ("slices",),
    "thetas": ("slices",),
    "a": ("x_weights",),
    "b": ("y_weights",),
    "weights": ("x_weights", "y_weights"),
    "seed": ("seeds", "generator"),
    "learning_rate": ("lr",),
    "n_steps": ("steps",),
    "n_iter": ("steps",),
    "max_iter": ("steps",),
    "iterations": ("steps",),
    "epochs": ("steps",),
    "tol": ("tolerance",),
}


def meant(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> list[str]:
    """Which of the known names someone who wrote this one may have meant, the likeliest first."""
    written = {k.lower(): k for k in known}
    here = [k for k in _ELSEWHERE.get(name, ()) if k in written]
    return here or [written[k] for k in difflib.get_close_matches(name.lower(), written, 3, cutoff)]


def comes_from_elsewhere(name: str) -> bool:
    """Is it what another library calls an argument?"""
    return name in _ELSEWHERE


def did_you_mean(names: list[str]) -> str:
    """The question, or nothing where no name is near."""
    return f"did you mean {' or '.join(map(repr, names))}? " if names else ""


def check_option(variant: str, option: str, options: Iterable[str]) -> None:
    """An option that the variant has. What a call takes beside them is told apart: all meet in **options."""
    known = list(options)
    if option in known:
        return
    what = f"option of variant {variant!r} = {option!r} is unknown"
    if option in OF_THE_CALL:
        raise ValueError(f"{what}: it is no option, but given where the distance is computed")
    near = did_you_mean(meant(option, [*known, *OF_THE_CALL]))
    raise ValueError(f"{what}: {near}choose from {', '.join(known)}")
