"""Write the report of a store: index.html, which needs no other file, and figures and tables as files beside it."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slicewise.lab.errors import UserError
from slicewise.lab.images import STYLES, in_style
from slicewise.lab.report import flows as of_flows
from slicewise.lab.report import latents, theory
from slicewise.lab.report.best import Row
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.layout import (
    Block,
    Figure,
    Table,
    as_csv,
    as_latex,
    as_markdown,
)
from slicewise.lab.report.story.chapters import GLOSSARY, Story, tell
from slicewise.lab.report.training_runs import groups
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
        flows = [found for name in of_flows.TITLES if (found := Flows(kept, name)).asked_or_run]
        with in_style():
            blocks = _blocks(kept, flows)
        story = tell(kept, flows, blocks)
    page = _page(story, rows, Path(store))
    with _written_to(folder):
        for name, content in _apart(_beside(blocks)):
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


def _blocks(store: Store, every: Sequence[Flows]) -> dict[str, list[Block]]:
    """Return the figures and tables of all experiments that have any, by their titles."""
    found = {of_flows.TITLES[flows.experiment]: of_flows.blocks(flows) for flows in every}
    for name, title in latents.TITLES.items():
        found[title] = latents.blocks(store, name, *groups(store, name))
    for name, title in theory.TITLES.items():
        found[title] = theory.blocks(store, name)
    return {title: some for title, some in found.items() if some}


def _apart(files: Iterable[tuple[str, str | bytes]]) -> Iterable[tuple[str, str | bytes]]:
    """Number files of equal names: settings may differ in characters that are not kept in file names."""
    used: Counter[str] = Counter()
    for name, content in files:
        used[name] += 1
        stem, _, kind = name.rpartition(".")
        yield (name if used[name] == 1 else f"{stem}-{used[name]}.{kind}"), content


def _beside(blocks: Mapping[str, Sequence[Block]]) -> Iterable[tuple[str, str | bytes]]:
    """Return every figure and table as files, and all tables in one Markdown file."""
    tables = []
    for block in (block for some in blocks.values() for block in some):
        if isinstance(block, Figure):
            yield f"{block.name}.png", block.png
            yield f"{block.name}.svg", block.svg
        else:
            tables.append(block)
            yield f"{block.name}.csv", as_csv(block)
            yield f"{block.name}.tex", as_latex(block)
    whole = (f"## {one.title}\n\n{as_markdown(one)}\n{one.note}\n" for one in tables)
    yield "tables.md", "\n".join(whole)


def _page(story: Story, rows: Sequence[Row], store: Path) -> str:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("slicewise.lab"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["inline"] = lambda png: base64.b64encode(png).decode()
    environment.filters["data"] = as_script_data
    environment.filters["terms"] = explained
    environment.tests["table"] = lambda block: isinstance(block, Table)
    return environment.get_template("report.html").render(
        story=story,
        styles=STYLES,
        data=_data(story),
        machines=_machines(rows),
        store=store.name,
        n_runs=len(rows),
        finished=max(row["finished"] for row in rows),
    )


def _data(story: Story) -> dict[str, Any]:
    """Return what the script of the page draws."""
    return {
        "films": [asdict(film) for film in story.films],
        "behind": {} if story.works is None else story.works.behind,
    }


def as_script_data(data: Mapping[str, Any]) -> str:
    """Return data as JSON that is safe inside a script element: `<` is escaped."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def explained(words: str) -> Any:
    """Return text with its terms, written as [[term|words]], as elements that explain themselves."""
    from markupsafe import Markup, escape

    def one(found: re.Match[str]) -> str:
        return f'<span class="term" tabindex="0" data-tip="{escape(GLOSSARY[found[1]])}">{found[2]}</span>'

    # Escaping leaves the brackets as they are; what stands in them is escaped already.
    return Markup(re.sub(r"\[\[(\w+)\|([^\]]+)\]\]", one, str(escape(words))))


def _machines(rows: Sequence[Row]) -> Table:
    """Return a table of the machines and versions that runs were made with."""
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
    return Table("environment", "Machines and versions", header, lines)
