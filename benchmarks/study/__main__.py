"""Write docs/reproduction.md, the tables of docs/reproduction-details.md and pictures again from the records in `results`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.study.details import PAGE as DETAILS
from benchmarks.study.details import updated
from benchmarks.study.facts import Facts
from benchmarks.study.page import PAGE, rendered
from benchmarks.study.pictures import PICTURES, draw, with_records
from benchmarks.study.records import ROOT, Records
from slicewise.support import write_whole


def main() -> None:
    """Write the page, and the pictures that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.study", description=__doc__)
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results", help="the folder of the records"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="the folder of the page")
    parser.add_argument(
        "--pictures", nargs="*", choices=PICTURES, help="all that have records if not given"
    )
    asked = parser.parse_args()
    records = Records(asked.results)
    facts = Facts(records)
    write_whole(asked.out / PAGE, rendered(facts))
    details = asked.out / DETAILS
    write_whole(details, updated(details.read_text(), facts))
    (asked.out / "images").mkdir(parents=True, exist_ok=True)
    pictures = with_records(records) if asked.pictures is None else asked.pictures
    if pictures:
        draw(records, asked.out / "images", tuple(pictures))
    print(f"{asked.out / PAGE}; pictures: {', '.join(pictures) or 'none'}")


if __name__ == "__main__":
    main()
