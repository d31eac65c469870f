"""`slicewise bench`: times against peers, on a CPU or a GPU."""

from __future__ import annotations

from typing import Annotated

import typer


def bench(
    context: typer.Context,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="On a CUDA device instead of the CPU.")
    ] = False,
) -> int:
    """Time a step against POT, OTT-JAX and a plain sort. What follows is for the benchmark: bench -- --help."""
    if gpu:
        from benchmarks.gpu.__main__ import main
    else:
        from benchmarks.speed.__main__ import main
    return main(context.args)
