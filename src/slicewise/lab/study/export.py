"""Runs of a store for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from slicewise.lab.study.run import as_json
from slicewise.lab.study.schema import COLUMNS, JSON


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a table for other programs; what is JSON in the store is JSON here."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([as_json(row[name]) if name in JSON else row[name] for name in COLUMNS])
    return out.getvalue()
