"""The reference of the command line, made of the same words as its `--help`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from slicewise.lab.cli.app import app as command_line

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class Commands(SphinxDirective):
    """`{commands}`: a section for each subcommand, with its help, arguments and options."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        lines = []
        for name, command in typer.main.get_command(command_line).commands.items():
            lines += of_command(name, command)
        holder = nodes.Element()
        text = StringList(lines, "slicewise --help")
        self.state.nested_parse(text, self.content_offset, holder, match_titles=True)
        return holder.children


def of_command(name: str, command: Any) -> list[str]:
    """Return a section in Markdown."""
    context = command.make_context(f"slicewise {name}", [], resilient_parsing=True)
    says, _, examples = command.help.partition("[bold]Examples[/bold]")
    lines = [f"## slicewise {name}", ""]
    lines += ["```text", " ".join([f"slicewise {name}", *command.collect_usage_pieces(context)])]
    lines += ["```", "", *plain(says).splitlines(), ""]
    if examples.strip():
        lines += ["```sh", *map(with_comment, plain(examples).strip().splitlines()), "```", ""]
    records = [p.get_help_record(context) for p in command.params if not getattr(p, "hidden", 0)]
    lines += ["| argument or option | what it does |", "|---|---|"]
    for what, explained in filter(None, records):
        lines.append(f"| `` {what} `` | {plain(explained)} |".replace("auto|", "auto\\|"))
    return [*lines, ""]


def with_comment(line: str) -> str:
    """Return an example as a line of a shell; what the help writes after a gap is a comment."""
    command, gap, said = re.fullmatch(r"\s*(.*?)(\s{2,}|$)(.*)", line).groups()
    return f"{command}{gap}# {said}" if said else command


def plain(text: str) -> str:
    """Take Rich's marks out of a text, and the meaning that Markdown would give to others."""
    text = re.sub(r"(?<!\\)\[/?(?:bold|italic|dim|cyan|yellow|green|red)\]", "", text)
    return text.replace("\\[", "[")


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
