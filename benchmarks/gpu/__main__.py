"""Time slicewise on a CUDA device against other implementations, what the device allows and the targets.

python -m benchmarks.gpu --out benchmarks/results
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import slicewise as sw
from benchmarks.gpu import floors, losses
from benchmarks.gpu.contenders import Peer, peers
from benchmarks.gpu.report import PAPER_SECONDS, Record, summary, verdicts
from benchmarks.gpu.timing import (
    BY_NAME,
    FLOWS,
    STEPPED,
    FlowCase,
    time_flow,
    time_step,
    time_variant,
)
from benchmarks.speed import timing
from benchmarks.speed.workloads import Workload
from slicewise.support import write_whole

SECTIONS = ("flows", "steps", "losses", "variant_losses", "variants", "accuracy")
LARGE_CLOUDS = ("F1e5", "F1e6")
ACCURACY_SLICES = 8


class Bench:
    """One run of the benchmark: its record, kept on disk as it grows."""

    def __init__(
        self, record: Record, here: dict[str, Peer], only: list[str], stem: Path, *, quick: bool
    ) -> None:
        self.record, self._here, self._only, self._stem = record, here, only, stem
        self._quick = quick
        self._begun = time.perf_counter()
        self._ceilings: floors.Ceilings | None = None

    def run(self) -> None:
        """Measure the chosen sections."""
        self._try("ceilings", self._measure_ceilings)
        for section in SECTIONS:
            getattr(self, f"_{section}")()
            self.save()

    def save(self) -> None:
        """Write the record as it is."""
        self.record["targets"] = verdicts(self.record)
        self.record["seconds"] = time.perf_counter() - self._begun
        for suffix, text in (
            (".json", json.dumps(self.record, indent=1) + "\n"),
            (".md", summary(self.record)),
        ):
            write_whole(self._stem.with_name(self._stem.name + suffix), text)

    def _asked(self, section: str, name: str) -> bool:
        return not self._only or section in self._only or name in self._only

    def _try(self, piece: str, work: Callable[[], str]) -> None:
        """Make one measurement; an error is printed and recorded, and the next one follows."""
        begun = time.perf_counter()
        try:
            words = work()
        except Exception as trouble:  # one that fails must not lose the rest
            words = f"{type(trouble).__name__}: {trouble}"
            self.record["errors"].append({"piece": piece, "error": words})
            words = f"failed: {words}"
        print(f"{piece}: {words}  [{time.perf_counter() - begun:.1f} s]", flush=True)

    def _measure_ceilings(self) -> str:
        self._ceilings = floors.measure(quick=self._quick)
        self.record["ceilings"] = self._ceilings.record()
        return str(self._ceilings)

    def _floors(self, workload: Workload, seconds: float) -> dict[str, float]:
        if self._ceilings is None:
            return {}
        lowest = floors.floor(workload, self._ceilings)
        return {"floor_seconds": lowest, "over_floor": seconds / lowest}

    def _losses(self) -> None:
        for case in losses.CASES:
            if self._asked("losses", case.label):
                self._try(f"loss {case.label}", functools.partial(self._loss, case))
                torch.cuda.empty_cache()

    def _loss(self, case: losses.LossCase) -> str:
        jax, finish = self._here.get("jax jit"), None
        step = None
        if jax is not None and case.n == case.m and not case.weighted:
            x, y, _ = case.samples()
            step, finish = jax.prepare(x.detach(), y, case.n_slices), jax.finish
        found = losses.time_losses(case, step, finish or (lambda last: None))
        self.record["losses"][case.label] = found
        return ", ".join(f"{who} {microseconds:.0f}" for who, microseconds in found.items())

    def _variant_losses(self) -> None:
        for name in sw.VARIANTS:
            for m in (300, 200):
                label = name if m == 300 else f"{name}, n ≠ m"
                if self._asked("variant_losses", label):
                    self._try(
                        f"loss {label}", functools.partial(self._variant_loss, name, m, label)
                    )

    def _variant_loss(self, name: str, m: int, label: str) -> str:
        found = losses.time_variant_loss(name, m)
        self.record["variant_losses"][label] = found
        return ", ".join(f"{who} {microseconds:.0f}" for who, microseconds in found.items())

    def _flows(self) -> None:
        for case in FLOWS:
            if self._asked("flows", case.name):
                self._try(f"flow {case.name}", functools.partial(self._flow, case))

    def _flow(self, case: FlowCase) -> str:
        found = time_flow(case, quick=self._quick)
        floors = self._floors(case.workload, found["seconds_per_step"])
        self.record["flows"][case.name] = {**found, **floors}
        return f"{found['seconds']:.3f} s, {found['seconds_per_step'] * 1e6:.1f} µs a step"

    def _steps(self) -> None:
        for name in STEPPED:
            for who in self._here if self._asked("steps", name) else ():
                self._try(f"step {name}, {who}", functools.partial(self._step, name, who))
                torch.cuda.empty_cache()

    def _step(self, name: str, who: str) -> str:
        found = time_step(BY_NAME[name], who, self._here[who], quick=self._quick)
        floors = self._floors(BY_NAME[name], found["seconds"])
        self.record["steps"].setdefault(name, {})[who] = {**found, **floors}
        return f"{found['seconds'] * 1e6:.0f} µs"

    def _variants(self) -> None:
        for name in PAPER_SECONDS:
            if self._asked("variants", name):
                self._try(f"variant {name}", functools.partial(self._variant, name))

    def _variant(self, name: str) -> str:
        found = time_variant(name, quick=self._quick)
        paper = PAPER_SECONDS[name]
        ratio = paper / (found["seconds_per_step"] * 1e4)
        self.record["variants"][name] = {**found, "paper_seconds": paper, "paper_over_ours": ratio}
        return f"{found['seconds_per_step'] * 1e4:.3f} s / 10,000 steps, {ratio:.1f}× the paper"

    def _accuracy(self) -> None:
        for name in LARGE_CLOUDS:
            for who in ("slicewise", "torch sort", "POT"):
                if who in self._here and self._asked("accuracy", name):
                    piece = f"accuracy {name}, {who}"
                    self._try(piece, functools.partial(self._error, name, who))

    def _error(self, name: str, who: str) -> str:
        torch.manual_seed(0)  # the same slices for all
        contender = self._here[who].checked
        value, gradient = timing.errors(BY_NAME[name], contender, ACCURACY_SLICES, "cuda")
        found = {"value": value, "gradient": gradient, "n_slices": ACCURACY_SLICES}
        self.record["accuracy"].setdefault(name, {})[who] = found
        return f"value {value:.1e}, gradient {gradient:.1e}"


def start_record(notes: dict[str, str], *, quick: bool) -> Record:
    """Return a record with machine and versions only."""
    return {
        "date": datetime.date.today().isoformat(),
        "quick": quick,
        **timing.environment(),
        "gpu": {
            "name": torch.cuda.get_device_name(0),
            "cuda": torch.version.cuda,
            "driver": _driver(),
            "memory_bytes": torch.cuda.get_device_properties(0).total_memory,
        },
        "peers": notes,
        "paper": "runtimes of the paper are from an A6000, another GPU",
        "losses": {},
        "variant_losses": {},
        "flows": {},
        "steps": {},
        "variants": {},
        "accuracy": {},
        "errors": [],
        "targets": [],
    }


def _driver() -> str | None:
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.split("\n")[0].strip() or None


def known_names() -> list[str]:
    """Return the choices of --only: sections, flows, steps and variants."""
    names = [*SECTIONS, *(case.name for case in FLOWS), *STEPPED, *PAPER_SECONDS]
    names += [case.label for case in losses.CASES]
    return list(dict.fromkeys(names))


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.gpu.__main__", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results"), help="folder of the results"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="sections, workloads, variants"
    )
    parser.add_argument("--quick", action="store_true", help="a few repeats: to see that it runs")
    parser.add_argument("--pot", type=Path, metavar="FOLDER", help="where the source of `ot` lies")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.only if name not in known_names()]
    if unknown:
        known = ", ".join(known_names())
        print(f"--only {unknown[0]}: no such piece; choose from {known}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("this benchmark needs a CUDA device, and torch sees none", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    here, notes = peers(given.pot)
    record = start_record(notes, quick=given.quick)
    for name, note in notes.items():
        print(f"{name}: {note}", flush=True)
    # A glance or a part must not replace the record of a whole run.
    stem = "gpu-quick" if given.quick else "gpu-part" if given.only else f"gpu-{record['date']}"
    bench = Bench(record, here, given.only, given.out / stem, quick=given.quick)
    bench.run()
    print(summary(record))
    print(f"results: {given.out / stem}.json, .md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
