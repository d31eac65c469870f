"""`slicewise transfer`: the colors of one photograph on another, or on a folder of frames.

What `slicewise transfer` refuses before it reads a photograph: variants without a step, files that are in the way.

A map of colors that was kept, and options that would have made another one.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from slicewise.color import SUFFIXES as MAPS
from slicewise.color import ColorTransfer
from slicewise.lab.cli import options
from slicewise.lab.cli.output import check_one_format, check_output_path, print_json, print_lines
from slicewise.lab.cli.samples import generator_for
from slicewise.lab.data import Array, printable
from slicewise.lab.errors import UserError
from slicewise.lab.images import (
    WRITTEN,
    Frames,
    as_rgb,
    before_after,
    convert_profile,
    encode_picture,
    palette_w2,
    read_mask,
    read_picture,
    visible_pixels,
)
from slicewise.support import check_choice, progress_bar, write_whole
from slicewise.variants import VARIANTS


def check_variant(variant: str) -> None:
    """Can a step be computed for it?"""
    check_choice("variant", variant, VARIANTS)
    if VARIANTS[variant]().lift is not None:
        usable = [name for name, own in VARIANTS.items() if own().lift is None]
        raise UserError(
            f"--variant {variant}: no step can be computed for its slices, which are not linear; give one of "
            f"{', '.join(usable)}"
        )


def check_outputs(
    out: Path, frames: Frames, many: bool, compare: Path | None, save_map: Path | None, force: bool
) -> list[Path]:
    """Where results go, once it is known that nothing is in the way and all can be written; nothing is made yet."""
    shown = printable(str(out))
    if many:
        if out.exists() and not out.is_dir():
            raise UserError(f"--out {shown} is a file, the source a folder: name a folder")
        if out.suffix.lower() in WRITTEN and not out.exists():
            raise UserError(
                f"--out {shown} is the name of a file, the source a folder: name a folder"
            )
        paths = [out / frame.name for frame in frames.paths]
        for path in paths:
            if path.suffix.lower() not in WRITTEN:
                raise UserError(
                    f"{printable(path.name)} cannot be written: frames are {', '.join(WRITTEN)}"
                )
    else:
        if out.suffix.lower() not in WRITTEN:
            raise UserError(f"--out {shown}: give a name that ends in {', '.join(WRITTEN)}")
        if out.is_dir():
            raise UserError(f"--out {shown} is a folder: name a file")
        paths = [out]
    files = [*paths, *(file for file in (compare, save_map) if file is not None)]
    if len({file.resolve() for file in files}) < len(files):
        raise UserError("--out, --compare and --save-map name one file twice: give each its own")
    in_the_way = [file for file in files if file.exists()]
    if in_the_way and not force:
        raise UserError(f"{printable(str(in_the_way[0]))} exists: name another, or give --force")
    check_output_path("--out", paths[0], WRITTEN)
    if compare is not None:
        check_output_path("--compare", compare, (".png", ".jpg", ".jpeg"))
    if save_map is not None:
        check_output_path("--save-map", save_map, MAPS)
    return paths


# Options that say how a map is fitted; all are also what a fitted map is asked for.
_FIT_OPTIONS = ("variant", "space", "palette", "smoothness", "seed")


def load_map(path: Path, context: typer.Context) -> ColorTransfer:
    """The map in a file; options it was not fitted with are refused, since nothing is fitted any more."""
    shown = printable(str(path))
    if context.params["save_map"] is not None:
        raise UserError(f"{shown} is a map: --save-map keeps a new one, leave it out")
    fitted = ColorTransfer.load(path)
    for name in _FIT_OPTIONS:
        source = context.get_parameter_source(name)
        given, had = context.params[name], getattr(fitted, name)
        if source is not None and source.name != "DEFAULT" and given != had:
            raise UserError(
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


def transfer(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help="The photograph to change, or a folder of frames.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            show_default=False,
            help="The photograph whose colors it gets, or a map of --save-map.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The result: a file, or a folder for frames.", show_default=False
        ),
    ],
    strength: Annotated[
        float, typer.Option(help="From 0, nothing changes, to 1, all the way.", metavar="0..1")
    ] = 1.0,
    variant: options.VariantName = "sw",
    space: Annotated[
        str, typer.Option(metavar="oklab|srgb|linear", help="Where colors are compared.")
    ] = "oklab",
    smoothness: Annotated[
        float, typer.Option(help="10 is a gentler map, and a palette less alike.")
    ] = 1.0,
    palette: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Flow K palette colors instead of pixels: quicker, less exact."
        ),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Change only what is white in this image, some of what is gray."
        ),
    ] = None,
    seed: options.Seed = 0,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw before, after and target with their palettes: .png or .jpg.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    save_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also keep the map: .npz or .safetensors to use again, .cube for other programs.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Write over files that exist.", rich_help_panel=options.OUTPUT
        ),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put the colors of one photograph on another, at full size, with no rate to choose.

    Pixels flow to the target's palette; the photograph follows by smooth
    displacements, its texture kept. A folder of frames gets one map, so that
    colors do not flicker. Told at the end is the exact W_2 between 1,000 random
    pixels of either side, in levels of 0 to 255 (the number --quiet prints);
    with a mask, of what it shows; of frames, for the last. Two such samples of
    the target are apart, too: by what is told beside it.

    Photographs are turned upright and keep their transparency, EXIF and color
    profile; 16 bits are kept in TIFF. Nothing is written over without --force.

    [bold]Examples[/bold]
      slicewise transfer holiday.jpg painting.jpg -o new.jpg
      slicewise transfer holiday.jpg painting.jpg -o new.png --strength 0.6 --compare both.jpg
      slicewise transfer frames/ painting.jpg -o colored/ --save-map look.npz
      slicewise transfer other.jpg look.npz -o other-new.jpg
    """
    check_one_format(as_json=as_json, quiet=quiet)
    generator_for(seed)  # says what is wrong with it
    check_variant(variant)
    if not 0 <= strength <= 1:
        raise UserError(f"--strength {strength:g}: give a number from 0 to 1")
    fitted = ColorTransfer(variant, space=space, palette=palette, smoothness=smoothness, seed=seed)
    kept = target.suffix.lower() in MAPS
    if kept:
        fitted = load_map(target, context)
    many = source.is_dir()
    frames = Frames.of_folder(source) if many else Frames([source])
    frames.outputs = outputs = check_outputs(out, frames, many, compare, save_map, force)
    frames.mask = share = None if mask is None else read_mask(mask)
    bar = False if quiet or as_json else None
    start = time.perf_counter()
    first = frames.picture(0)
    wanted: Array | None = None
    if kept:
        frames.check(bar)
    else:
        wanted = convert_profile(read_picture(target, reduce=True), first).pixels
        fitted.fit(frames, wanted, mask=share, bar=bar)
    if save_map is not None:
        fitted.save(save_map)  # before the frames, which may be many: who stops there has it
    moved = first.pixels
    with progress_bar(len(frames), bar if many else False, "frames") as tick:
        for index, path in enumerate(outputs):
            own = frames.picture(index)
            moved = fitted.transform(
                own.pixels, strength=strength, mask=share, bar=False if many else bar
            )
            write_whole(path, encode_picture(replace(own, pixels=moved), path.suffix.lower()))
            tick(index + 1, own.name)
    seconds = time.perf_counter() - start
    last = frames.picture(len(frames) - 1)
    said: dict[str, Any] = {
        "out": str(out),
        "images": len(frames),
        "height": last.pixels.shape[0],
        "width": last.pixels.shape[1],
        **_distances(
            visible_pixels(last.pixels, share), visible_pixels(moved, share), wanted, seed
        ),
        "seconds": seconds,
        "strength": strength,
        "variant": str(fitted.variant),
        "space": fitted.space,
        "seed": fitted.seed,
    }
    if compare is not None:
        sheet = [("before", as_rgb(last.pixels)), ("after", as_rgb(moved))]
        if wanted is not None:
            sheet.append((f"colors of {printable(target.name)}", as_rgb(wanted)))
        write_whole(compare, before_after(sheet, compare.suffix.lower()))
    if as_json:
        files = {"compare": compare, "map": save_map}
        print_json({**said, **{name: None if f is None else str(f) for name, f in files.items()}})
    elif quiet:
        print("nan" if said["w2"] is None else said["w2"])
    else:
        print_lines(_lines(said))


def _distances(
    before: Array, after: Array, wanted: Array | None, seed: int
) -> dict[str, float | None]:
    """How far palettes are from the target's, and what two samples of the target have; None by a map, which has none."""
    compared = {"w2_before": before, "w2": after, "w2_floor": wanted}
    return {
        name: None if one is None or wanted is None else palette_w2(one, wanted, seed)
        for name, one in compared.items()
    }


def _lines(said: dict[str, Any]) -> list[tuple[str, str]]:
    what = f"{said['width']} × {said['height']}"
    if said["images"] > 1:
        what = f"{said['images']} images, the last {what}"
    lines = [("written", f"{printable(said['out'])}, {what}, in {said['seconds']:.1f} s")]
    if said["w2"] is not None and math.isfinite(said["w2"]):
        found = f"{said['w2_before']:.1f} before, {said['w2']:.1f} after"
        lines.append(("palette W_2", f"{found}; {said['w2_floor']:.1f} of the target and itself"))
    by = f"{printable(said['variant'])} in {said['space']}"  # a map's own words, from a file
    seed = "" if said["seed"] is None else f", seed {said['seed']}"  # older maps do not say it
    return [*lines, ("by", f"{by}, strength {said['strength']:g}{seed}")]
