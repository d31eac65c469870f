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
    "L": ("n_slices",),
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

# Where another name is not the whole answer: what to write.
_INSTEAD = {
    "seed": "for a seed, generator=torch.Generator().manual_seed(seed)",
    "projections": "slices are rows, (L, d): slices=projections.T",
    "log": "costs, slices and the error are those of evaluate(x, y)",
    "return_log": "costs, slices and the error are those of evaluate(x, y)",
    "reduction": "SlicedWasserstein(reduction=...) is the loss that reduces a batch",
    "device": "it runs where the samples are: x.to(device)",
}
_BY_OPTIMISERS = (
    "it makes plain steps, by lr=; the loss SlicedWasserstein is for torch's optimisers"
)
# What a flow decides by itself, or says in another way.
_OF_A_FLOW = {
    "log": "what was seen on the way is in the `trace` of what it returns",
    "optimizer": _BY_OPTIMISERS,
    "optimiser": _BY_OPTIMISERS,
    "power": "say objective='power', 'root' or 'mean_root'",
    "progress": "a flow knows how far it is; leave it out",
    "slices": "it draws its own at every step, n_slices of them; for given ones write the loop, "
    "x = x + displacement(x, y, slices=...)",
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
    if option in _INSTEAD:
        near = did_you_mean([k for k in _ELSEWHERE.get(option, ()) if k in OF_THE_CALL])
        raise ValueError(f"{what}: {near}{_INSTEAD[option]}")
    near = did_you_mean(meant(option, [*known, *OF_THE_CALL]))
    raise ValueError(
        f"{what}: {near}its options are {', '.join(known)}; sliced_wasserstein itself takes {', '.join(OF_THE_CALL)}"
    )


def check_flow_argument(name: str) -> None:
    """Refuse what other calls take and a flow does not."""
    if name in _OF_A_FLOW:
        raise ValueError(f"flow has no argument {name!r}: {_OF_A_FLOW[name]}")
