"""`slicewise flow`: move samples to samples, and draw an animation of it."""

from __future__ import annotations

import io
import math
import time
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import numpy as np
import torch
import typer

from slicewise.distance import Objective
from slicewise.flows import Flow, Recording
from slicewise.flows import flow as run_flow
from slicewise.lab.cli import options
from slicewise.lab.cli.output import check_one_format, check_output_path, print_json, print_lines
from slicewise.lab.cli.samples import EXACT_PAIRS, SamplePair, explain_memory_errors, pair_or_toy
from slicewise.lab.data import printable
from slicewise.lab.errors import UserError
from slicewise.lab.images import Film, as_gif, as_html, film, log_spaced, nearest
from slicewise.support import check_choice, check_count, write_whole
from slicewise.transport import wasserstein

# Up to so many pairs of samples the exact distance takes milliseconds, and is computed for every frame.
_CHEAP_PAIRS = 500**2
# Memory for the particles of many steps, which are kept until it is known which to show.
_RECORDED_BYTES = 2 * 10**9
_MOST_FRAMES = 1000


def flow(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="The samples to move.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="The samples they are moved to.", show_default=False),
    ] = None,
    variant: options.VariantName = "sw",
    lr: Annotated[
        str,
        typer.Option(metavar="auto|RATE", help="A learning rate, or auto: every step is computed."),
    ] = "auto",
    steps: Annotated[int, typer.Option(help="The largest number of steps.")] = 1000,
    objective: Annotated[
        str,
        typer.Option(
            metavar="power|root|mean_root",
            help="What is minimized: SW_p^p, SW_p or the mean W_p of the slices.",
        ),
    ] = "power",
    p: options.Order = 2.0,
    n_slices: options.NSlices = None,
    option: options.OwnOptions = None,
    toy_name: options.Toy = None,
    n: options.ToySize = None,
    d: options.ToyDimension = None,
    samples: options.Subset = None,
    flatten: options.Flatten = False,
    seed: options.Seed = 0,
    dtype: options.Dtype = "float64",
    device: options.Device = "auto",
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The animation: a .gif, or an .html page.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = Path("flow.gif"),
    frames: Annotated[
        int,
        typer.Option(
            help="The largest number of frames; the first and last step are always shown.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 60,
    fps: Annotated[
        float, typer.Option(help="Frames per second, up to 50.", rich_help_panel=options.OUTPUT)
    ] = 12.0,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the final particles: .npy, or .npz with source and target.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Move samples to samples by minimizing a sliced distance, and draw an animation.

    No learning rate is needed: each step is computed from the slices it draws.
    Files are as for `slicewise distance`; without any, a toy target is used. The
    exact W_2 that remains is printed at the end (the number of --quiet). Samples
    of more than two dimensions are shown by their two principal directions.

    [bold]Examples[/bold]
      slicewise flow                                    a toy target, flow.gif
      slicewise flow --toy knot --d 50 -o knot.html
      slicewise flow temple.jpg flower.jpg --samples 1000 -o colors.html
      slicewise flow x.npy y.npy -v ebsw --lr 3 --steps 200 --save moved.npy
    """
    check_one_format(as_json=as_json, quiet=quiet)
    rate = _rate(lr)
    check_choice("--objective", objective, get_args(Objective))
    check_count("--steps", steps, at_least=0)
    check_count("--frames", frames, at_least=2)
    if frames > _MOST_FRAMES:
        raise UserError(f"--frames {frames} is too many: give at most {_MOST_FRAMES}")
    if not 0 < fps <= 50:
        raise UserError(f"--fps {fps:g}: give a number above 0, up to 50")
    recipe, n_slices, own = options.recipe_of(variant, n_slices, option)
    files = [file for file in (source, target) if file is not None]
    sets = pair_or_toy(
        files, toy_name=toy_name, n=n, d=d, seed=seed, samples=samples, flatten=flatten
    ).to(dtype, device)
    # The number of steps is known at the end: frames are chosen from these.
    recorded = log_spaced(steps, 4 * frames)
    if len(recorded) * sets.x.numel() * sets.x.element_size() > _RECORDED_BYTES:
        raise UserError(
            f"{frames} frames of {len(sets.x)} particles in {sets.x.shape[1]} dimensions need too much "
            f"memory: give fewer --frames or --samples"
        )
    check_output_path("--out", out, (".gif", ".html"))
    if save is not None:
        check_output_path("--save", save, (".npy", ".npz"))
    start = time.perf_counter()
    with explain_memory_errors():
        found = run_flow(
            sets.x,
            sets.y,
            variant,
            lr=rate,
            max_steps=steps,
            objective=cast(Objective, objective),
            p=p,
            n_slices=n_slices,
            seeds=seed,
            recording=Recording(particles_at=recorded, progress_bar=False if quiet else None),
            **own,
        )
    seconds = time.perf_counter() - start
    affordable = len(sets.x) * len(sets.y) <= EXACT_PAIRS
    result: dict[str, Any] = {
        "ended": found.status,
        "steps": int(found.n_steps),
        "w2": float(found.w2) if affordable else math.nan,
        "seconds": seconds,
        "variant": variant,
        "recipe": repr(recipe),
        "lr": rate,
        "objective": objective,
        "p": p,
        "seed": seed,
        "source": sets.x_name,
        "target": sets.y_name,
        "n": len(sets.x),
        "m": len(sets.y),
        "d": sets.x.shape[1],
        "worked_in": int(found.dimensions),
        "device": str(sets.x.device),
        "dtype": dtype,
    }
    lines = _lines(result)
    shown = _film(found, sets, frames)
    if save is not None:
        write_whole(save, _as_bytes(found, sets, save.suffix.lower()))
        lines.append(("saved", printable(str(save))))
    if out.suffix.lower() == ".gif":
        write_whole(out, as_gif(shown, fps=fps))
    else:
        title = f"{sets.x_name} → {sets.y_name}"
        write_whole(out, as_html(shown, fps=fps, title=title, facts=lines))
    lines.append(("animation", f"{printable(str(out))}, {len(shown.steps)} frames"))
    if shown.words:
        lines.append(("shows", shown.words))
    if as_json:
        places = {"out": str(out), "save": None if save is None else str(save)}
        print_json({**result, "frames": shown.steps, "shows": shown.words, **places})
    elif quiet:
        print(result["w2"])
    else:
        print_lines(lines)


def _rate(word: str) -> float | Literal["auto"]:
    if word == "auto":
        return "auto"
    try:
        rate = float(word)
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise UserError(f"--lr {word}: give auto, or a positive number")
    return rate


def _film(found: Flow, sets: SamplePair, most: int) -> Film:
    """Choose frames from the first step to the last one made."""
    end = int(found.n_steps)
    recorded = [step for step in found.history.particles_at if step < end]
    steps = nearest(recorded, log_spaced(end, most)[:-1])
    kept = dict(zip(found.history.particles_at, found.history.particles, strict=True))
    particles = torch.stack([*(kept[step] for step in steps), found.particles.cpu()])
    w2 = None
    if len(sets.x) * len(sets.y) <= _CHEAP_PAIRS:
        w2 = [float(wasserstein(x, sets.y.cpu())) for x in particles[:-1]] + [float(found.w2)]
    names = f"{sets.x_name} ({len(sets.x)})", f"{sets.y_name} ({len(sets.y)})"
    return film([*steps, end], particles, sets.y, names=names, w2=w2, colors=sets.colors)


def _as_bytes(found: Flow, sets: SamplePair, suffix: str) -> bytes:
    file, particles = io.BytesIO(), found.particles.cpu().numpy()
    if suffix == ".npy":
        np.save(file, particles)
    else:
        source, target = sets.x.cpu().numpy(), sets.y.cpu().numpy()
        np.savez(file, particles=particles, source=source, target=target)
    return file.getvalue()


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    ended = {
        "arrived": "arrived after {steps} steps, {seconds:.2f} s",
        "out of steps": "out of steps after {steps}, {seconds:.2f} s; a larger --steps may go further",
        "diverged": "diverged after {steps} steps: the rate is too large; try --lr auto",
    }[result["ended"]]
    left = (
        f"{result['w2']:.3g}" if result["w2"] == result["w2"] else "not computed: too many samples"
    )
    how = "each step computed" if result["lr"] == "auto" else f"rate {result['lr']:g}"
    return [
        ("ended", ended.format(**result)),
        ("exact W_2 left", left),
        ("samples", "{source} (n = {n}) to {target} (m = {m}), d = {d}".format(**result)),
        ("variant", f"{result['variant']}, {how}, seed {result['seed']}"),
    ]
