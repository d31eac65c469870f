"""Train networks without a learning rate over a grid of settings, against a search over Adam's rates.

    python -m benchmarks.networks --out benchmarks/results --device cuda

Several processes may share a device: `--part 1/4` to `--part 4/4`, then `--merge benchmarks/results`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.networks import autoencoders, overhead, report, store, training
from benchmarks.networks.settings import (
    COUNTS,
    DEVELOPMENT_SEED,
    GRID_SEED,
    Setting,
    grid,
    seconds_of_all,
    small,
)
from benchmarks.speed.timing import environment
from slicewise.support import write_whole


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; return 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the record")
    parser.add_argument("--quick", action="store_true", help="a few small settings, few steps")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    words = "of the settings; the default was looked at by nobody who made the rule"
    parser.add_argument("--grid-seed", type=int, help=words)
    parser.add_argument("--part", default="1/1", help="i/n: the i-th of n shares of the settings")
    words = "in random order, so that what is finished when it is stopped is a sample of the grid"
    parser.add_argument("--shuffled", action="store_true", help=words)
    parser.add_argument("--tasks", nargs="+", choices=tuple(COUNTS), default=tuple(COUNTS))
    parser.add_argument("--sides", nargs="+", choices=training.SIDES, default=training.SIDES[:3])
    parser.add_argument("--numbers", nargs="+", type=int, help="settings of these numbers alone")
    parser.add_argument("--again", action="store_true", help="also what is finished")
    parser.add_argument("--digits", type=Path, help="file of digits, where scikit-learn is missing")
    parser.add_argument("--merge", nargs="+", type=Path, help="write the record of these files")
    parser.add_argument("--overhead", action="store_true", help="time steps instead")
    asked = parser.parse_args(arguments)
    device = torch.device(asked.device)
    stamp = datetime.date.today().isoformat()
    if asked.overhead:
        return time_steps(
            asked.out / f"networks-overhead-{device.type}-{stamp}", device, asked.quick
        )
    word = "networks-quick" if asked.quick else "networks"
    if asked.grid_seed is None:  # in small, nothing of the grid that is reported is shown
        asked.grid_seed = DEVELOPMENT_SEED if asked.quick else GRID_SEED
    elif asked.grid_seed != GRID_SEED:
        word += f"-grid-{asked.grid_seed}"
    if asked.merge is None:
        part, parts = parsed_part(parser, asked.part)
        file = asked.out / f"{word}-part-{part}-of-{parts}.jsonl"
        if asked.quick:
            file.unlink(missing_ok=True)
        settings = grid(asked.grid_seed)
        settings = list(small(settings)) if asked.quick else settings
        some = [one for one in settings if one.task in asked.tasks]
        if asked.numbers:
            some = [one for one in some if one.number in asked.numbers]
        extent = training.QUICK if asked.quick else training.Extent()
        done = {} if asked.again else store.read(_files(asked.out, word))
        if asked.shuffled:
            random.Random(asked.grid_seed).shuffle(some)
            mine = some[part - 1 :: parts]
        else:
            mine = shares(some, parts)[part - 1]
        measure(mine, asked, file, device, extent, done)
        if parts > 1:
            return 0
        files = list(_files(asked.out, word))
    else:
        files = [file for given in asked.merge for file in _files(given, word)]
    return write(files, asked.out / f"{word}-{stamp}", asked.grid_seed, quick=asked.quick)


def parsed_part(parser: argparse.ArgumentParser, given: str) -> tuple[int, int]:
    """Return which share of how many is asked for."""
    first, _, last = given.partition("/")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last)):
        parser.error(f"--part {given}: give i/n, such as 1/4")
    return int(first), int(last)


def shares(settings: list[Setting], parts: int) -> list[list[Setting]]:
    """Deal settings to shares of about equal cost, the costly ones first."""
    found: list[list[Setting]] = [[] for _ in range(parts)]
    for one in sorted(settings, key=seconds_of_all, reverse=True):
        min(found, key=lambda some: sum(map(seconds_of_all, some))).append(one)
    return found


def measure(
    settings: list[Setting],
    asked: argparse.Namespace,
    file: Path,
    device: torch.device,
    extent: training.Extent,
    done: dict[store.Key, store.Row],
) -> None:
    """Train all sides of some settings that are not finished, and keep each."""
    source = store.source()
    begun = time.perf_counter()
    for place, one in enumerate(settings, 1):
        module = autoencoders if one.task == "autoencoder" else training
        for side in asked.sides:
            # The fixed rate is shown for generators alone, for which it was made.
            if side not in module.SIDES or (side == "displacement" and one.task != "generator"):
                continue
            before = done.get((one.number, side))
            # Ours is made anew when the source has changed since.
            if before is not None and (side != "computed" or before["source"] == source):
                continue
            results = module.run(one, side, device, extent, asked.digits)
            where = torch.cuda.get_device_name() if device.type == "cuda" else "cpu"
            row = {
                "setting": asdict(one),
                "side": side,
                "rates": list(extent.rates),
                "source": source,
            }
            store.append(file, {**row, "device": where, "results": results})
            print(
                f"{time.perf_counter() - begun:6.1f} s  {place} of {len(settings)}: {side}, {one.number}: {one.name}",
                file=sys.stderr,
                flush=True,
            )
        if device.type == "cuda":
            torch.cuda.empty_cache()


def write(files: list[Path], stem: Path, seed: int, *, quick: bool) -> int:
    """Write the record of what is finished; return 1 if a promise is not kept."""
    kept = store.read(files)
    rows = report.compare(kept)
    if not rows:
        print("no setting is finished by both sides: run them first", file=sys.stderr)
        return 2
    rates = next(row["rates"] for (_, side), row in kept.items() if side == "adam")
    devices = sorted({row["device"] for row in kept.values()})
    sources = sorted({row["source"] for (_, side), row in kept.items() if side == "computed"})
    if len(sources) > 1:
        print(f"ours is of {len(sources)} versions of the source: run it again", file=sys.stderr)
    where = {**environment(), "device": " and ".join(devices), "sources": sources}
    verdicts = report.verdicts(rows)
    record = {
        "environment": where,
        "quick": quick,
        "grid seed": seed,
        "rates": rates,
        "verdicts": verdicts,
        "sums": report.sums(rows, rates),
        "settings": rows,
    }
    text = json.dumps(store.encoded(record), indent=1, allow_nan=False) + "\n"
    write_whole(stem.with_name(stem.name + ".json"), text)
    page = report.page(rows, rates, where, seed, quick=quick)
    write_whole(stem.with_name(stem.name + ".md"), page)
    from benchmarks.networks.picture import draw

    draw(stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".png"))
    print(page.partition("## By task")[0])
    print(f"written: {stem}.json, .md and .png", file=sys.stderr)
    if quick:  # too short to conclude anything; a divergence is one in any case
        return int(any(row["diverged"] for row in rows))
    return 0 if all(row["met"] for row in verdicts) else 1


def time_steps(stem: Path, device: torch.device, quick: bool) -> int:
    """Write how long steps take."""
    rows = overhead.measure(device, quick=quick)
    where: dict[str, Any] = environment()
    if device.type == "cuda":
        where["device"] = torch.cuda.get_device_name()
    record = {"environment": where, "threads": torch.get_num_threads(), "rows": rows}
    write_whole(stem.with_name(stem.name + ".json"), json.dumps(record, indent=1) + "\n")
    return 0 if quick or all(row["met"] for row in rows) else 1


def _files(given: Path, word: str) -> Iterator[Path]:
    if given.is_dir():
        yield from sorted(given.glob(f"{word}-part-*.jsonl"))
    else:
        yield given


if __name__ == "__main__":
    sys.exit(main())
