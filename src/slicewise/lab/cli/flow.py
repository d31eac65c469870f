"""`slicewise flow`: samples carried to samples, and a film of it."""

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
from slicewise.flows import Flow, Status
from slicewise.flows import flow as carry
from slicewise.lab.cli import options
from slicewise.lab.cli.output import check_one_format, check_output_path, print_json, print_lines
from slicewise.lab.cli.samples import EXACT_PAIRS, SamplePair, explain_memory_errors, pair_or_toy
from slicewise.lab.data import printable
from slicewise.lab.errors import UserError
from slicewise.lab.images import Film, as_gif, as_html, film, log_spaced, nearest
from slicewise.support import check_choice, check_count, write_whole
from slicewise.transport import wasserstein

# Up to so many pairs of samples the exact distance takes milliseconds: it is told of every frame.
_CHEAP_PAIRS = 500**2
# Particles of many steps are kept until it is known which to show: no more than these bytes of them.
_CHECKPOINT_BYTES = 2 * 10**9
_MOST_FRAMES = 1000


def flow(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="The file of the particles.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Argument(metavar="TARGET", help="The file of their target.", show_default=False),
    ] = None,
    variant: options.VariantName = "sw",
    lr: Annotated[
        str, typer.Option(metavar="auto|RATE", help="auto computes each step; else a rate.")
    ] = "auto",
    steps: Annotated[int, typer.Option(help="At most so many.")] = 1000,
    objective: Annotated[
        str,
        typer.Option(
            metavar="power|root|mean_root", help="What is descended: SW_p^p, SW_p or the mean W_p."
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
            help="The film: a .gif, or an .html page.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = Path("flow.gif"),
    frames: Annotated[
        int,
        typer.Option(
            help="At most so many, the first and the last step among them.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 60,
    fps: Annotated[
        float, typer.Option(help="Frames a second, up to 50.", rich_help_panel=options.OUTPUT)
    ] = 12.0,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the particles go in the end: .npy, or .npz with source and target beside them.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Carry samples to samples down a sliced distance, and make a film of it.

    No rate is needed: each step is computed from the slices it draws. Files are
    as for `slicewise distance`; without any, a toy is carried. The exact W_2
    that is left is told at the end (the number --quiet prints). Films of more
    than two dimensions show the two principal directions.

    [bold]Examples[/bold]
      slicewise flow                                    a toy, into flow.gif
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
        raise UserError(f"--frames {frames} are too many: give at most {_MOST_FRAMES}")
    if not 0 < fps <= 50:
        raise UserError(f"--fps {fps:g}: give a number above 0, up to 50")
    recipe, n_slices, own = options.recipe_of(variant, n_slices, option)
    files = [file for file in (source, target) if file is not None]
    sets = pair_or_toy(
        files, toy_name=toy_name, n=n, d=d, seed=seed, samples=samples, flatten=flatten
    ).to(dtype, device)
    # Which steps are worth showing is known at the end: these are kept to choose from.
    looks = log_spaced(steps, 4 * frames)
    if len(looks) * sets.x.numel() * sets.x.element_size() > _CHECKPOINT_BYTES:
        raise UserError(
            f"{frames} frames of {len(sets.x)} particles in {sets.x.shape[1]} dimensions are too much to "
            f"keep: give fewer --frames or --samples"
        )
    check_output_path("--out", out, (".gif", ".html"))
    if save is not None:
        check_output_path("--save", save, (".npy", ".npz"))
    start = time.perf_counter()
    with explain_memory_errors():
        found = carry(
            sets.x,
            sets.y,
            variant,
            lr=rate,
            steps=steps,
            objective=cast(Objective, objective),
            p=p,
            n_slices=n_slices,
            seeds=seed,
            particles_at=looks,
            bar=False if quiet else None,
            **own,
        )
    seconds = time.perf_counter() - start
    affordable = len(sets.x) * len(sets.y) <= EXACT_PAIRS
    said: dict[str, Any] = {
        "ended": Status(int(found.status)).name.lower(),
        "steps": int(found.steps),
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
        "worked_in": int(found.ranks),
        "device": str(sets.x.device),
        "dtype": dtype,
    }
    lines = _lines(said)
    shown = _film(found, sets, frames)
    if save is not None:
        write_whole(save, _as_bytes(found, sets, save.suffix.lower()))
        lines.append(("saved", printable(str(save))))
    if out.suffix.lower() == ".gif":
        write_whole(out, as_gif(shown, fps=fps))
    else:
        title = f"{sets.x_name} → {sets.y_name}"
        write_whole(out, as_html(shown, fps=fps, title=title, facts=lines))
    lines.append(("film", f"{printable(str(out))}, {len(shown.steps)} frames"))
    if shown.words:
        lines.append(("shows", shown.words))
    if as_json:
        places = {"out": str(out), "save": None if save is None else str(save)}
        print_json({**said, "frames": shown.steps, "shows": shown.words, **places})
    elif quiet:
        print(said["w2"])
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
    """Frames from the first step to that on which the run ended."""
    end = int(found.steps)
    looks = [step for step in found.trace.particles_at if step < end]
    steps = nearest(looks, log_spaced(end, most)[:-1])
    kept = dict(zip(found.trace.particles_at, found.trace.particles, strict=True))
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


def _lines(said: dict[str, Any]) -> list[tuple[str, str]]:
    ended = {
        "converged": "converged after {steps} steps, {seconds:.2f} s",
        "finished": "made all {steps} steps, {seconds:.2f} s; more may lead further",
        "diverged": "diverged after {steps} steps: the rate is too large; try --lr auto",
    }[said["ended"]]
    left = f"{said['w2']:.3g}" if said["w2"] == said["w2"] else "not told: too many samples"
    how = "each step computed" if said["lr"] == "auto" else f"rate {said['lr']:g}"
    return [
        ("ended", ended.format(**said)),
        ("exact W_2 left", left),
        ("samples", "{source} (n = {n}) to {target} (m = {m}), d = {d}".format(**said)),
        ("variant", f"{said['variant']}, {how}, seed {said['seed']}"),
    ]
