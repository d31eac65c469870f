"""`slicewise transfer`: give photographs, or a movie, the colors of another photograph.

Options, output files and stored maps are checked before any photograph is read.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import (
    check_kept,
    check_one_format,
    check_output_path,
    print_json,
    print_lines,
)
from slicewise.lab.cli.common.samples import check_seed
from slicewise.lab.data import check_there, printable
from slicewise.lab.errors import UserError
from slicewise.lab.names import LOOKS, SPACES
from slicewise.support import check_choice, progress_bar, write_whole

if TYPE_CHECKING:
    from slicewise.color import ColorTransfer, RegionTransfer
    from slicewise.lab.data import Array
    from slicewise.lab.images import Frames

# Options that determine a map; each is an attribute of a fitted map too.
_FIT_OPTIONS = ("look", "variant", "space", "palette", "smoothness", "seed")
_REGIONS = "Regions"
_STRENGTHS = (0.4, 0.7, 1.0)  # of --preview
_PREVIEW_SIDE = 480
_PICTURES = (".png", ".jpg", ".jpeg")


def transfer(
    context: typer.Context,
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            show_default=False,
            help="Photographs to change, folders of them, or one movie.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET",
            show_default=False,
            help="The photograph with the wanted colors, or a map: of --save-map, or any .cube.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The result: a file, or a folder for several.",
            show_default=False,
        ),
    ] = None,
    look: Annotated[
        str,
        typer.Option(
            metavar="natural|exact|linear",
            help="natural: close to the target without artifacts. exact: as close as can be. linear: safest.",
            autocompletion=options.one_of(LOOKS),
        ),
    ] = "natural",
    strength: Annotated[
        float, typer.Option(help="From 0 (no change) to 1 (all the way).", metavar="0..1")
    ] = 1.0,
    keep_luminance: Annotated[
        bool,
        typer.Option("--keep-luminance", help="Change hue and chroma only, not how light it is."),
    ] = False,
    mask: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Change only what is white in this image; gray pixels change in part.",
            rich_help_panel=_REGIONS,
        ),
    ] = None,
    target_mask: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take colors only from what is white in this image of the target's size.",
            rich_help_panel=_REGIONS,
        ),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MASK:MASK",
            help="A region of the source and one of the target, as masks: sky to sky. May be repeated.",
            rich_help_panel=_REGIONS,
        ),
    ] = None,
    feather: Annotated[
        float,
        typer.Option(
            metavar="PIXELS",
            help="Soften the edges of masks of the source over so many pixels.",
            rich_help_panel=_REGIONS,
        ),
    ] = 0.0,
    variant: options.VariantName = "sw",
    space: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SPACES),
            autocompletion=options.one_of(SPACES),
            help="The color space in which colors are compared. \\[default: oklab for exact, else srgb]",
        ),
    ] = None,
    smoothness: Annotated[
        float | None,
        typer.Option(
            help="How smooth the map is: 1 comes close to the target, 100 is gentle. \\[default: by the image]"
        ),
    ] = None,
    palette: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Move K palette colors instead of pixels: faster, less exact."
        ),
    ] = None,
    seed: options.Seed = 0,
    preview: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw every look at several strengths, small: .png or .jpg. Needs no --out.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw before, after and target with their palettes: .png or .jpg.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    strip: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also draw the main colors of the result with their codes: .png or .jpg.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    save_map: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also save the map: .npz or .safetensors to use again, .cube for other programs, too.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    cube_size: Annotated[
        int,
        typer.Option(
            metavar="33|65",
            help="Colors along an edge of a .cube table.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = 33,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Also print the exact W_2 between 1,000 random pixels; needs POT or SciPy, and a second.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Give photographs, or a movie, the colors of another photograph, at full size.

    Some pixels are moved to the colors of the target, and all others follow by a
    smooth map, which keeps the texture. Several photographs and the frames of a
    shot get one map, so that colors do not flicker. Printed at the end is SW_2
    between the colors of the result and of the target, in levels of 0 to 255
    (the number of --quiet): with a mask, of the pixels it selects; of several
    photographs, for the last one.

    Photographs are turned upright and keep their transparency, EXIF and color
    profile; 16 bits are kept in TIFF and PNG. Movies need ffmpeg and keep their
    sound. Existing files need --force.

    [bold]Examples[/bold]
      slicewise transfer holiday.jpg painting.jpg -o new.jpg
      slicewise transfer holiday.jpg painting.jpg --preview looks.jpg
      slicewise transfer holiday.jpg painting.jpg -o new.png --strength 0.6 --compare both.jpg
      slicewise transfer frames/ painting.jpg -o colored/ --save-map look.npz
      slicewise transfer clip.mp4 painting.jpg -o new.mp4
      slicewise transfer other.jpg look.npz -o other-new.jpg
    """
    check_one_format(as_json=as_json, quiet=quiet)
    check_seed(seed)
    options.check_variant(variant)
    check_choice("--look", look, LOOKS)
    if not 0 <= strength <= 1:
        raise UserError(f"--strength {strength:g}: give a number from 0 to 1")
    if not 0 <= feather < math.inf:
        raise UserError(f"--feather {feather:g}: give a number of pixels, 0 or more")
    if cube_size not in (33, 65):
        raise UserError(f"--cube-size {cube_size}: give 33 or 65")
    if out is None and preview is None:
        raise UserError("--out is missing: name the result, or give --preview to look first")
    for path in (*source, target, *(one for one in (mask, target_mask) if one is not None)):
        check_there(path)
    pairs = [split_region(one) for one in region or ()]
    if pairs and (mask or target_mask or save_map):
        raise UserError(
            "--region has masks and maps of its own: leave --mask, --target-mask and --save-map out"
        )

    from slicewise.color import SUFFIXES as MAPS
    from slicewise.color import ColorTransfer, RegionTransfer
    from slicewise.color import feather as soften
    from slicewise.lab.images import (
        MOVIES,
        Frames,
        as_rgb,
        before_after,
        convert_profile,
        palette_strip,
        read_mask,
        read_picture,
        visible_pixels,
    )

    check_linear(variant)
    told: dict[str, Any] = {
        "look": look,
        "space": space,
        "palette": palette,
        "smoothness": smoothness,
        "generator": seed,
    }
    fitted = ColorTransfer(variant, **told)
    kept = target.suffix.lower() in MAPS
    if kept and (pairs or target_mask or preview):
        raise UserError(
            f"{printable(str(target))} is a map: --region, --target-mask and --preview need a photograph as TARGET"
        )
    if kept:
        fitted = load_map(target, context)
    show_bar = False if quiet or as_json else None
    how = {"strength": strength, "keep_luminance": keep_luminance}
    start = time.perf_counter()
    drawings = {"--preview": preview, "--compare": compare, "--strip": strip}
    if any(path.suffix.lower() in MOVIES for path in source):
        unused = {**drawings, "--mask": mask, "--target-mask": target_mask, "--region": region, "--save-map": save_map}  # fmt: skip
        result = recolor_movie(source, target, out, fitted, how, unused, force, show_bar)
    else:
        many = len(source) > 1 or source[0].is_dir()
        frames = Frames.of_all(source) if many else Frames(source)
        read = [*frames.paths, target, mask, target_mask, *(one for pair in pairs for one in pair)]
        frames.outputs = check_outputs(out, frames, many, drawings, save_map, force, read)
        share = None if mask is None else soften(read_mask(mask), feather)
        frames.mask = share
        first = frames.picture(0)
        wanted: Array | None = None
        by: ColorTransfer | RegionTransfer = fitted
        if kept:
            frames.check(show_bar)
        else:
            wanted = convert_profile(read_picture(target, reduce=True), first).pixels
            chosen = None if target_mask is None else read_mask(target_mask)
            check_size(chosen, wanted, target)
            if preview is not None:
                own = ColorTransfer(variant, **told)
                write_whole(preview, looks_sheet(own, first.pixels, wanted, share, chosen, keep_luminance, preview))  # fmt: skip
            if out is None:
                print_lines([("written", f"{printable(str(preview))}: every look, at {len(_STRENGTHS)} strengths")])  # fmt: skip
                return
            if pairs:
                regions = [(soften(read_mask(a), feather), read_mask(b)) for a, b in pairs]
                frames.mask = regions[0][0]  # all of one size
                by = RegionTransfer(variant=variant, **told)
                by.fit(frames, wanted, regions, progress_bar=show_bar)
            else:
                fitted.fit(frames, wanted, mask=share, target_mask=chosen, progress_bar=show_bar)
            wanted = visible_pixels(wanted, chosen)
        if save_map is not None:  # before the frames, which may be many
            baked: dict[str, Any] = {**how, "size": cube_size}
            fitted.save(save_map, **(baked if save_map.suffix.lower() == ".cube" else {}))
        moved = write_frames(frames, by, how, share, show_bar if many else False, show_bar)
        last = frames.picture(len(frames) - 1)
        seen = visible_pixels(last.pixels, share), visible_pixels(moved, share)
        result = {
            "images": len(frames),
            "height": last.pixels.shape[0],
            "width": last.pixels.shape[1],
            **_distances(*seen, wanted, seed if exact else None),
        }
        if compare is not None:
            sheet = [("before", as_rgb(last.pixels)), ("after", as_rgb(moved))]
            if wanted is not None:
                whole = convert_profile(read_picture(target, reduce=True), first).pixels
                sheet.append((f"colors of {printable(target.name)}", as_rgb(whole)))
            write_whole(compare, before_after(sheet, compare.suffix.lower()))
        if strip is not None:
            write_whole(strip, palette_strip(as_rgb(moved), strip.suffix.lower()))
    result = {
        "out": str(out),
        **result,
        "seconds": time.perf_counter() - start,
        "look": fitted.look,
        **how,
        "variant": str(fitted.variant),
        "space": fitted.space,
        "seed": fitted.generator,
    }
    if as_json:
        files = {"compare": compare, "map": save_map, "preview": preview, "strip": strip}
        print_json({**result, **{name: None if f is None else str(f) for name, f in files.items()}})
    elif quiet:
        print("nan" if result["sw2"] is None else result["sw2"])
    else:
        print_lines(_lines(result))


def write_frames(
    frames: Frames,
    by: ColorTransfer | RegionTransfer,
    how: dict[str, Any],
    share: Array | None,
    frame_bar: bool | None,
    pixel_bar: bool | None,
) -> Array:
    """Apply a map to all frames and write them; return the last."""
    from slicewise.lab.images import encode_picture

    moved = frames.picture(0).pixels
    with progress_bar(len(frames), frame_bar, "frames") as tick:
        for index, path in enumerate(frames.outputs):
            own = frames.picture(index)
            bar = pixel_bar if len(frames) == 1 else False
            moved = by.transform(own.pixels, **how, mask=share, progress_bar=bar)
            write_whole(path, encode_picture(replace(own, pixels=moved), path.suffix.lower()))
            tick(index + 1, own.name)
    return moved


def recolored(
    frames: Iterable[Array],
    shots: Sequence[range],
    maps: Sequence[ColorTransfer],
    how: dict[str, Any],
) -> Iterator[tuple[Array, Array]]:
    """Yield frames and what the map of their shot makes of them, in their order.

    Each is computed by one thread, as many at a time as torch may use: most of the work on a frame is too small to share.
    """
    import torch

    from slicewise.color import stay_on_one_thread, torch_on_one_thread

    workers = torch.get_num_threads()
    last = [shot.stop for shot in shots[:-1]]
    waiting: deque[tuple[Array, Future[Array]]] = deque()
    with torch_on_one_thread(), ThreadPoolExecutor(workers, "frames", stay_on_one_thread) as pool:
        for index, frame in enumerate(frames):
            own = maps[bisect_right(last, index)]
            waiting.append((frame, pool.submit(own.transform, frame, **how)))
            if len(waiting) > workers:  # so that few frames are in memory
                before, after = waiting.popleft()
                yield before, after.result()
        for before, after in waiting:
            yield before, after.result()


def recolor_movie(
    source: list[Path],
    target: Path,
    out: Path | None,
    fitted: ColorTransfer,
    how: dict[str, Any],
    unused: dict[str, Any],
    force: bool,
    show_bar: bool | None,
) -> dict[str, Any]:
    """Give a movie the colors of a photograph, or those of a map, by one map for each shot."""
    from slicewise.color import ColorTransfer
    from slicewise.lab.images import (
        MOVIES_WRITTEN,
        Movie,
        find_shots,
        frames_to_fit,
        palette_sw2,
        read_picture,
    )

    shown = printable(str(source[0]))
    if len(source) > 1:
        raise UserError(f"{shown} and others: give one movie at a time")
    for option, value in unused.items():
        if value:
            raise UserError(f"{option} is for photographs: leave it out for a movie")
    assert out is not None  # only --preview goes without it
    check_output_path("--out", out, MOVIES_WRITTEN, force=force, inputs=(source[0], target))
    movie = Movie.open(source[0])
    shots = find_shots(movie)
    maps = [fitted] * len(shots)
    wanted = None
    if fitted.field_ is None:
        wanted = read_picture(target, reduce=True).pixels
        some = frames_to_fit(movie, shots)
        with progress_bar(len(shots), show_bar, "shots") as tick:
            for i, frames in enumerate(some):
                maps[i] = ColorTransfer(**fitted.get_params()).fit(frames, wanted)
                tick(i + 1, "")
    latest = None
    with movie.writer(out) as pipe, progress_bar(shots[-1].stop, show_bar, "frames") as tick:
        for index, latest in enumerate(recolored(movie.frames(), shots, maps, how)):
            pipe.write(latest[1].tobytes())
            tick(min(index + 1, shots[-1].stop), "")
    assert latest is not None
    frame, moved = latest
    both = {"sw2_before": frame, "sw2": moved}
    return {
        "images": shots[-1].stop,
        "shots": len(shots),
        "height": movie.height,
        "width": movie.width,
        **{n: None if wanted is None else palette_sw2(one, wanted) for n, one in both.items()},
    }


def looks_sheet(
    like: ColorTransfer,
    source: Array,
    target: Array,
    mask: Array | None,
    target_mask: Array | None,
    keep_luminance: bool,
    path: Path,
) -> bytes:
    """Draw every look at several strengths on a small copy of the source."""
    from slicewise.color import ColorTransfer
    from slicewise.lab.images import as_rgb, contact_sheet

    step = max(1, max(source.shape[:2]) // _PREVIEW_SIDE)
    little = source[::step, ::step]
    share = None if mask is None else mask[::step, ::step]
    rows = []
    for look in LOOKS:
        own = ColorTransfer(**{**like.get_params(), "look": look})
        own.fit(little, target, mask=share, target_mask=target_mask)
        row = []
        for strength in _STRENGTHS:
            how: dict[str, Any] = {"strength": strength, "keep_luminance": keep_luminance}
            row.append((f"{look} {strength:g}", as_rgb(own.transform(little, **how, mask=share))))
        rows.append(row)
    rows[0].append(("source", as_rgb(little)))
    rows[1].append(("target", as_rgb(target)))
    return contact_sheet(rows, path.suffix.lower(), width=_PREVIEW_SIDE * 2 // 3)


def split_region(given: str) -> tuple[Path, Path]:
    """Split MASK:MASK into two files; names may have colons too."""
    places = [i for i, letter in enumerate(given) if letter == ":"]
    for place in places:
        pair = Path(given[:place]), Path(given[place + 1 :])
        if all(path.is_file() for path in pair):
            return pair
    raise UserError(
        f"--region {printable(given)}: give two files that exist, a mask of the source and one of the target, as "
        f"sky.png:its-sky.png"
    )


def check_size(mask: Array | None, pixels: Array, path: Path) -> None:
    """Check that a mask has the size of the target."""
    if mask is not None and mask.shape != pixels.shape[:2]:
        (h, w), (height, width) = mask.shape, pixels.shape[:2]
        raise UserError(
            f"the mask has {w} × {h} pixels, {printable(path.name)} has {width} × {height} when upright: give a "
            f"mask of its size"
        )


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
    out: Path | None,
    frames: Frames,
    many: bool,
    drawings: dict[str, Path | None],
    save_map: Path | None,
    force: bool,
    inputs: Sequence[Path | None],
) -> list[Path]:
    """Return the paths of the results, after checking that they may and can be written."""
    from slicewise.color import SUFFIXES as MAPS
    from slicewise.lab.images import WRITTEN

    shown = printable(str(out))
    paths: list[Path] = []
    if out is None:
        if save_map or drawings["--compare"] or drawings["--strip"]:
            raise UserError("--out is missing: only --preview goes without it")
    elif many:
        if out.exists() and not out.is_dir():
            raise UserError(
                f"--out {shown} is a file, but there are several sources: give a folder"
            )
        if out.suffix.lower() in WRITTEN and not out.exists():
            raise UserError(
                f"--out {shown} is the name of a file, but there are several sources: give a folder"
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
    if len({path.resolve() for path in paths}) < len(paths):
        raise UserError(
            f"two sources have one name, and would both be written to {shown}: rename one"
        )
    files = [*paths, *(file for file in (*drawings.values(), save_map) if file is not None)]
    if len({file.resolve() for file in files}) < len(files):
        raise UserError(
            "--out, --preview, --compare, --strip and --save-map must be different files"
        )
    kept: dict[str, Any] = {"force": force, "inputs": inputs}
    if paths:
        check_output_path("--out", paths[0], WRITTEN, **kept)
    for path in paths[1:]:
        check_kept(f"--out {printable(str(path))}", path, inputs)
    in_the_way = [file for file in paths[1:] if file.exists()]
    if in_the_way and not force:
        raise UserError(f"{printable(str(in_the_way[0]))} exists: give another name, or --force")
    for option, file in drawings.items():
        if file is not None:
            check_output_path(option, file, _PICTURES, **kept)
    if save_map is not None:
        check_output_path("--save-map", save_map, MAPS, **kept)
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
    before: Array, after: Array, wanted: Array | None, seed: int | None
) -> dict[str, float | None]:
    """Return the distances of the colors before and after to the target's.

    With a seed, also the exact W_2 between random pixels, and that between two samples of the target. All are None if a
    map is applied, because there is no target.
    """
    from slicewise.lab.images import palette_sw2, palette_w2

    found: dict[str, float | None] = {
        "sw2_before": None if wanted is None else palette_sw2(before, wanted),
        "sw2": None if wanted is None else palette_sw2(after, wanted),
    }
    if seed is not None:
        compared = {"w2_before": before, "w2": after, "w2_floor": wanted}
        for name, one in compared.items():
            found[name] = None
            if one is not None and wanted is not None:
                found[name] = palette_w2(one, wanted, seed)
    return found


def _lines(result: dict[str, Any]) -> list[tuple[str, str]]:
    what = f"{result['width']} × {result['height']}"
    if "shots" in result:
        shots = "1 shot" if result["shots"] == 1 else f"{result['shots']} shots"
        what = f"{result['images']} frames of {what} in {shots}"
    elif result["images"] > 1:
        what = f"{result['images']} images, the last {what}"
    lines = [("written", f"{printable(result['out'])}, {what}, in {result['seconds']:.1f} s")]
    if result["sw2"] is not None and math.isfinite(result["sw2"]):
        lines.append(
            ("palette SW_2", f"{result['sw2_before']:.1f} before, {result['sw2']:.1f} after")
        )
    if result.get("w2") is not None and math.isfinite(result["w2"]):
        found = f"{result['w2_before']:.1f} before, {result['w2']:.1f} after"
        lines.append(
            ("exact W_2", f"{found}; {result['w2_floor']:.1f} between two samples of the target")
        )
    by = f"{result['look']}, {printable(result['variant'])}"  # the variant may be from a file
    by += "" if result["space"] is None else f" in {result['space']}"
    seed = (
        "" if result["seed"] is None else f", seed {result['seed']}"
    )  # older maps do not store it
    kept = ", luminance kept" if result["keep_luminance"] else ""
    return [*lines, ("by", f"{by}, strength {result['strength']:g}{kept}{seed}")]
