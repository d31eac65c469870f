"""`slicewise plan`: a transport plan between the samples of two files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab import names
from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import (
    check_one_format,
    check_output_path,
    print_json,
    print_lines,
)
from slicewise.lab.cli.common.samples import (
    EXACT_PAIRS,
    check_samples,
    explain_memory_errors,
    generator_for,
    read_pair,
)
from slicewise.lab.data import read_dashes
from slicewise.lab.errors import UserError
from slicewise.support import check_choice, check_number, write_whole

if TYPE_CHECKING:
    from slicewise.plans import Plan

KINDS = ("best", "expected")


def plan(
    a: Annotated[str, typer.Argument(metavar="A", show_default=False, help="The first file.")],
    b: Annotated[str, typer.Argument(metavar="B", show_default=False, help="The second file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            show_default=False,
            help="Write the pairs (row of A, row of B, mass) to a csv file, or to the arrays rows, cols and mass of an npz file.",
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="best (the cheapest slice) or expected (the mean of all)."
        ),
    ] = "best",
    beta: Annotated[
        float,
        typer.Option(
            metavar="β", help="Inverse temperature of expected: slices count as exp(-β cost)."
        ),
    ] = 0.0,
    variant: options.VariantName = "sw",
    p: options.Order = 2.0,
    norm: Annotated[
        float, typer.Option(metavar="Q", help="The order of the norm in the cost ‖a - b‖_Q^p.")
    ] = 2.0,
    n_slices: options.NSlices = None,
    option: options.OwnOptions = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Also print the cost of the exact plan; for up to 3,000 samples a side."
        ),
    ] = False,
    x_weights: options.XWeights = None,
    y_weights: options.YWeights = None,
    samples: options.Subset = None,
    flatten: options.Flatten = False,
    header: options.Header = "auto",
    seed: options.Seed = 0,
    dtype: options.Dtype = "float64",
    device: options.Device = "auto",
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compute a transport plan between the samples of two files, from the couplings of slices.

    On each slice samples are coupled in sorted order. The plan is the coupling that is cheapest in the
    samples' own space, or the mean of all. Files are those of `slicewise distance`.

    [bold]Examples[/bold]
      slicewise plan a.npy b.npy -o plan.csv
      slicewise plan a.npy b.npy --kind expected --beta 10 -o plan.npz
      slicewise plan a.csv b.csv --n-slices 500 --exact
    """
    check_one_format(as_json=as_json, quiet=quiet)
    options.check_variant(variant)
    check_choice("--kind", kind, KINDS)
    check_number("--beta", beta, above=0, or_equal=True)
    check_number("--norm", norm, above=1, or_equal=True)
    taken = read_dashes([a, b, x_weights, y_weights])
    (a, b), (x_weights, y_weights) = map(str, taken[:2]), taken[2:]
    files = [file for file in taken if file is not None]
    check_choice("--header", header, names.HEADERS)
    check_samples(files, seed=seed, dtype=dtype, samples=samples)
    target = (
        None
        if out is None
        else check_output_path(
            "--out", out, (".csv", ".npz"), force=force, inputs=(a, b, x_weights, y_weights)
        )
    )

    from slicewise.plans import sliced_plan
    from slicewise.transport import wasserstein

    recipe, _, _ = options.recipe_of(variant, n_slices, option)
    generator = generator_for(seed)
    sets = read_pair(
        a,
        b,
        generator=generator,
        flatten=flatten,
        header=header,
        samples=samples,
        x_weights=x_weights,
        y_weights=y_weights,
    ).to(dtype, device)
    n, m = len(sets.x), len(sets.y)
    if exact and (norm != 2 or n * m > EXACT_PAIRS):
        raise UserError(
            f"--exact is for --norm 2 and up to 3000 samples a side, given norm {norm:g} and {n} and {m} samples: leave "
            f"it out, or add --samples 3000"
        )
    start = time.perf_counter()
    weights: dict[str, Any] = {"x_weights": sets.x_weights, "y_weights": sets.y_weights}
    with explain_memory_errors():
        found = sliced_plan(
            sets.x,
            sets.y,
            "expected" if kind == "expected" else "best",
            variant=recipe,
            p=p,
            norm=norm,
            beta=beta,
            generator=generator,
            **weights,
        )
    seconds = time.perf_counter() - start
    pairs = _pairs(found)
    if target is not None:
        write_whole(target, _file(pairs, target.suffix.lower()))
    result: dict[str, Any] = {
        "cost": float(found.cost),
        "root": float(found.cost) ** (1 / p),
        "exact": float(wasserstein(sets.x, sets.y, p=p, **weights)) ** p if exact else None,
        "kind": kind,
        "pairs": len(pairs[2]),
        "least": float(found.costs.min()),
        "largest": float(found.costs.max()),
        "n_slices": found.costs.shape[-1],
        "p": p,
        "norm": norm,
        "beta": beta,
        "n": n,
        "m": m,
        "d": sets.x.shape[1],
        "a": sets.x_name,
        "b": sets.y_name,
        "out": None if target is None else str(target),
        "seed": seed,
        "seconds": seconds,
        "device": str(sets.x.device),
    }
    if as_json:
        print_json(result)
    elif quiet:
        print(result["cost"])
    else:
        print_lines(_lines(result))


def _pairs(found: Plan) -> tuple[Any, Any, Any]:
    """Rows, columns and masses as arrays: each pair once, in the order of rows."""
    matrix = found.sparse().cpu()
    rows, cols = matrix.indices().numpy()
    return rows, cols, matrix.values().numpy()


def _file(pairs: tuple[Any, Any, Any], suffix: str) -> str | bytes:
    if suffix == ".csv":
        lines = (
            f"{i},{j},{mass!r}" for i, j, mass in zip(*(t.tolist() for t in pairs), strict=True)
        )
        return "\n".join(["row,col,mass", *lines]) + "\n"
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, rows=pairs[0], cols=pairs[1], mass=pairs[2])
    return buffer.getvalue()


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    p = f"{result['p']:g}"
    lines = [
        ("cost", f"{result['cost']:.6g}, its root of order {p} {result['root']:.6g}"),
        ("plan", f"{result['kind']}, {result['pairs']} pairs"),
        (
            "slices",
            f"{result['n_slices']}, from {result['least']:.6g} to {result['largest']:.6g}",
        ),
        (
            "between",
            f"{result['a']} (n = {result['n']}) and {result['b']} (m = {result['m']}), d = {result['d']}",
        ),
        ("took", f"{result['seconds']:.3g} s on {result['device']}, seed {result['seed']}"),
    ]
    if result["exact"] is not None:
        lines.insert(1, ("exact", f"{result['exact']:.6g}, the least possible"))
    if result["out"] is not None:
        lines.append(("written", result["out"]))
    return lines
