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


_ON_A_CLUSTER = """
import json, os, sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from slicewise.stats import compare_tables

reference, new, n_slices, kill_after, checkpoint = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
store = 300 * 2**20
os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
cluster = Cluster(initialize_head=True,
                  head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": store})
other = cluster.add_node(num_cpus=1, object_store_memory=store)
cluster.wait_for_nodes()
ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
start, killed, peak, over = time.perf_counter(), [], [0], threading.Event()
began = time.time()

def resident():
    # Proportional shares of this process and of all that descend from it: pages that several map count once.
    parents, total = {}, 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    family, grown = {os.getpid()}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    for one in family:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except OSError:
            pass
    return total

def watch():
    while not over.wait(1.0):
        peak[0] = max(peak[0], resident())
        # As soon as some pieces are counted and kept, or after a while.
        counted = Path(checkpoint).exists() and Path(checkpoint).stat().st_mtime > began
        if not killed and (counted or time.perf_counter() - start > kill_after):
            cluster.remove_node(other, allow_graceful=False)
            killed.append(time.perf_counter() - start)

watching = threading.Thread(target=watch)
watching.start()
try:
    found = compare_tables(reference, new, n_slices=n_slices, engine="ray", checkpoint=checkpoint, progress_bar=False)
finally:
    seconds = time.perf_counter() - start
    over.set()
    watching.join()
alive = sum(node["Alive"] for node in ray.nodes())
print(json.dumps({"value": float(found.value), "error_bound": float(found.error_bound), "n": found.n, "m": found.m,
                  "seconds": seconds, "killed_after": killed[0] if killed else None, "nodes_at_the_end": alive,
                  "peak_bytes_of_all_processes": peak[0]}))
sys.stdout.flush()
ray.shutdown()
cluster.shutdown()
"""


def run_on_a_cluster(
    folder: Path, rows: int, new_rows: int, n_slices: int = 50, kill_after: float = 300.0
) -> dict[str, Any]:
    """Compare the same tables on two Ray nodes of one core each, one of them killed on the way, and by one process.

    Tables, the result of one process and the counts of finished pieces stay in the folder: a run that was stopped goes
    on from there.
    """
    reference, new = folder / f"reference-{rows}", folder / f"new-{new_rows}"
    write(reference, rows, 1, 0.0)
    write(new, new_rows, 2, 0.1)
    kept = folder / f"one-process-{rows}-{n_slices}.json"
    if not kept.exists():
        kept.write_text(json.dumps(measure(reference, new, n_slices)))
    alone = json.loads(kept.read_text())
    checkpoint = folder / f"cluster-{rows}-{n_slices}.pt"  # written after 30 seconds
    resumed = checkpoint.exists()
    words = [str(reference), str(new), str(n_slices), str(kill_after), str(checkpoint)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _ON_A_CLUSTER, *words], stdout=subprocess.PIPE, text=True, check=True
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    checkpoint.unlink()
    # Numbers are printed so that they read back as they were.
    found["same_bits_as_one_process"] = all(found[name] == alone[name] for name in ("value", "error_bound", "n", "m"))  # fmt: skip
    found["continued_an_earlier_run"] = resumed
    found["one_process"] = {name: alone[name] for name in ("value", "seconds", "peak_bytes", "disk_bytes")}  # fmt: skip
    return found
