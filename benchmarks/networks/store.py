"""What is finished, as JSON lines: an interrupted grid goes on where it was, and parts of it are put together."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import slicewise as sw

Row = dict[str, Any]
Key = tuple[int, str]


def read(files: Iterable[Path]) -> dict[Key, Row]:
    """All finished sides of settings, by number and side; of two equal ones, that which was made later."""
    found: dict[Key, Row] = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:  # cut off by an interrupt
                continue
            key = (row["setting"]["number"], row["side"])
            if key not in found or found[key]["made"] <= row["made"]:
                found[key] = _decoded(row)
    return found


def append(file: Path, row: Row) -> None:
    """Add a finished side of a setting, with the time."""
    row = {**row, "made": int(time.time())}
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(encoded(row), allow_nan=False) + "\n")


def source() -> str:
    """A word for the source of what trainings are made of."""
    package = Path(sw.__file__).parent
    rooms = ("distance", "optim", "steps", "training")
    files = sorted(file for room in rooms for file in (package / room).rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def encoded(value: Any) -> Any:
    """A value for strict JSON, which knows no infinity: what is not finite becomes null."""
    if isinstance(value, dict):
        return {key: encoded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [encoded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return value


def _decoded(row: Row) -> Row:
    return {**row, "results": {key: _numbers(value) for key, value in row["results"].items()}}


def _numbers(value: Any) -> Any:
    """Distances as they were: null is infinite."""
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return math.inf if value is None else value
