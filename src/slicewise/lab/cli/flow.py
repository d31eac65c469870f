"""`slicewise flow`: move samples to samples, and draw an animation of it."""

from __future__ import annotations

import io
import math
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

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
    SamplePair,
    check_pair_or_toy,
    explain_memory_errors,
    pair_or_toy,
)
from slicewise.lab.data import printable, read_dashes
from slicewise.lab.errors import UserError
from slicewise.support import (
    NotArrivedWarning,
    check_choice,
    check_count,
    progress_bar,
    write_whole,
)

if TYPE_CHECKING:
    from slicewise.distance import Objective
    from slicewise.flows import Flow
    from slicewise.lab.images import Encoder, Film

# Up to so many pairs of samples the exact distance takes milliseconds, and is computed for every frame.
_CHEAP_PAIRS = 500**2
# Memory for the particles of many steps, which are kept until it is known which to show.
_RECORDED_BYTES, _CHEAP_BYTES = 2 * 10**9, 2 * 10**8
_MOST_FRAMES = 1000
# Points of the curve of a distance, and those among them for which there is no frame.
_CURVE_POINTS, _BETWEEN = 300, 20


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
    steps: Annotated[
        int | None,
        typer.Option(
            help="The largest number of steps: by default 1000, more where samples cannot be matched one to one.",
            show_default=False,
        ),
    ] = None,
    sliced_only: Annotated[
        bool,
        typer.Option(
            "--sliced-only",
            help="Make sliced steps to the end: no assignment when they no longer bring samples nearer.",
        ),
    ] = False,
    objective: Annotated[
        str,
        typer.Option(
            metavar="|".join(names.OBJECTIVES),
            help="What is minimized: SW_p^p, SW_p or the mean W_p of the slices.",
            autocompletion=options.one_of(names.OBJECTIVES),
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
    header: options.Header = "auto",
    seed: options.Seed = 0,
    dtype: options.Dtype = "float64",
    device: options.Device = "auto",
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="The animation: a .gif, an .html page; .mp4 or .webm with ffmpeg.",
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
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Move samples to samples by minimizing a sliced distance, and draw an animation.

    No learning rate is needed: each step is computed from the slices it draws.
    Once steps no longer bring samples nearer, they are matched to targets one to one.
    Files are as for `slicewise distance`; without any, a toy target is used. The
    exact W_2 that remains is printed at the end (the number of --quiet). Samples
    of more than two dimensions are shown by their two principal directions.
    Existing files need --force.

    [bold]Examples[/bold]
      slicewise flow                                    a toy target, flow.gif
      slicewise flow --toy knot --d 50 -o knot.html
      slicewise flow temple.jpg flower.jpg --samples 1000 -o colors.html
      slicewise flow x.npy y.npy -v ebsw --lr 3 --steps 200 --save moved.npy
    """
    check_one_format(as_json=as_json, quiet=quiet)
    rate = _rate(lr)
    check_choice("--objective", objective, names.OBJECTIVES)
    if steps is not None:
        check_count("--steps", steps, at_least=0)
    check_count("--frames", frames, at_least=2)
    if frames > _MOST_FRAMES:
        raise UserError(f"--frames {frames} is too many: give at most {_MOST_FRAMES}")
    if not 0 < fps <= 50:
        raise UserError(f"--fps {fps:g}: give a number above 0, up to 50")
    options.check_variant(variant)
    source, target = read_dashes([source, target])
    files = [file for file in (source, target) if file is not None]
    check_pair_or_toy(
        files,
        toy_name=toy_name,
        n=n,
        d=d,
        seed=seed,
        dtype=dtype,
        samples=samples,
        flatten=flatten,
    )
    check_choice("--header", header, names.HEADERS)
    encoder = _check_outputs(out, save, files, force)

    from slicewise.flows import Recording, Stopping, default_steps
    from slicewise.flows import flow as run_flow
    from slicewise.lab.images import as_gif, as_html, as_video, steps_to_record

    recipe, n_slices, own = options.recipe_of(variant, n_slices, option)
    sets = pair_or_toy(
        files,
        toy_name=toy_name,
        n=n,
        d=d,
        seed=seed,
        samples=samples,
        flatten=flatten,
        header=header,
    ).to(dtype, device)
    # The number of steps is known at the end: frames are chosen from these.
    one = sets.x.numel() * sets.x.element_size()
    most_steps = steps
    if most_steps is None:
        # No fewer than the flow will make at most: the dimensions of the data are not known yet.
        matched = rate != "auto" or (not sliced_only and len(sets.x) == len(sets.y))
        most_steps = default_steps(max(len(sets.x), len(sets.y)), sets.x.shape[1], matched=matched)
    if min(frames, most_steps + 1) * one > _RECORDED_BYTES:
        raise UserError(
            f"{frames} frames of {len(sets.x)} particles in {sets.x.shape[1]} dimensions need too much "
            f"memory: give fewer --frames or --samples"
        )
    most = 8 * frames if 8 * frames * one <= _CHEAP_BYTES else 4 * frames
    recorded = steps_to_record(most_steps, min(most, _RECORDED_BYTES // one))
    start = time.perf_counter()
    stuck = rate == "auto" and recipe.has_fixed_slices and sets.x.shape[1] > 1
    if stuck:
        print(
            f"note: variant {variant!r} has the same slices at every step, and never moves what they do not see: its flow "
            f"may end short of the target; -v sw and -v rqsw change theirs",
            file=sys.stderr,
        )
    with explain_memory_errors(), warnings.catch_warnings():
        # How it ended is among the lines of the result.
        warnings.simplefilter("ignore", NotArrivedWarning)
        found = run_flow(
            sets.x,
            sets.y,
            variant,
            lr=rate,
            max_steps=steps,
            objective=cast("Objective", objective),
            p=p,
            n_slices=n_slices,
            seeds=seed,
            stopping=Stopping(assign=False) if sliced_only else Stopping(),
            recording=Recording(particles_at=recorded, progress_bar=False if quiet else None),
            **own,
        )
    seconds = time.perf_counter() - start
    affordable = len(sets.x) * len(sets.y) <= EXACT_PAIRS
    result: dict[str, Any] = {
        "ended": found.status,
        "by": found.by,
        "jump": float(found.jump),
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
    lines = _lines(result, "" if stuck else "; a larger --steps may go further")
    show_bar = False if quiet else None
    shown = _film(found, sets, frames, 1 / p if objective == "power" else 1.0, show_bar)
    if save is not None:
        write_whole(save, _as_bytes(found, sets, save.suffix.lower()))
        lines.append(("saved", printable(str(save))))
    if out.suffix.lower() == ".html":
        title = f"{sets.x_name} → {sets.y_name}"
        write_whole(out, as_html(shown, fps=fps, title=title, facts=lines))
    else:
        with progress_bar(len(shown.steps), show_bar, "film") as tick:
            if encoder is None:
                drawn = as_gif(shown, fps=fps, tick=tick)
            else:
                drawn = as_video(shown, encoder, fps=fps, tick=tick)
        write_whole(out, drawn)
    lines.append(("animation", f"{printable(str(out))}, {len(shown.steps)} frames"))
    if shown.words:
        lines.append(("shows", shown.words))
    if as_json:
        places = {"out": str(out), "save": None if save is None else str(save)}
        print_json({**result, "frames": shown.whole_steps, "shows": shown.words, **places})
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


def _check_outputs(out: Path, save: Path | None, inputs: list[str], force: bool) -> Encoder | None:
    """Check where an animation and particles go; return the encoder, where the animation is a video."""
    from slicewise.lab.images import VIDEOS, find_encoder

    kind = out.suffix.lower()
    check_output_path("--out", out, (".gif", ".html", *VIDEOS), force=force, inputs=inputs)
    encoder = find_encoder(kind) if kind in VIDEOS else None
    if kind in VIDEOS and encoder is None:
        raise UserError(
            f"--out {printable(str(out))} needs a video encoder, and none is installed: install ffmpeg, or "
            f"pip install 'slicewise[video]'; .gif and .html need nothing"
        )
    if save is not None:
        check_output_path("--save", save, (".npy", ".npz"), force=force, inputs=inputs)
    return encoder


def _film(found: Flow, sets: SamplePair, most: int, root: float, show_bar: bool | None) -> Film:
    """Choose frames from the first step to the end; the particles may have jumped there."""
    import torch

    from slicewise.lab.images import choose_frames, film, seen_in
    from slicewise.transport import wasserstein

    end, final = int(found.n_steps), found.particles.cpu()
    history = found.history
    recorded = zip(history.particles_at, history.particles, strict=True)
    kept = [(step, x) for step, x in recorded if step <= end and bool(torch.isfinite(x).all())]
    if kept and kept[-1][0] == end and torch.equal(kept[-1][1], final):
        kept.pop()
    steps, particles = [*(step for step, _ in kept), end], [*(x for _, x in kept), final]
    target = sets.y.cpu()
    plane = seen_in(particles[0], target)
    frames = choose_frames(steps, particles, target, plane, most)
    w2, curve = None, None
    if len(sets.x) * len(sets.y) <= _CHEAP_PAIRS:
        # Steps that cannot be told apart have no frames, but the curve goes on.
        shown = {step for step, _ in frames}
        others = [(step, x) for step, x in kept if step not in shown]
        others = others[:: math.ceil(len(others) / _BETWEEN) or 1]
        points = []
        with progress_bar(len(frames) - 1 + len(others), show_bar, "W_2") as tick:
            for step, x in [*frames[:-1], *others]:
                points.append((float(step), float(wasserstein(x, target))))
                tick(len(points), f"step {step:g}")
        w2 = [left for _, left in points[: len(frames) - 1]] + [float(found.w2)]
        # The curve goes through steps that were made, not through frames between them.
        by_step = sorted((s, left) for s, left in points if s == int(s) <= end)
        curve = ("W₂", [*by_step, (float(end), w2[-1])])
    else:
        curve = ("sliced distance of each step", _sliced(found, root))
    names = f"{sets.x_name} ({len(sets.x)})", f"{sets.y_name} ({len(sets.y)})"
    return film(
        [step for step, _ in frames],
        torch.stack([x for _, x in frames]),
        target,
        names=names,
        w2=w2,
        curve=curve,
        colors=sets.colors,
        plane=plane,
    )


def _sliced(found: Flow, root: float) -> list[tuple[float, float]]:
    """The distance on the slices of some steps: what is known where the exact distance takes too long."""
    losses = (found.history.loss.double().clamp(min=0) ** root).tolist()
    every = math.ceil(len(losses) / _CURVE_POINTS) or 1
    return [(float(step), losses[step]) for step in range(0, len(losses), every)]


def _as_bytes(found: Flow, sets: SamplePair, suffix: str) -> bytes:
    import numpy as np

    file, particles = io.BytesIO(), found.particles.cpu().numpy()
    if suffix == ".npy":
        np.save(file, particles)
    else:
        source, target = sets.x.cpu().numpy(), sets.y.cpu().numpy()
        np.savez(file, particles=particles, source=source, target=target)
    return file.getvalue()


def _lines(result: dict[str, Any], hint: str) -> list[tuple[str, str]]:
    ended = {
        "arrived": "arrived by {by} after {steps} steps{before}, {seconds:.2f} s",
        "minimum reached": "minimum reached after {steps} steps, {seconds:.2f} s: the loss no longer falls",
        "out of steps": "out of steps after {steps}, {seconds:.2f} s{hint}",
        "stalled": "stalled after {steps} steps, {seconds:.2f} s: at rest away from the target; try another --seed",
        "diverged": "diverged after {steps} steps: the rate is too large; try --lr auto",
    }[result["ended"]]
    before = f" (W_2 at most {result['jump']:.2g} before it)" if result["jump"] > 0 else ""
    left = (
        f"{result['w2']:.3g}" if result["w2"] == result["w2"] else "not computed: too many samples"
    )
    how = "each step computed" if result["lr"] == "auto" else f"rate {result['lr']:g}"
    return [
        ("ended", ended.format(**result, hint=hint, before=before)),
        ("exact W_2 left", left),
        ("samples", "{source} (n = {n}) to {target} (m = {m}), d = {d}".format(**result)),
        ("variant", f"{result['variant']}, {how}, seed {result['seed']}"),
    ]
