"""`slicewise latents`: describe a file of latents, and draw what was learned of them."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import check_output_path, print_json, print_lines
from slicewise.lab.data import find_file, printable
from slicewise.lab.errors import UserError
from slicewise.lab.names import ADULT, CHILD, GENERATE, TRANSLATE
from slicewise.support import check_choice, progress_bar, write_whole

if TYPE_CHECKING:
    from torch import Tensor

    from slicewise.judging import Scores
    from slicewise.lab.data import Array
    from slicewise.lab.latents import Latents
    from slicewise.lab.report import Group
    from slicewise.lab.study import Store

_DPI = 200  # one face is an inch wide
_LEAST_SIDE = 64  # pixels; smaller pictures are enlarged


def latents(
    path: Annotated[
        str | None,
        typer.Argument(metavar="PATH", show_default=False, help="A folder or file of latents."),
    ] = None,
    labels: options.LatentLabels = None,
    held_out: options.LatentsHeldOut = None,
    adult: options.AdultAge = ADULT,
    child: options.ChildAge = CHILD,
    more: options.MoreLatents = 0,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge",
            help="Also judge real data, a constant and a Gaussian, as baselines; takes half a minute.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.png",
            help="Draw the explained variance, the split and the domains.",
        ),
    ] = None,
    pictures: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Decode some held-out rows, if there is a decoder."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.db",
            help="With --pictures: decode samples of the runs of `slicewise reproduce` in this store.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --store: the task. \\[default: the first one]"),
    ] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Describe latents: sizes, splits, domains, explained variance, and baselines.

    PATH is a folder with latents.npy and perhaps gender.npy and age.npy (the
    public ALAE latents of FFHQ), a folder with stylegan_ffhq_w512_part0.npz …,
    or a matrix: npy, npz, safetensors (file.npz:name picks an array). Without
    one, 5,000 MNIST digits are encoded by a network that is trained in seconds.

    [bold]Examples[/bold]
      slicewise latents
      slicewise latents ffhq/ --adult 18 --child 10 -o ffhq.png
      slicewise latents w.npz --labels gender.npy --judge
      slicewise latents w512/ --pictures faces.png --store runs.db --task "male to female"
    """  # fmt: skip
    outputs = {name: check_output_path(name, file, (".png",), force=force, inputs=(path, labels, store))
              for name, file in (("--out", out), ("--pictures", pictures)) if file is not None}  # fmt: skip
    if store is not None and pictures is None:
        raise UserError("--store needs --pictures FILE.png")
    if task is not None and store is None:
        raise UserError("--task needs --store FILE.db")
    for given in (path, labels):
        if given is not None and not Path(given).is_dir():
            find_file(given)
    if store is not None:
        from slicewise.lab.study import Store

        Store.reading(store).close()  # a store that is not there is missed before the work begins

    from slicewise.lab.latents import load, views

    found = load(path, labels=labels, held_out=held_out, adult=adult, child=child, more=more)
    result = _facts(found)
    if judge:
        from slicewise.judging import baselines

        judged = baselines(found.train, found.judged[: len(found.train)])
        result["judged"] = {name: vars(one) for name, one in judged.items()}
    else:
        judged = {}
    if "--pictures" in outputs:
        drawn = _decoded(found) if store is None else pictures_of_study(store, found, task)
        write_whole(outputs["--pictures"], drawn)
    if "--out" in outputs:
        file = io.BytesIO()
        views(found).savefig(file, format="png", dpi=110)
        write_whole(outputs["--out"], file.getvalue())
    if as_json:
        print_json(result)
    else:
        print_lines(_lines(result, judged))


def _facts(found: Latents) -> dict[str, Any]:
    from slicewise.lab.latents import (
        axes_for,
        explained_variance,
        participation_ratio,
        subset_sizes,
        tasks,
    )

    explained = explained_variance(found.train)
    return {
        "name": found.name,
        "digest": found.digest,
        "rows": len(found.rows),
        "d": found.d,
        "sets": subset_sizes(found),
        "tasks": [task.name for task in tasks(found)],
        "participation_ratio": participation_ratio(found.train),
        "axes": {f"{share:g}": axes_for(explained, share) for share in (0.5, 0.9, 0.99)},
        "decodes": found.decoder is not None,
        "undecoded": None if found.decoder is not None else found.undecoded,
        "notes": list(found.notes),
    }


def _lines(result: dict[str, Any], judged: dict[str, Scores]) -> list[tuple[str, str]]:
    axes = ", ".join(f"{float(share):.0%} in {count}" for share, count in result["axes"].items())
    lines = [
        (result["name"], f"{result['rows']:,} rows of {result['d']} coordinates"),
        (
            "variance",
            f"{axes} principal axes; participation ratio {result['participation_ratio']:.1f}",
        ),
    ]
    lines += [
        (row["set"], f"{row['train']:,} to train on, {row['held out']:,} held out")
        for row in result["sets"]
    ]
    lines += [
        ("tasks", ", ".join(result["tasks"])),
        ("pictures", "can be decoded" if result["decodes"] else f"none: {result['undecoded']}"),
    ]
    lines += [("" if index else "notes", note) for index, note in enumerate(result["notes"])]
    lines += [
        (name, f"SW_2 {one.sw2:.4g}, energy {one.energy:.4g}, Fréchet {one.frechet:.4g}, variance {one.variance_ratio:.3g}, "
               f"W_2 {one.w2:.4g}")
        for name, one in judged.items()
    ]  # fmt: skip
    return lines


def _decoded(found: Latents) -> bytes:
    from PIL import Image

    from slicewise.lab.latents import mosaic

    pictures = found.decode(found.held_out[:32])
    larger = -(-_LEAST_SIDE // pictures.shape[1])
    pictures = pictures.repeat(larger, axis=1).repeat(larger, axis=2)
    file = io.BytesIO()
    Image.fromarray(mosaic(pictures)).save(file, format="png")
    return file.getvalue()


def pictures_of_study(path: Path, latents: Latents, asked: str | None) -> bytes:
    """Draw samples of one task of a study, a row for each variant at its best rate.

    Args:
        path: the store.
        latents: those of the study, with a decoder.
        asked: the name of the task; the first one by default.

    Returns:
        A PNG file: held-out samples in the first row, or the sources of a translation above their translations.

    Raises:
        UserError: the store has no samples of these latents.
    """
    from slicewise.lab.latents import made_by, translated
    from slicewise.lab.report import samples
    from slicewise.lab.study import Store

    with Store.reading(path) as store:
        group = _group(store, path, latents, asked)
        found = samples(store, group, "end")
    if not found:
        raise UserError(
            f"{printable(str(path))} has no samples of {group.setting}: all its runs diverged, or were made by an "
            f"earlier version"
        )
    made = {one.label: _rows(one.made) for one in found}
    count = len(found[0].made)
    with progress_bar(len(found) + 1, None, "lines decoded") as tick:
        done = 0

        def decoder(rows: Tensor) -> Array:
            nonlocal done
            pictures = latents.decode(rows)
            done += 1
            tick(done, "")
            return pictures

        seen = dataclasses.replace(latents, decoder=decoder)
        if found[0].source is None:
            drawing = made_by(seen, made, count)
        else:
            source, _, target = group.setting.partition(" to ")
            drawing = translated(seen, _rows(found[0].source), made, (source, target), count)
        file = io.BytesIO()
        drawing.savefig(file, format="png", dpi=_DPI)
    return file.getvalue()


def _group(store: Store, path: Path, latents: Latents, asked: str | None) -> Group:
    """Return the runs of a task on these latents; of several networks or lengths, those of the most steps."""
    from slicewise.lab.report import groups

    every = [group for name in (GENERATE, TRANSLATE) for group in groups(store, name)[0]]
    ours = [one for one in every if one.given["task"]["latents"] == latents.digest]
    if not ours:
        raise UserError(
            f"{printable(str(path))} has no runs on {latents.name} ({latents.digest[:6]}) as they are split here: give the "
            f"same path and options as to `slicewise reproduce`"
        )
    there = list(dict.fromkeys(one.setting for one in ours))
    if asked is not None:
        check_choice("--task", asked, there)
    wanted = there[0] if asked is None else asked
    return max((one for one in ours if one.setting == wanted), key=lambda one: one.given["steps"])


def _rows(kept: Array) -> Tensor:
    import torch

    return torch.from_numpy(kept).float()
