"""What `slicewise transfer` refuses before it reads a photograph: variants without a step, files that are in the way."""

from __future__ import annotations

from pathlib import Path

from slicewise.catalogue import VARIANTS
from slicewise.checks import check_choice
from slicewise.lab.arrays import printable
from slicewise.lab.cli.saying import place_for
from slicewise.lab.frames import Frames
from slicewise.lab.pictures import WRITTEN
from slicewise.lab.trouble import Trouble
from slicewise.learn.color.keeping import SUFFIXES as MAPS


def check_variant(variant: str) -> None:
    """Can a step be computed for it?"""
    check_choice("variant", variant, VARIANTS)
    if VARIANTS[variant]().lift is not None:
        usable = [name for name, own in VARIANTS.items() if own().lift is None]
        raise Trouble(
            f"--variant {variant}: no step can be computed for its slices, which are not linear; give one of "
            f"{', '.join(usable)}"
        )


def places_for(
    out: Path, frames: Frames, many: bool, compare: Path | None, save_map: Path | None, force: bool
) -> list[Path]:
    """Where results go, once it is known that nothing is in the way and all can be written; nothing is made yet."""
    shown = printable(str(out))
    if many:
        if out.exists() and not out.is_dir():
            raise Trouble(f"--out {shown} is a file, the source a folder: name a folder")
        if out.suffix.lower() in WRITTEN and not out.exists():
            raise Trouble(
                f"--out {shown} is the name of a file, the source a folder: name a folder"
            )
        places = [out / path.name for path in frames.paths]
        for place in places:
            if place.suffix.lower() not in WRITTEN:
                raise Trouble(
                    f"{printable(place.name)} cannot be written: frames are {', '.join(WRITTEN)}"
                )
    else:
        if out.suffix.lower() not in WRITTEN:
            raise Trouble(f"--out {shown}: give a name that ends in {', '.join(WRITTEN)}")
        if out.is_dir():
            raise Trouble(f"--out {shown} is a folder: name a file")
        places = [out]
    files = [*places, *(file for file in (compare, save_map) if file is not None)]
    if len({file.resolve() for file in files}) < len(files):
        raise Trouble("--out, --compare and --save-map name one file twice: give each its own")
    in_the_way = [file for file in files if file.exists()]
    if in_the_way and not force:
        raise Trouble(f"{printable(str(in_the_way[0]))} exists: name another, or give --force")
    place_for("--out", places[0], WRITTEN)
    if compare is not None:
        place_for("--compare", compare, (".png", ".jpg", ".jpeg"))
    if save_map is not None:
        place_for("--save-map", save_map, MAPS)
    return places
