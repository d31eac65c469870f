"""Processes killed at random moments, and several that write at once: nothing that was stored is lost, nothing is half done.

Children are forked from a process that has imported everything: a kill is a SIGKILL of real work, without the seconds that an
interpreter takes to start.
"""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import slicewise as sw
from benchmarks.torture.tally import Tally
from slicewise.lab.study import Result, Run, Store, sweep
from slicewise.support import CheckpointFile, write_whole
from slicewise.training import Generator, train


@dataclass(frozen=True)
class _Cell:
    """Three runs that are made in a moment."""

    number: int
    alone: bool = False

    @property
    def name(self) -> str:
        return f"cell {self.number}"

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(
            Run("torture", self.name, "sw", "root", 0.1, seed, {"steps": 1}) for seed in range(3)
        )

    def device(self, asked: str) -> str:
        return asked

    def measure(self, runs: Any, device: str, checkpoint: Path | None = None) -> list[Result]:
        way = np.full((50, 2), self.number, float)
        return [
            Result(run, "arrived", 0.1, w2=float(run.seed), arrays={"way": way}) for run in runs
        ]


def _forked(
    work: Callable[[Callable[[str], None]], None], after: float | None
) -> tuple[list[str], bool]:
    """What a child acknowledged until it was killed after some seconds, or ended; and whether it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            warnings.simplefilter("ignore")
            work(lambda word: _tell(write, word))
            os._exit(0)
        except BaseException as error:
            _tell(write, f"error {type(error).__name__}: {error}")
            os._exit(1)
    os.close(write)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    told = b""
    while chunk := os.read(read, 65536):
        told += chunk
    os.close(read)
    _, status = os.waitpid(child, 0)
    return told.decode().split("\n")[:-1], os.WIFSIGNALED(status)


def _tell(handle: int, word: str) -> None:
    os.write(handle, (" ".join(word.split()) + "\n").encode())


def kills(seed: int, folder: str) -> Tally:
    """Return the tally of one batch of kills: of a study, a flow, a training, and files that are replaced."""
    rng, tally = np.random.default_rng(seed), Tally()
    work = Path(folder, f"kills-{os.getpid()}-{seed}")
    work.mkdir(parents=True, exist_ok=True)
    for trial in (_study, _study, _flow, _training, _frames):
        for failure, killed in trial(rng, work):
            tally.case(None if failure is None else f"seed {seed}: {failure}", killed)
    for path in sorted(work.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    work.rmdir()
    return tally


Outcomes = list[tuple[str | None, int]]


def _errors(told: list[str]) -> str | None:
    return next((word for word in told if word.startswith("error ")), None)


def _study(rng: np.random.Generator, work: Path) -> Outcomes:
    """A study on a store, killed and resumed until it is whole."""
    path = work / "runs.db"
    for extra in ("", "-wal", "-shm"):
        Path(f"{path}{extra}").unlink(missing_ok=True)
    cells, safe, found = [_Cell(i) for i in range(12)], set[str](), Outcomes()

    def make(tell: Callable[[str], None]) -> None:
        with Store(path) as store:
            for cell in cells:
                sweep([cell], store)
                tell(cell.name)  # stored, says the store

    for _ in range(6):
        told, killed = _forked(make, float(rng.uniform(0.001, 0.06)))
        safe |= {word for word in told if not word.startswith("error")}
        found.append((_errors(told) or _lost(path, safe), int(killed)))
    told, _ = _forked(make, None)
    safe |= set(told)
    found.append((_errors(told) or _lost(path, {cell.name for cell in cells}), 0))
    return found


def _lost(path: Path, safe: set[str]) -> str | None:
    if not path.exists():
        return "the store is gone" if safe else None
    try:
        with Store(path) as store:
            rows = store.rows()
            arrays = [store.array(row["key"], "way") for row in rows]
    except Exception as error:
        return f"store: {type(error).__name__}: {error}"
    count: dict[str, int] = {}
    for row in rows:
        count[row["setting"]] = count.get(row["setting"], 0) + 1
    if any(array is None for array in arrays):
        return "a run without its array"
    if any(n != 3 for n in count.values()):
        return f"cells stored in part: {count}"
    return f"lost rows: {safe - set(count)}" if safe - set(count) else None


_KNOWN: dict[str, Any] = {}


def _always_due(self: CheckpointFile) -> bool:
    return True


def _flow_of(checkpoint: Path | None) -> torch.Tensor:
    x, y = torch.randn(2, 12, 2, generator=torch.Generator().manual_seed(0)).unbind()
    kept = sw.Recording(checkpoint=checkpoint, progress_bar=False)
    return sw.flow(
        x, y, max_steps=25, seeds=1, stopping=sw.Stopping(tolerance=None), recording=kept
    ).particles


def _training_of(checkpoint: Path | None) -> torch.Tensor:
    y = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    network = Generator(2, noise=2, hidden=(6,), generator=0)
    every: dict[str, Any] = (
        {"checkpoint": checkpoint, "checkpoint_every": 0} if checkpoint is not None else {}
    )
    return train(network, y, max_steps=12, batch=10, progress_bar=False, **every).losses


def _resumed(
    name: str, compute: Callable[[Path | None], torch.Tensor], rng: np.random.Generator, work: Path
) -> Outcomes:
    """A computation with a checkpoint after every step, killed some times: it ends where it would have."""
    if name not in _KNOWN:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _KNOWN[name] = compute(None)
    path, found = work / f"{name}.pt", Outcomes()
    path.unlink(missing_ok=True)
    due, CheckpointFile.due = CheckpointFile.due, _always_due  # type: ignore[method-assign]
    try:
        for _ in range(3):
            told, killed = _forked(
                lambda tell: tell(f"ended {compute(path).sum()}"), float(rng.uniform(0.002, 0.12))
            )
            found.append((_errors(told), int(killed)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            last = compute(path)
    except Exception as error:
        return [*found, (f"{name}: {type(error).__name__}: {error}", 0)]
    finally:
        CheckpointFile.due = due  # type: ignore[method-assign]
    found.append(
        (None if torch.equal(last, _KNOWN[name]) else f"{name}: resumed to something else", 0)
    )
    return found


def _flow(rng: np.random.Generator, work: Path) -> Outcomes:
    return _resumed("flow", _flow_of, rng, work)


def _training(rng: np.random.Generator, work: Path) -> Outcomes:
    return _resumed("training", _training_of, rng, work)


def _frames(rng: np.random.Generator, work: Path) -> Outcomes:
    """Files that are replaced again and again, as frames of a transfer are: each is one of its versions, whole."""
    found = Outcomes()
    paths = [work / f"frame-{i}.png" for i in range(3)]
    versions = [bytes([v]) * 50_000 for v in range(8)]

    def write(tell: Callable[[str], None]) -> None:
        for version in versions * 4:
            for path in paths:
                write_whole(path, version)

    for _ in range(4):
        told, killed = _forked(write, float(rng.uniform(0.001, 0.05)))
        odd = [path.name for path in paths if path.exists() and path.read_bytes() not in versions]
        found.append((_errors(told) or (f"half written: {odd}" if odd else None), int(killed)))
    return found


def writers(seed: int, folder: str) -> Tally:
    """Return the tally of one batch: three processes sweep overlapping cells into one store, one of them is killed."""
    rng, tally = np.random.default_rng(seed), Tally()
    work = Path(folder, f"writers-{os.getpid()}-{seed}")
    work.mkdir(parents=True, exist_ok=True)
    path = work / "runs.db"
    children = []
    for number in range(3):
        first = int(rng.integers(0, 6))
        child = os.fork()
        if child == 0:
            try:
                with Store(path) as store:
                    done = sweep([_Cell(i) for i in range(first, first + 10)], store)
                os._exit(1 if done.failed else 0)
            except BaseException as error:
                Path(work, f"error-{number}").write_text(f"{type(error).__name__}: {error}")
                os._exit(1)
        children.append((child, first))
    victim = int(rng.integers(3))
    time.sleep(float(rng.uniform(0.0, 0.08)))
    os.kill(children[victim][0], signal.SIGKILL)
    safe: set[str] = set()
    for number, (child, first) in enumerate(children):
        _, status = os.waitpid(child, 0)
        trouble = work / f"error-{number}"
        killed = os.WIFSIGNALED(status)
        good = status == 0 or killed
        if status == 0:
            safe |= {f"cell {i}" for i in range(first, first + 10)}
        tally.case(None if good else f"seed {seed}: writer {number}: {trouble.read_text() if trouble.exists() else status}", int(killed))  # fmt: skip
    lost = _lost(path, safe)
    tally.case(None if lost is None else f"seed {seed}: {lost}")
    for file in sorted(work.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    work.rmdir()
    return tally
