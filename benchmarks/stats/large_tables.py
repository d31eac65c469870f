"""Tables that memory does not hold: time, memory and error of `compare_tables`, on this machine and on a Ray cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

COLUMNS = 10
ROWS_PER_GROUP = 500_000


def write(folder: Path, rows: int, seed: int, shift: float) -> None:
    """Write rows × 10 single-precision columns as Parquet files of four row groups: normal, mixed and heavy-tailed."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(f"c{j}", pa.float32()) for j in range(COLUMNS)])
    written = 0
    while written < rows:
        path = folder / f"{written:012d}.parquet"
        n = min(4 * ROWS_PER_GROUP, rows - written)
        if not path.exists():
            rng = np.random.default_rng([seed, written])
            x = rng.standard_normal((COLUMNS, n), dtype=np.float32)
            x[1] += shift
            x[2] = np.exp(0.8 * x[2])
            x[3] *= np.sqrt(5 / rng.chisquare(5, n)).astype(np.float32)  # Student's t
            x[4] = np.where(rng.random(n, dtype=np.float32) < 0.3, x[4] + 4, x[4])
            x[5] = np.floor(3 * x[5])
            x[6] = 0.7 * x[0] + 0.7 * x[6]
            table = pa.table([pa.array(column) for column in x], schema=schema)
            part = path.with_suffix(".part")
            parquet.write_table(table, part, row_group_size=ROWS_PER_GROUP, use_dictionary=False)
            part.rename(path)
        written += n


_MEASURED = """
import json, resource, sys, time
from slicewise.stats import compare_tables
start = time.perf_counter()
found = compare_tables(sys.argv[1], sys.argv[2], n_slices=int(sys.argv[3]), progress_bar=False)
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"value": float(found.value), "error_bound": float(found.error_bound), "n": found.n, "m": found.m,
                  "seconds": seconds, "peak_bytes": peak, "costs": found.costs.tolist(),
                  "slices": found.slices.tolist()}))
"""


def measure(reference: Path, new: Path, n_slices: int) -> dict[str, Any]:
    """Compare two folders in a process of its own, whose time and largest memory are measured."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(reference), str(new), str(n_slices)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["disk_bytes"] = sum(
        f.stat().st_size for d in (reference, new) for f in d.glob("*.parquet")
    )
    return found


def exact_costs(reference: Path, new: Path, slices: torch.Tensor, p: float = 2) -> list[float]:
    """W_p^p along given slices with every number sorted: what counting in bins is compared with."""
    from slicewise.stats.tables import Encoding, first_rows, pieces_of
    from slicewise.transport import match

    encoding = Encoding.of(first_rows(pieces_of(reference)))
    found = []
    for one in slices:
        sides = []
        for folder in (reference, new):
            parts = [
                encoding.encode(rows) @ one.numpy()
                for piece in pieces_of(folder)
                for rows in piece.read()
            ]
            side = np.concatenate(parts)
            side.sort()
            sides.append(torch.from_numpy(side))
        found.append(_sorted_cost(sides[0], sides[1]) if p == 2 else float(match(*sides, p=p).cost))
    return found


def _sorted_cost(u: torch.Tensor, v: torch.Tensor) -> float:
    """W_2² between sorted lines, the longer one a multiple of the shorter, without an array of both sizes."""
    if len(u) < len(v):
        u, v = v, u
    assert len(u) % len(v) == 0, (len(u), len(v))
    return float((u.view(len(v), -1) - v.unsqueeze(-1)).square().mean())


def run(
    folder: Path, rows: int, new_rows: int, n_slices: int = 50, n_exact: int = 2
) -> dict[str, Any]:
    """Write the tables unless they are there, compare them, and check some slices against sorting."""
    start = time.perf_counter()
    reference, new = folder / f"reference-{rows}", folder / f"new-{new_rows}"
    write(reference, rows, 1, 0.0)
    write(new, new_rows, 2, 0.1)
    wrote = time.perf_counter() - start
    found = measure(reference, new, n_slices)
    slices = torch.tensor(found.pop("slices"), dtype=torch.float64)
    costs = found.pop("costs")
    exact = exact_costs(reference, new, slices[:n_exact])
    found["write_seconds"] = wrote
    found["exact_distances"] = [c**0.5 for c in exact]
    found["counted_distances"] = [c**0.5 for c in costs[:n_exact]]
    return found
