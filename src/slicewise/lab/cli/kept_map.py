"""A map of colours that was kept, and options that would have made another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from slicewise.lab.arrays import printable
from slicewise.lab.trouble import Trouble
from slicewise.learn.color import ColorTransfer

# Options that say how a map is fitted; all are also what a fitted map is asked for.
_FITS = ("variant", "space", "palette", "smoothness", "seed")


def kept_map(path: Path, context: typer.Context) -> ColorTransfer:
    """The map in a file; options it was not fitted with are refused, since nothing is fitted any more."""
    shown = printable(str(path))
    if context.params["save_map"] is not None:
        raise Trouble(f"{shown} is a map: --save-map keeps a new one, leave it out")
    fitted = ColorTransfer.load(path)
    for name in _FITS:
        source = context.get_parameter_source(name)
        given, had = context.params[name], getattr(fitted, name)
        if source is not None and source.name != "DEFAULT" and given != had:
            raise Trouble(
                f"--{name} {_word(given)}: {shown} is a map, {_fitted(name, had)}; leave --{name} out, or fit a new "
                f"map: give a photograph as TARGET"
            )
    return fitted


def _fitted(name: str, had: Any) -> str:
    if had is None and name == "seed":
        return "which does not say the seed it was fitted with"
    return "fitted" + (f" without --{name}" if had is None else f" with --{name} {_word(had)}")


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else printable(str(value))
