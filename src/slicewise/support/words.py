"""Words and numbers at the door: mistakes are named, and so is what a user may have meant.

Needs nothing but the standard library: the command line checks what it is given before it imports torch.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable

# What every call takes beside the options of its variant.
OF_THE_CALL = (
    "p",
    "x_weights",
    "y_weights",
    "objective",
    "slices",
    "generator",
    "backend",
    "progress",
    "rtol",
    "atol",
)

# Arguments of slicewise 0.1, and what to write now.
RENAMED = {
    "power": "objective='power' for SW_p^p, objective='root' for SW_p",
    "detach": "hold_weights=True takes slice weights as constants",
    "seed": "generator=0, a seed, a torch.Generator or a list of either",
    "step": "step_rule='cauchy', the rule that computes a step",
    "laws": "properties",
    "breaks": "lacks={...}, the properties that do not hold",
}

# Arguments as other libraries (POT, geomloss, optimisers) have them, and what comes nearest.
_ELSEWHERE = {
    "n_projections": ("n_slices",),
    "n_proj": ("n_slices",),
    "num_projections": ("n_slices",),
    "L": ("n_slices",),
    "projections": ("slices",),
    "directions": ("slices",),
    "thetas": ("slices",),
    "a": ("x_weights",),
    "b": ("y_weights",),
    "weights": ("x_weights", "y_weights"),
    "seed": ("seeds", "generator"),
    "seeds": ("generator",),
    "random_state": ("seeds", "generator"),
    "rng": ("generator",),
    "alpha": ("level",),
    "learning_rate": ("lr",),
    "n_steps": ("max_steps",),
    "n_iter": ("max_steps",),
    "max_iter": ("max_steps",),
    "iterations": ("max_steps",),
    "epochs": ("max_steps",),
}

# Where another name is not the whole answer: what to write.
_NULL = "how many sets goodness_of_fit simulates is its n_null"
_INSTEAD = {
    "projections": "slices are rows, (L, d): slices=projections.T",
    "log": "costs, slices and the error are those of evaluate(x, y)",
    "return_log": "costs, slices and the error are those of evaluate(x, y)",
    "reduction": "SlicedWasserstein(reduction=...) is the loss that reduces a batch",
    "device": "it runs where the samples are: x.to(device)",
    "n_simulations": _NULL,
    "n_draws": _NULL,
}
_BY_OPTIMIZERS = (
    "it makes plain steps, by lr=; the loss SlicedWasserstein is for torch's optimizers"
)
_HISTORY = "what was recorded on the way is the `history` of what it returns"
_DRAWN = (
    "it draws its own at every step, n_slices of them; for given ones write the loop, "
    "x = x + displacement(x, y, slices=...)"
)
# What a flow decides by itself, or has under another name.
_OF_A_FLOW = {
    "log": _HISTORY,
    "optimizer": _BY_OPTIMIZERS,
    "optimiser": _BY_OPTIMIZERS,
    "power": "write objective='power', 'root' or 'mean_root'",
    "progress": "a flow knows how far it is; leave it out",
    "slices": _DRAWN,
    "projections": _DRAWN,
    "steps": "write max_steps=...",
    "step": "write step_rule=...",
    "share": "write step_factor=...",
    "detach": "write hold_weights=...",
    "at_least": "write lower_bound=...",
    "stop_w2": "write stopping=sw.Stopping(w2=...)",
    "tolerance": "write stopping=sw.Stopping(tolerance=...)",
    "tol": "write stopping=sw.Stopping(tolerance=...)",
    "finish": "write stopping=sw.Stopping(assign=True)",
    "w2_at": "write recording=sw.Recording(w2_at=[...])",
    "particles_at": "write recording=sw.Recording(particles_at=[...])",
    "checkpoint": "write recording=sw.Recording(checkpoint='run.pt')",
    "bar": "write recording=sw.Recording(progress_bar=True)",
    "progress_bar": "write recording=sw.Recording(progress_bar=True)",
    "trace": _HISTORY,
}


def meant(name: str, known: Iterable[str], *, cutoff: float = 0.5) -> list[str]:
    """Which of the known names someone who wrote this one may have meant, the likeliest first."""
    written = {k.lower(): k for k in known}
    here = [k for k in _ELSEWHERE.get(name, ()) if k in written]
    return here or [written[k] for k in difflib.get_close_matches(name.lower(), written, 3, cutoff)]


def comes_from_elsewhere(name: str) -> bool:
    """Is it what another library, or slicewise 0.1, calls an argument?"""
    return name in _ELSEWHERE or name in _INSTEAD or name in RENAMED


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
    if option in RENAMED:
        raise ValueError(f"{what}: it is called otherwise here: {RENAMED[option]}")
    if option in _INSTEAD:
        near = did_you_mean([k for k in _ELSEWHERE.get(option, ()) if k in OF_THE_CALL])
        raise ValueError(f"{what}: {near}{_INSTEAD[option]}")
    near = did_you_mean(meant(option, [*known, *OF_THE_CALL]))
    raise ValueError(
        f"{what}: {near}its options are {', '.join(known)}; beside them a call takes {', '.join(OF_THE_CALL)}"
    )


def check_flow_argument(name: str) -> None:
    """Refuse what other calls take and a flow does not."""
    if name in _OF_A_FLOW:
        raise ValueError(f"flow has no argument {name!r}: {_OF_A_FLOW[name]}")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """One of a few words; the error names the nearest."""
    known = list(choices)
    if value not in known:
        hint = did_you_mean(meant(str(value), known))
        raise ValueError(f"{name} = {value!r} is unknown: {hint}choose from {', '.join(known)}")


def check_count(name: str, value: object, *, at_least: int = 1) -> None:
    """A whole number of things."""
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < at_least
    ):
        raise ValueError(f"{name} = {value!r}: give a whole number of at least {at_least}")
    if isinstance(value, numbers.Integral) and int(value) >= 2**62:
        raise ValueError(f"{name} = {value!r}: give a whole number below 2^62")


def check_number(name: str, value: object, *, above: float, or_equal: bool = False) -> None:
    """A real, finite number above another."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if real and isinstance(value, numbers.Real) else math.nan
    if not (math.isfinite(number) and (number > above or (or_equal and number == above))):
        raise ValueError(
            f"{name} = {value!r}: give a finite number {'of at least' if or_equal else 'above'} {above:g}"
        )
