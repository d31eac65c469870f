"""Time the command on a photograph of 12 megapixels, and read how much memory it takes.

python -m benchmarks.color.large --out benchmarks/results
"""

from __future__ import annotations

import argparse
import datetime
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.color.contenders import photographs
from benchmarks.color.film import fitted_to
from slicewise.support import write_whole

PAIRS = (("coffee", "astronaut"), ("rocket", "china"))
_SIZE = 4000, 3000
_REPEATS = 3


def _processor_seconds() -> float:
    """Seconds of processors that ended children used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Time all pairs; return the exit status."""
    from PIL import Image

    parser = argparse.ArgumentParser(
        prog="benchmarks.color.large", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--label", default=datetime.date.today().isoformat(), help="of the file")
    given = parser.parse_args(arguments)
    images = photographs()
    rows = []
    for source, target in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ("source.jpg", "target.jpg", "new.jpg")]
            Image.fromarray(fitted_to(images[source], _SIZE)).save(paths[0], quality=95)
            Image.fromarray(images[target]).save(paths[1], quality=95)
            command = [sys.executable, "-m", "slicewise", "transfer", *map(str, paths[:2])]
            command += ["-o", str(paths[2]), "--json", "--force"]
            seconds, used = [], []
            for _ in range(_REPEATS):
                start, before = time.perf_counter(), _processor_seconds()
                told = subprocess.run(command, check=True, capture_output=True)
                seconds.append(time.perf_counter() - start)
                used.append(_processor_seconds() - before)
        rows.append(
            {
                "source": source,
                "target": target,
                "pixels": _SIZE[0] * _SIZE[1],
                "seconds": seconds,  # with the start of Python, reading and writing
                "processor_seconds": used,  # of both cores together
                "seconds_by_command": json.loads(told.stdout)["seconds"],
                "peak_of_children_bytes": 1024
                * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    name = f"color-large-{given.label}.json"
    write_whole(given.out / name, json.dumps(rows, indent=1) + "\n")
    print(f"results: {given.out / name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
