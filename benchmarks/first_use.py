"""How long a first use takes, each time in a process of its own: importing the package, help, version, mistakes, completion.

    python -m benchmarks.first_use --out benchmarks/results

`--source DIR` times another version of the package, by its folder `src`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slicewise.support import write_whole

SOURCE = Path(__file__).parents[1] / "src"
# What the interpreter and other packages take, for comparison.
FLOORS = ("pass", "import typer", "import numpy", "import torch")
SUBCOMMANDS = (
    *(
        "distance",
        "plan",
        "drift",
        "flow",
        "transfer",
        "variants",
        "play",
        "latents",
        "reproduce",
        "runs",
    ),
    *("report", "bench"),
)
# Calls that are answered before any work begins; none of the files is there.
CALLS = (
    "",
    "--help",
    "--version",
    *(f"{name} --help" for name in SUBCOMMANDS),
    "distnce",
    "flow --stps 3",
    "flow -v eb",
    "flow --toy swis",
    "variants eb",
    "reproduce alll",
    "distance none.npy none.npy",
    "plan none.npy none.npy",
    "drift none.csv none.csv",
    "flow none.npy none.npy",
    "transfer none.png none.png -o out.png",
    "latents none.npy",
    "reproduce image-flow --mnist none.npz",
    "runs none.db",
    "report none.db",
)
# Lines at which TAB is pressed.
COMPLETED = (
    "",
    "dist",
    "flow --",
    "flow -v eb",
    "reproduce g",
    "runs --variant rp",
    "runs --experiment g",
    "transfer --space o",
)


def completion(line: str) -> dict[str, str]:
    """Return the variables by which a shell asks to complete a line after `slicewise `."""
    words = line.split(" ")
    return {
        "_SLICEWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"slicewise {line}",
        "COMP_CWORD": str(len(words)),
    }


def seconds(command: list[str], env: Mapping[str, str], folder: str) -> float:
    """Return the wall time of one process."""
    start = time.perf_counter()
    subprocess.run(command, env=env, cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - start


def measure(source: Path, repeats: int) -> dict[str, dict[str, float]]:
    """Return median, least and largest seconds of every call, one untimed process before."""
    here = {**os.environ, "PYTHONPATH": str(source.absolute())}
    python, module = [sys.executable, "-c"], [sys.executable, "-m", "slicewise"]
    cases: dict[str, tuple[list[str], dict[str, str]]] = {
        f"python -c {code!r}": ([*python, code], here) for code in (*FLOORS, "import slicewise")
    }
    for call in CALLS:
        cases[f"slicewise {call}".strip()] = [*module, *call.split()], here
    for line in COMPLETED:
        cases[f"slicewise {line}<TAB>"] = module, {**here, **completion(line)}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, env) in cases.items():
            seconds(command, env, folder)
            times = sorted(seconds(command, env, folder) for _ in range(repeats))
            found[name] = {
                "median": round(statistics.median(times), 4),
                "least": round(times[0], 4),
                "most": round(times[-1], 4),
            }
            print(f"{name:45s} {found[name]['median']:.3f} s", flush=True)
    return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the folder src to time")
    parser.add_argument("--label", default="", help="ends the name of the record")
    parser.add_argument("--repeats", type=int, default=10)
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    now = datetime.now(UTC)
    record: dict[str, Any] = {
        "date": f"{now:%Y-%m-%d}",
        "machine": f"{platform.machine()} CPU, {os.cpu_count()} cores",
        "load_before": round(load, 2),
        "repeats": asked.repeats,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "typer", "rich")},
        "seconds": measure(asked.source, asked.repeats),
        "load_after": round(os.getloadavg()[0], 2),
    }
    label = f"-{asked.label}" if asked.label else ""
    path = asked.out / f"first-use-{now:%Y-%m-%d}{label}.json"
    write_whole(path, json.dumps(record, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
