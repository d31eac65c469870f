"""From a store to a folder: index.html with all in it, figures as PNG and tables as CSV beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from slicewise.files import write_whole
from slicewise.lab.report import theory
from slicewise.lab.report.flows import TITLES, section, verdict
from slicewise.lab.report.pieces import Figure, Row, Section, Table
from slicewise.lab.report.rows import Flows
from slicewise.lab.study.store import Store
from slicewise.lab.trouble import Trouble


def write_report(store: str | Path, out: str | Path) -> Path:
    """Read the store and write the page; returns where it is. An older page is there until the new one is whole."""
    folder = Path(out)
    with Store.reading(store) as kept:
        rows = kept.rows()
        if not rows:
            raise Trouble(f"{store} holds no runs yet: `slicewise reproduce all` makes some")
        sections = _sections(kept)
    try:
        for piece in (piece for part in sections for piece in part.pieces):
            if isinstance(piece, Figure):
                write_whole(folder / f"{piece.name}.png", piece.png)
            else:
                write_whole(folder / f"{piece.name}.csv", piece.as_csv())
        write_whole(folder / "index.html", _page(sections, rows, Path(store)))
    except OSError as wrong:
        raise Trouble(f"cannot write {folder}: {wrong}; name another folder with --out") from wrong
    return folder / "index.html"


def _sections(store: Store) -> list[Section]:
    flows = [Flows(store, experiment) for experiment in TITLES]
    verdicts = [table for one in flows if (table := verdict(one)) is not None]
    found = [theory.section(store), *(section(one) for one in flows)]
    parts = [part for part in found if part is not None]
    if verdicts:
        words = [
            "The step computed from the slices of each step, against the best of all searched rates, against what the "
            "paper prints: classical sliced-Wasserstein, everything that is left in the end."
        ]
        parts.insert(0, Section("The right step, computed or searched", words, verdicts))
    return parts


def _page(sections: Sequence[Section], rows: Sequence[Row], store: Path) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("slicewise.lab"), autoescape=True)
    environment.filters["inline"] = lambda png: base64.b64encode(png).decode()
    environment.tests["table"] = lambda piece: isinstance(piece, Table)
    machines = sorted({row["device"] for row in rows})
    packages = sorted({f"{n} {v}" for row in rows for n, v in row["versions"].items()})
    return environment.get_template("report.html").render(
        sections=sections,
        store=store.name,
        n_runs=len(rows),
        hours=sum(row["seconds"] for row in rows) / 3600,
        machines=machines,
        packages=packages,
        finished=max(row["finished"] for row in rows),
    )
