"""Write the report of a store: index.html, which needs no other file, and its figures and tables as files."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from slicewise.lab.errors import UserError
from slicewise.lab.report import latents, theory
from slicewise.lab.report.best import Row
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.flows import TITLES, summary_section
from slicewise.lab.report.flows import section as flow_section
from slicewise.lab.report.layout import (
    STYLES,
    Chart,
    Charts,
    Figure,
    Heading,
    Section,
    Table,
    as_csv,
    as_latex,
    as_markdown,
    file_name,
)
from slicewise.lab.study import Store
from slicewise.support import check_writable, write_whole


def write_report(store: str | Path, out: str | Path) -> Path:
    """Write the report of a store.

    Args:
        store: the SQLite file.
        out: the folder of the report; an existing page is replaced when the new one is complete.

    Returns:
        The path of index.html.

    Raises:
        UserError: the store is missing or empty, or the folder cannot be written to.
    """
    folder = Path(out)
    with Store.reading(store) as kept:
        rows = kept.rows()
        if not rows:
            raise UserError(f"{store} holds no runs yet: `slicewise reproduce all` makes some")
        with _written_to(folder):  # before drawing, which takes a while
            check_writable(folder)
        sections = [*_sections(kept), *_closing_sections(rows)]
    page = _page(sections, len(rows), Path(store), max(row["finished"] for row in rows))
    with _written_to(folder):
        for name, content in _apart(_beside(sections)):
            write_whole(folder / name, content)
        write_whole(folder / "index.html", page)
    return folder / "index.html"


@contextmanager
def _written_to(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as wrong:
        raise UserError(
            f"cannot write {folder}: {wrong}; give another folder with --out"
        ) from wrong


def _sections(store: Store) -> list[Section]:
    flows = [Flows(store, experiment) for experiment in TITLES]
    trained = [latents.section(store, experiment) for experiment in latents.TITLES]
    found = [summary_section(flows), *map(flow_section, flows), *trained]
    found += [theory.section(store, experiment) for experiment in theory.TITLES]
    return [part for part in found if part is not None]


def _apart(files: Iterable[tuple[str, str | bytes]]) -> Iterable[tuple[str, str | bytes]]:
    """Number files of equal names: settings may differ in characters that are not kept in file names."""
    used: Counter[str] = Counter()
    for name, content in files:
        used[name] += 1
        stem, _, kind = name.rpartition(".")
        yield (name if used[name] == 1 else f"{stem}-{used[name]}.{kind}"), content


def _beside(sections: Sequence[Section]) -> Iterable[tuple[str, str | bytes]]:
    """Return every figure and table as files, and all tables in one Markdown file."""
    tables = []
    for block in (block for part in sections for block in part.blocks):
        figure = block.still if isinstance(block, Charts) else block
        if isinstance(figure, Figure):
            yield f"{figure.name}.png", figure.png
            yield f"{figure.name}.svg", figure.svg
        elif isinstance(figure, Table):
            tables.append(figure)
            yield f"{figure.name}.csv", as_csv(figure)
            yield f"{figure.name}.tex", as_latex(figure)
    whole = (f"## {one.title}\n\n{as_markdown(one)}\n{one.note}\n" for one in tables)
    yield "tables.md", "\n".join(whole)


def _page(sections: Sequence[Section], n_runs: int, store: Path, finished: str) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("slicewise.lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["inline"] = lambda png: base64.b64encode(png).decode()
    environment.filters["data"] = as_script_data
    environment.filters["anchor"] = file_name
    for kind in (Table, Charts, Heading):
        environment.tests[kind.__name__.lower()] = lambda block, kind=kind: isinstance(block, kind)
    drawn = any(isinstance(block, Charts) for part in sections for block in part.blocks)
    return environment.get_template("report.html").render(
        sections=sections,
        styles=STYLES,
        store=store.name,
        n_runs=n_runs,
        finished=finished,
        vega=_vega() if drawn else "",
    )


def as_script_data(chart: Chart) -> str:
    """Return the specification as JSON that is safe inside a script element: `<` is escaped."""
    text = json.dumps(chart.spec, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _vega() -> str:
    """Return the JavaScript that draws the charts, so that the page needs no network."""
    import altair
    import vl_convert

    major = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle(vl_version=major)  # type: ignore[call-arg]  # its stubs require more arguments
    return bundle.replace("</script", "<\\/script")


_CONVENTIONS = [
    ("W₂", "exact, between all particles and the target, in double precision: not W₂², and not an estimate"),
    ("power", "the loss is SW₂², a mean over particles and slices"),
    ("root", "the loss is SW₂, its square root, as the paper's scripts have it: with a constant rate it oscillates and never converges"),
    ("mean convention", "losses are means over particles; a rate h moves each particle by 2 h / n times its displacement (power)"),
    ("reference convention", "the scale of the published scripts: a sum over particles, times their number"),
    ("step computed", "no rate: the step that minimizes the loss on the slices drawn, with fixed matchings"),
    ("best rate", "the rate with the least mean W₂ over seeds, as in the paper; ± is the standard deviation over seeds"),
    ("diverged", "counts as infinitely far"),
    ("edge of sw by theory", "n L d / (L + d − 1): beyond this rate the squared loss of L fresh slices in d dimensions diverges"),
    ("seconds", "the time of the batch over its number of runs, unless a run was timed by itself"),
]  # fmt: skip


def _closing_sections(rows: Sequence[Row]) -> list[Section]:
    """Return the last sections: the words used, and the machines."""
    words = Table("conventions", "Words", ["word", "meaning"], [list(one) for one in _CONVENTIONS])
    return [Section("Conventions", (), [words]), _environment(rows)]


def _environment(rows: Sequence[Row]) -> Section:
    machines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        packages = ", ".join(f"{name} {version}" for name, version in sorted(row["versions"].items()))  # fmt: skip
        machines.setdefault((row["device"], packages), []).append(row)
    lines = [
        [
            device,
            packages,
            f"{len(some):,}",
            f"{sum(row['seconds'] for row in some) / 3600:.2f}",
            max(row["finished"] for row in some),
        ]
        for (device, packages), some in sorted(machines.items())
    ]
    header = ["machine", "with", "runs", "hours", "the last at (UTC)"]
    return Section(
        "Environment", (), [Table("environment", "Machines and versions", header, lines)]
    )
