"""`slicewise transfer`: give a photograph, or a folder of frames, the colors of another one.

Options, output files and stored maps are checked before any photograph is read.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab.cli import options
from slicewise.lab.cli.output import check_one_format, check_output_path, print_json, print_lines
from slicewise.lab.cli.samples import check_seed
from slicewise.lab.data import check_there, printable
from slicewise.lab.errors import UserError
from slicewise.support import progress_bar, write_whole

if TYPE_CHECKING:
    from slicewise.color import ColorTransfer
    from slicewise.lab.data import Array
    from slicewise.lab.images import Frames

# Options that determine a map; each is an attribute of a fitted map too.
_FIT_OPTIONS = ("variant", "space", "palette", "smoothness", "seed")


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
            help="The photograph with the wanted colors, or a map of --save-map.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="The result: a file, or a folder for frames.", show_default=False
        ),
    ],
    strength: Annotated[
        float, typer.Option(help="From 0 (no change) to 1 (all the way).", metavar="0..1")
    ] = 1.0,
    variant: options.VariantName = "sw",
    space: Annotated[
        str,
        typer.Option(
            metavar="oklab|srgb|linear", help="The color space in which colors are compared."
        ),
    ] = "oklab",
    smoothness: Annotated[
        float,
        typer.Option(
            help="Larger values give a smoother map, and colors less like the target's; 10 is gentle."
        ),
    ] = 1.0,
    palette: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Move K palette colors instead of pixels: faster, less exact."
        ),
    ] = None,
    mask: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Change only what is white in this image; gray pixels change in part.",
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
            help="Also save the map: .npz or .safetensors to use again, .cube for other programs.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite existing files.", rich_help_panel=options.OUTPUT),
    ] = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Give a photograph the colors of another one, at full size.

    Some pixels are moved to the colors of the target, and all others follow by a
    smooth map, which keeps the texture. A folder of frames gets one map, so that
    colors do not flicker. Printed at the end is the exact W_2 between 1,000
    random pixels of the result and of the target, in levels of 0 to 255 (the
    number of --quiet): with a mask, of the pixels it selects; of frames, for the
    last one. For comparison, the distance between two samples of the target.

    Photographs are turned upright and keep their transparency, EXIF and color
    profile; 16 bits are kept in TIFF. Existing files need --force.

    [bold]Examples[/bold]
      slicewise transfer holiday.jpg painting.jpg -o new.jpg
      slicewise transfer holiday.jpg painting.jpg -o new.png --strength 0.6 --compare both.jpg
      slicewise transfer frames/ painting.jpg -o colored/ --save-map look.npz
      slicewise transfer other.jpg look.npz -o other-new.jpg
    """
    check_one_format(as_json=as_json, quiet=quiet)
    check_seed(seed)
    options.check_variant(variant)
    if not 0 <= strength <= 1:
        raise UserError(f"--strength {strength:g}: give a number from 0 to 1")
    for path in (source, target, *([] if mask is None else [mask])):
        check_there(path)

    from slicewise.color import SUFFIXES as MAPS
    from slicewise.color import ColorTransfer
    from slicewise.lab.images import (
        Frames,
        as_rgb,
        before_after,
        convert_profile,
        encode_picture,
        read_mask,
        read_picture,
        visible_pixels,
    )

    check_linear(variant)
    fitted = ColorTransfer(
        variant, space=space, palette=palette, smoothness=smoothness, generator=seed
    )
    kept = target.suffix.lower() in MAPS
    if kept:
        fitted = load_map(target, context)
    many = source.is_dir()
    frames = Frames.of_folder(source) if many else Frames([source])
    frames.outputs = outputs = check_outputs(out, frames, many, compare, save_map, force)
    frames.mask = share = None if mask is None else read_mask(mask)
    show_bar = False if quiet or as_json else None
    start = time.perf_counter()
    first = frames.picture(0)
    wanted: Array | None = None
    if kept:
        frames.check(show_bar)
    else:
        wanted = convert_profile(read_picture(target, reduce=True), first).pixels
        fitted.fit(frames, wanted, mask=share, progress_bar=show_bar)
    if save_map is not None:
        fitted.save(save_map)  # before the frames, which may be many
    moved = first.pixels
    with progress_bar(len(frames), show_bar if many else False, "frames") as tick:
        for index, path in enumerate(outputs):
            own = frames.picture(index)
            moved = fitted.transform(
                own.pixels, strength=strength, mask=share, progress_bar=False if many else show_bar
            )
            write_whole(path, encode_picture(replace(own, pixels=moved), path.suffix.lower()))
            tick(index + 1, own.name)
    seconds = time.perf_counter() - start
    last = frames.picture(len(frames) - 1)
    result: dict[str, Any] = {
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
        "seed": fitted.generator,
    }
    if compare is not None:
        sheet = [("before", as_rgb(last.pixels)), ("after", as_rgb(moved))]
        if wanted is not None:
            sheet.append((f"colors of {printable(target.name)}", as_rgb(wanted)))
        write_whole(compare, before_after(sheet, compare.suffix.lower()))
    if as_json:
        files = {"compare": compare, "map": save_map}
        print_json({**result, **{name: None if f is None else str(f) for name, f in files.items()}})
    elif quiet:
        print("nan" if result["w2"] is None else result["w2"])
    else:
        print_lines(_lines(result))


def check_linear(variant: str) -> None:
    """Check that a step can be computed for a variant."""
    from slicewise.variants import VARIANTS

    if VARIANTS[variant]().lift is not None:
        usable = [name for name, own in VARIANTS.items() if own().lift is None]
        raise UserError(
            f"--variant {variant}: no step can be computed for slices that are not linear; give one of "
            f"{', '.join(usable)}"
        )


def check_outputs(
    out: Path, frames: Frames, many: bool, compare: Path | None, save_map: Path | None, force: bool
) -> list[Path]:
    """Return the paths of the results, after checking that they do not exist and can be written."""
    from slicewise.color import SUFFIXES as MAPS
    from slicewise.lab.images import WRITTEN

    shown = printable(str(out))
    if many:
        if out.exists() and not out.is_dir():
            raise UserError(f"--out {shown} is a file, but the source is a folder: give a folder")
        if out.suffix.lower() in WRITTEN and not out.exists():
            raise UserError(
                f"--out {shown} is the name of a file, but the source is a folder: give a folder"
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
            raise UserError(f"--out {shown} is a folder: give a file")
        paths = [out]
    files = [*paths, *(file for file in (compare, save_map) if file is not None)]
    if len({file.resolve() for file in files}) < len(files):
        raise UserError("--out, --compare and --save-map must be different files")
    in_the_way = [file for file in files if file.exists()]
    if in_the_way and not force:
        raise UserError(f"{printable(str(in_the_way[0]))} exists: give another name, or --force")
    check_output_path("--out", paths[0], WRITTEN)
    if compare is not None:
        check_output_path("--compare", compare, (".png", ".jpg", ".jpeg"))
    if save_map is not None:
        check_output_path("--save-map", save_map, MAPS)
    return paths


def load_map(path: Path, context: typer.Context) -> ColorTransfer:
    """Load a map from a file, and refuse options that differ from those it was fitted with."""
    from slicewise.color import ColorTransfer

    shown = printable(str(path))
    if context.params["save_map"] is not None:
        raise UserError(f"{shown} is a map already: leave --save-map out")
    fitted = ColorTransfer.load(path)
    for name in _FIT_OPTIONS:
        source = context.get_parameter_source(name)
        given, had = context.params[name], getattr(fitted, "generator" if name == "seed" else name)
        if source is not None and source.name != "DEFAULT" and given != had:
            raise UserError(
                f"--{name} {_word(given)}: {shown} is a map, {_fitted(name, had)}; leave --{name} out, or give "
                f"a photograph as TARGET to fit a new map"
            )
    return fitted


def _fitted(name: str, had: Any) -> str:
    if had is None and name == "seed":
        return "which does not store its seed"
    return "fitted" + (f" without --{name}" if had is None else f" with --{name} {_word(had)}")


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else printable(str(value))


def _distances(
    before: Array, after: Array, wanted: Array | None, seed: int
) -> dict[str, float | None]:
    """Return the distances of the colors before and after to the target's, and between two samples of the target.

    They are None if a map is applied, because there is no target.
    """
    from slicewise.lab.images import palette_w2

    compared = {"w2_before": before, "w2": after, "w2_floor": wanted}
    return {
        name: None if one is None or wanted is None else palette_w2(one, wanted, seed)
        for name, one in compared.items()
    }


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    what = f"{result['width']} × {result['height']}"
    if result["images"] > 1:
        what = f"{result['images']} images, the last {what}"
    lines = [("written", f"{printable(result['out'])}, {what}, in {result['seconds']:.1f} s")]
    if result["w2"] is not None and math.isfinite(result["w2"]):
        found = f"{result['w2_before']:.1f} before, {result['w2']:.1f} after"
        lines.append(
            ("palette W_2", f"{found}; {result['w2_floor']:.1f} between two samples of the target")
        )
    by = f"{printable(result['variant'])} in {result['space']}"  # from a file
    seed = (
        "" if result["seed"] is None else f", seed {result['seed']}"
    )  # older maps do not store it
    return [*lines, ("by", f"{by}, strength {result['strength']:g}{seed}")]
