"""`slicewise distance`: the distance between the samples of two files."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab import names
from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import check_one_format, print_json, print_lines
from slicewise.lab.cli.common.samples import (
    EXACT_PAIRS,
    SamplePair,
    check_samples,
    explain_memory_errors,
    generator_for,
    read_pair,
)
from slicewise.lab.data import read_dashes
from slicewise.lab.errors import UserError
from slicewise.support import check_choice, check_number

if TYPE_CHECKING:
    from slicewise.distance import Evaluation
    from slicewise.variants import Recipe


def distance(
    a: Annotated[str, typer.Argument(metavar="A", show_default=False, help="The first file.")],
    b: Annotated[str, typer.Argument(metavar="B", show_default=False, help="The second file.")],
    variant: options.VariantName = "sw",
    p: options.Order = 2.0,
    n_slices: options.NSlices = None,
    option: options.OwnOptions = None,
    power: Annotated[
        bool, typer.Option("--power", help="Print SW_p^p instead of its root SW_p.")
    ] = False,
    rtol: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            help="Draw as many slices as it takes for a 95 % confidence interval of ± this part of the value, e.g. 0.02.",
        ),
    ] = None,
    test: Annotated[
        bool,
        typer.Option(
            "--test",
            help="Also print how likely the difference is by chance: the p-value of a permutation test, 999 relabelings.",
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Also print the exact W_p (W_p^p with --power), and a tighter upper bound for variants that maximize; for up to 3,000 samples a side.",
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
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The implementation: auto, numba, numpy, torch; on CUDA nvrtc, torch-nvrtc, triton, torch.",
            rich_help_panel=options.RUNS,
        ),
    ] = "auto",
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compute the sliced-Wasserstein distance between the samples of two files.

    Files are npy, npz, safetensors (file.npz:name picks an array), csv, tsv or txt with a
    sample in each line, or images, whose pixels are the samples: (n, 3) in
    [0, 1], gray ones (n, 1), composed with white where they are transparent. A vector of
    n numbers is n samples of one dimension.

    [bold]Examples[/bold]
      slicewise distance a.npy b.npy
      slicewise distance a.npy b.npy --rtol 0.02 --test     within 2 %, and is it more than chance?
      slicewise distance a.npy b.npy --quiet        only the number, for scripts
      slicewise distance runs.npz:before runs.npz:after -v ebsw --n-slices 200
      slicewise distance temple.jpg flower.png --samples 2000 --exact
      slicewise distance a.csv b.csv -v rpsw -O kappa=10 --json
      grep -v '#' log.txt | slicewise distance - b.csv      - is standard input
    """
    check_one_format(as_json=as_json, quiet=quiet)
    options.check_variant(variant)
    taken = read_dashes([a, b, x_weights, y_weights])
    (a, b), (x_weights, y_weights) = map(str, taken[:2]), taken[2:]
    files = [file for file in taken if file is not None]
    check_choice("--header", header, names.HEADERS)
    check_samples(files, seed=seed, dtype=dtype, samples=samples)

    from slicewise.distance import evaluate
    from slicewise.variants import VARIANTS

    recipe, n_slices, _ = options.recipe_of(variant, n_slices, option)
    if rtol is not None:
        check_number("--rtol", rtol, above=0)
        if n_slices is not None:
            raise UserError("--rtol chooses the number of slices: leave --n-slices out")
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
    if exact and n * m > EXACT_PAIRS:
        raise UserError(
            f"--exact of {n} and {m} samples takes too long, its time grows as n^3: add --samples 3000, or fewer"
        )
    start = time.perf_counter()
    with explain_memory_errors():
        found = evaluate(
            sets.x,
            sets.y,
            recipe,
            p=p,
            x_weights=sets.x_weights,
            y_weights=sets.y_weights,
            objective="power" if power else "root",
            generator=generator,
            backend=backend,
            n_slices=None if rtol is None else "auto",
            rtol=rtol,
        )
        value = float(found.value)
        low, high = map(float, found.interval(0.95))
        p_value = _p_value(sets, recipe, p, seed) if test else None
    seconds = time.perf_counter() - start
    if not value < math.inf:
        raise UserError(f"the distance is too large for {dtype}: scale the samples down")
    result: dict[str, Any] = {
        "value": value,
        "stderr": _error(found, value, 1 if power else p),
        "low": low,
        "high": high,
        "p_value": p_value,
        "power": float(found.power),
        "at_most": _bound(found, variant, exact=exact),
        "exact": _exact(sets, p, power=power) if exact else None,
        "variant": variant,
        "recipe": repr(recipe),
        "p": p,
        "n_slices": found.costs.shape[-1] if "n_slices" in VARIANTS[variant].options else 0,
        "seed": seed,
        "n": n,
        "m": m,
        "d": sets.x.shape[1],
        "a": sets.x_name,
        "b": sets.y_name,
        "seconds": seconds,
        "device": str(sets.x.device),
        "dtype": dtype,
        "backend": backend,
    }
    if as_json:
        print_json(result)
    elif quiet:
        print(value)
    else:
        again = ", drawn again until the interval was narrow enough" if rtol is not None else ""
        print_lines(_lines({**result, "repeated": again}, power=power))


def _p_value(sets: SamplePair, recipe: Recipe, p: float, seed: int) -> float:
    from slicewise.stats import two_sample_test

    found = two_sample_test(
        sets.x,
        sets.y,
        recipe,
        p=p,
        x_weights=sets.x_weights,
        y_weights=sets.y_weights,
        coordinates=False,
        generator=seed,
    )
    return found.p_value


def _error(found: Evaluation, value: float, order: float) -> float:
    """Return the standard error of the value, from that of SW_p^p by the derivative of the root."""
    power = float(found.power)
    return value * float(found.stderr) / (order * power) if power > 0 else float(found.stderr)


def _bound(found: Evaluation, variant: str, *, exact: bool) -> float | None:
    """Return an upper bound of the maximum that a variant searches; None for other variants, or if none is known."""
    from slicewise.parts import Curved
    from slicewise.transport import subspace_robust_wasserstein
    from slicewise.variants import VARIANTS

    problem, k = found.problem, found.costs.shape[-1]
    known = not isinstance(problem, Curved) and found.recipe.convention == "mean"
    if not (VARIANTS[variant].climbs and known):
        return None
    bound = float(found.bound)
    if exact and problem.p == 2 and k <= problem.d:
        robust = subspace_robust_wasserstein(
            problem.x,
            problem.y,
            k,
            max_steps=100,
            x_weights=problem.x_weights,
            y_weights=problem.y_weights,
        )
        mean = float(robust.upper) ** 2 / k
        bound = min(bound, mean if found.value is found.power else mean**0.5)
    return bound


def _exact(sets: SamplePair, p: float, *, power: bool) -> float:
    from slicewise.transport import wasserstein

    found = wasserstein(sets.x, sets.y, p=p, x_weights=sets.x_weights, y_weights=sets.y_weights)
    return float(found) ** (p if power else 1)


def _lines(result: dict[str, Any], *, power: bool) -> list[tuple[str, str]]:
    p = f"{result['p']:g}"
    scale = f"W_{p}^{p}" if power else f"W_{p}"
    many = f"{result['n_slices']} slices" if result["n_slices"] > 1 else "one slice"
    known = math.isfinite(result["stderr"])
    made = f"by {many}" if result["n_slices"] else "without slices"
    error = f" ± {result['stderr']:.2g} (standard error, {many})" if known else f" ({made})"
    between = f"{result['a']} (n = {result['n']}) and {result['b']} (m = {result['m']}), d = {result['d']}"
    lines = [
        (f"S{scale}", f"{result['value']:.6g}{error}"),
        ("between", between),
        ("variant", f"{result['variant']}: {result['recipe']}{result['repeated']}"),
        ("took", f"{result['seconds']:.3g} s on {result['device']}, seed {result['seed']}"),
    ]
    if result["at_most"] is not None:
        share = (
            f"{result['value'] / result['at_most']:.1%} of it was found"
            if result["at_most"]
            else "all"
        )
        lines.insert(1, ("at most", f"{result['at_most']:.6g}: an upper bound; {share}"))
    if result["p_value"] is not None:
        lines.insert(
            1, ("p-value", f"{result['p_value']:.3g} for one distribution (999 relabelings)")
        )
    if known:
        ends = f"{result['low']:.6g} to {result['high']:.6g}"
        lines.insert(1, ("95 % interval", f"{ends}: over slices, for these samples"))
    if result["exact"] is not None:
        lines.insert(1, (f"exact {scale}", f"{result['exact']:.6g}"))
    return lines
