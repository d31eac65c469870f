"""The page of the write-up: the template filled with facts, its paragraphs wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from benchmarks.study.facts import Facts

WIDTH = 120
PAGE = "reproduction.md"


def rendered(facts: Facts) -> str:
    """Return docs/reproduction.md as it follows from the records."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    place = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    place.filters |= {"after": _after, "before": _before, "code": _code}
    return wrapped(place.get_template(f"{PAGE}.j2").render(f=facts))


def _after(text: str, words: str) -> str:
    """Return what follows some words, with a capital."""
    _, found, rest = text.partition(words)
    assert found, f"{words!r} is not in {text!r}"
    return rest[0].upper() + rest[1:]


def _before(text: str, words: str) -> str:
    head, found, _ = text.partition(words)
    assert found, f"{words!r} is not in {text!r}"
    return head


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def wrapped(text: str) -> str:
    """Return Markdown with paragraphs and list items in lines of at most 120 characters; code, tables and headings stay."""
    out: list[str] = []
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph:
            item = paragraph[0].startswith("- ")
            whole = " ".join(line.strip() for line in paragraph)
            out.extend(
                textwrap.wrap(
                    whole,
                    WIDTH,
                    subsequent_indent="  " if item else "",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
            paragraph.clear()

    fenced = False
    for line in text.splitlines():
        fence = line.startswith("```")
        if fenced or fence or not line.strip() or line.startswith(("|", "#")):
            flush()
            if line.strip() or fenced or not out or out[-1]:
                out.append(line)
            fenced ^= fence
        else:
            if line.startswith("- "):
                flush()
            paragraph.append(line)
    flush()
    return "\n".join(out).rstrip() + "\n"
