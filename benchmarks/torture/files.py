"""Damaged files of every format that is read, and commands on them: told in one line, or read as they are."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import logging
import os
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import slicewise as sw
from benchmarks.torture.tally import Tally
from slicewise.lab.cli import main
from slicewise.lab.data import read_samples
from slicewise.lab.data.image_sets import _idx
from slicewise.lab.errors import UserError
from slicewise.lab.images import encode_picture, read_picture
from slicewise.lab.images.files import Picture
from slicewise.lab.study import Result, Run, Store

Read = Callable[[Path], Any]


def _samples(path: Path) -> Any:
    return read_samples(str(path)).values


def _checkpoint(path: Path) -> Any:
    x, y = _clouds()
    kept = sw.Recording(checkpoint=path, progress_bar=False)
    return sw.flow(
        x, y, max_steps=4, seeds=1, stopping=sw.Stopping(tolerance=None), recording=kept
    ).particles


def _clouds() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = torch.randn(2, 8, 2, generator=torch.Generator().manual_seed(0)).unbind()
    return x, y


def _store(path: Path) -> Any:
    with Store.reading(path) as store:
        rows = store.rows()
        return rows, store.asked(), [store.array(row["key"], "way") is not None for row in rows]


@functools.cache
def _originals(folder: str) -> dict[str, tuple[str, bytes, Read, bool]]:
    """By name: the suffix, a good file, what reads it, and whether a change must be noticed."""
    rng, place = np.random.default_rng(0), Path(folder)
    found: dict[str, tuple[str, bytes, Read, bool]] = {}
    array = rng.normal(size=(30, 3))

    def written(save: Callable[[io.BytesIO], Any]) -> bytes:
        file = io.BytesIO()
        save(file)
        return file.getvalue()

    found["npy"] = (".npy", written(lambda f: np.save(f, array)), _samples, False)
    found["npz"] = (".npz", written(lambda f: np.savez_compressed(f, a=array)), _samples, False)
    from safetensors.numpy import save

    found["safetensors"] = (".safetensors", save({"a": array}), _samples, False)
    text = "\n".join(",".join(f"{v:.4g}" for v in row) for row in array)
    found["csv"] = (".csv", f"u,v,w\n{text}\n".encode(), _samples, False)
    pixels = rng.integers(0, 255, (12, 10, 3)).astype(np.uint8)
    for suffix, kind in ((".png", "PNG"), (".jpg", "JPEG"), (".bmp", "BMP"), (".gif", "GIF"), (".webp", "WEBP"), (".tif", "TIFF"), (".ppm", "PPM")):  # fmt: skip
        data = written(functools.partial(Image.fromarray(pixels).save, format=kind))
        found[f"{kind} of samples"] = (suffix, data, _samples, False)
        found[f"{kind} of transfer"] = (suffix, data, read_picture, False)
    deep = Picture("", rng.integers(0, 65535, (9, 8, 3)).astype(np.uint16))
    for suffix in (".png", ".tif"):
        found[f"16 bits {suffix}"] = (suffix, encode_picture(deep, suffix), read_picture, False)
    from slicewise.color import ColorTransfer

    small = rng.random((8, 8, 3))
    fitted = ColorTransfer(palette=8).fit(small, small[::-1], progress_bar=False)
    for suffix in (".npz", ".safetensors", ".cube"):
        path = place / f"original{suffix}"
        fitted.save(path)
        found[f"map {suffix}"] = (suffix, path.read_bytes(), ColorTransfer.load, False)
    head = struct.pack(">HBBIII", 0, 8, 3, 4, 5, 5)
    found["idx.gz"] = (
        ".gz",
        gzip.compress(head + bytes(100), mtime=0),
        lambda p: _idx(p.parent, p.name[:-3]),
        False,
    )
    path = place / "original.pt"
    path.unlink(missing_ok=True)
    _checkpoint(path)
    found["checkpoint"] = (".pt", path.read_bytes(), _checkpoint, True)
    path = place / "original.db"
    path.unlink(missing_ok=True)
    with Store(path) as store:
        for seed in range(6):
            run = Run(
                "flow", "swiss d=2", "sw", "root", 0.1, seed, {"steps": 10, "name": "abc" * 9}
            )
            store.add([Result(run, "arrived", 0.2, w2=0.5, trace={"loss": list(array[seed])}, arrays={"way": array})], "cpu", {})  # fmt: skip
    found["store"] = (".db", path.read_bytes(), _store, True)
    return found


def _damaged(rng: np.random.Generator, good: bytes) -> bytes:
    """A copy with some bits changed, bytes removed, repeated, zeroed or inserted; or something else altogether."""
    held = bytearray(good)
    kind = int(rng.integers(8))
    at = int(rng.integers(max(1, len(held))))
    size = int(rng.integers(1, 40))
    if kind <= 2:
        for _ in range(1 if kind == 0 else int(rng.integers(1, 6))):
            held[int(rng.integers(len(held)))] ^= 1 << int(rng.integers(8))
    elif kind == 3:
        del held[at:]
    elif kind == 4:
        del held[at : at + size]
    elif kind == 5:
        held[at:at] = rng.bytes(size)
    elif kind == 6:
        held[at : at + size] = bytes(len(held[at : at + size]))
    else:
        held = bytearray(rng.bytes(int(rng.integers(0, 200))))
    return bytes(held)


def files(seed: int, folder: str) -> Tally:
    """Return the tally of one batch of 120 damaged files."""
    rng, tally = np.random.default_rng(seed), Tally()
    originals = _originals(folder)
    with _unlogged():
        for _ in range(120):
            name = str(rng.choice(list(originals)))
            suffix, good, read, noticed = originals[name]
            path = Path(folder, f"damaged-{os.getpid()}{suffix}")
            for extra in ("-wal", "-shm"):
                Path(f"{path}{extra}").unlink(missing_ok=True)
            path.write_bytes(_damaged(rng, good))
            tally.case(_outcome(f"seed {seed}: {name}", path, read, noticed, good))
    return tally


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Thousands of damaged files would be logged; the process may go on to other things afterwards."""
    logger = logging.getLogger("slicewise")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


_EXPECTED: dict[str, Any] = {}


def _outcome(how: str, path: Path, read: Read, noticed: bool, good: bytes) -> str | None:
    name = how.partition(": ")[2]
    if noticed and name not in _EXPECTED:
        damaged = path.read_bytes()
        path.write_bytes(good)
        _EXPECTED[name] = read(path)
        path.write_bytes(damaged)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            found = read(path)
    except (UserError, ValueError, OSError):
        return None
    except Exception as error:
        return f"{how}: {type(error).__name__}: {str(error)[:200]}"
    if noticed and not _same(found, _EXPECTED[name]):
        return f"{how}: read silently as something else"
    return None


def _same(a: Any, b: Any) -> bool:
    return bool(torch.equal(a, b)) if isinstance(a, torch.Tensor) else bool(a == b)


_WORDS = (
    "distance", "flow", "plan", "drift", "transfer", "latents", "runs", "report", "variants", "--json", "-q", "--out", "-o",
    "--save", "--csv", "-v", "sw", "maxsw", "-O", "n_slices=3", "--p", "2", "nan", "-1", "--exact", "--header", "yes", "--flatten",
    "--samples", "3", "--seed", "--steps", "1", "--force", "-", "", "\x1b[2J", "--all", "--n-slices", "5", "--dtype", "float32",
    "--x-weights", "--palette", "8", "--permutations", "9", "--help",
)  # fmt: skip


def commands(seed: int, folder: str) -> Tally:
    """Return the tally of one batch of 40 command lines on good and damaged files: a status, at most a line, no traceback."""
    rng, tally = np.random.default_rng(seed), Tally()
    originals = _originals(folder)
    work = Path(folder, f"commands-{os.getpid()}")
    work.mkdir(exist_ok=True)
    names = []
    for name in ("npy", "npz", "csv", "PNG of samples", "store", "map .npz"):
        suffix, good, _, _ = originals[name]
        for kind, data in (("good", good), ("bad", _damaged(rng, good))):
            path = work / f"{kind}-{name[:3]}{suffix}"
            path.write_bytes(data)
            names.append(str(path))
    for _ in range(40):
        count = int(rng.integers(1, 7))
        words = [str(rng.choice(_WORDS[:9]))]
        words += [
            str(rng.choice(names if rng.random() < 0.5 else list(_WORDS))) for _ in range(count)
        ]
        with _unlogged():
            tally.case(_command(words, seed, work))
    return tally


def _command(words: list[str], seed: int, work: Path) -> str | None:
    before = os.getcwd()
    out, err = io.StringIO(), io.StringIO()
    try:
        os.chdir(work)
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            status = main(words)
    except BaseException as error:
        return f"seed {seed}: {words}: {type(error).__name__}: {error}"
    finally:
        os.chdir(before)
    said = err.getvalue()
    if status not in (0, 1, 2, 3) or "Traceback" in said or "internal error" in said:
        return f"seed {seed}: {words}: status {status}: {said[-300:]}"
    if (
        not (out.getvalue() + said)
        .replace("\n", "")
        .replace("\r", "")
        .replace("\t", "")
        .isprintable()
    ):
        return f"seed {seed}: {words}: control characters reach the terminal"
    return None
