"""`slicewise variants`: list the variants, or describe one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slicewise.lab import names
from slicewise.lab.cli.common.options import Json, check_variant, one_of
from slicewise.lab.cli.common.output import print_json, print_lines

if TYPE_CHECKING:
    from slicewise.variants import Variant

# What to choose, in the order in which people ask; docs/estimators.md has the measurements behind it.
WHICH_ONE = (
    ("sw", "the default: unbiased, a metric, with the computed step as good as the others"),
    ("orthosw", "less noise at the same cost, once there are as many slices as dimensions"),
    ("rqsw", "least noise in two or three dimensions"),
    ("lcvsw", "least noise with fewer slices than dimensions, where the means differ"),
    ("maxsw", "the one direction in which two sets differ most"),
    ("ebsw", "slices that cost more count more, without an ascent"),
    ("ssw", "directions, or other samples on a sphere"),
)
LETTERS = "L = n_slices, T = n_steps, R = restarts; n samples a side, d dimensions, D dimensions of what is sliced"


def variants(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Describe this variant.",
            show_default=False,
            autocompletion=one_of(names.VARIANTS),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the variants of the sliced distance, their costs and options.

    Options are given to other commands as -O name=value, and so are defaults
    (a preset of published options) and convention=reference (the scale of
    published scripts).

    [bold]Examples[/bold]
      slicewise variants
      slicewise variants rpsw
      slicewise distance a.npy b.npy -v rpsw -O kappa=10
    """
    if name is not None:
        check_variant(name)

    from slicewise.variants import VARIANTS

    if name is not None:
        found = _facts(VARIANTS[name])
        if as_json:
            print_json(found)
        else:
            _say_one(found)
        return
    everything = [_facts(variant) for variant in VARIANTS.values()]
    if as_json:
        print_json({"variants": everything})
    else:
        _say_all(everything)


def _facts(variant: Variant) -> dict[str, Any]:
    from slicewise.variants import PRESETS

    presets = {preset: own[variant.name] for preset, own in PRESETS.items() if variant.name in own}
    return {
        "name": variant.name,
        "summary": variant.summary,
        "metric": "metric" in variant.properties,
        "properties": sorted(variant.properties),
        "cost": f"O({variant.cost})",
        "recipe": repr(variant()),
        "options": {option: _plain(value) for option, value in variant.options.items()},
        "presets": {
            preset: {option: _plain(value) for option, value in own.items()}
            for preset, own in presets.items()
        },
        "description": inspect.getdoc(variant.build) or "",
    }


def _plain(value: Any) -> Any:
    """Return a value for JSON; others, such as schedules, as Python prints them."""
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, (str, int, float)) or value is None else repr(value)


def _written(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _say_all(everything: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text("Which one?", "bold"))
    answers = Table.grid(padding=(0, 2))
    answers.add_column(style="bold", no_wrap=True)
    answers.add_column(overflow="fold")
    for name, when in WHICH_ONE:
        answers.add_row(f"  {name}", when)
    console.print(answers)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("variant", "what it computes", "metric", "cost"):
        fixed = heading in ("variant", "metric")
        table.add_column(heading, no_wrap=fixed, overflow="fold")
    for facts in everything:
        metric = "yes" if facts["metric"] else "no"
        what = Text(facts["summary"])
        what.append(f"\n{_written(facts['options'])}", "dim")
        table.add_row(Text(facts["name"], "bold"), what, metric, facts["cost"])
    console.print()
    console.print(table)
    console.print(
        Text(f"\n{LETTERS}.\nRecipe, properties and published options: slicewise variants NAME")
    )


def _say_one(facts: dict[str, Any]) -> None:
    description = facts["description"].partition("\n")[2].strip()
    lines = [(facts["name"], facts["summary"])]
    lines += [("", line) for line in description.splitlines()]
    lines += [
        ("metric", "yes" if facts["metric"] else "no: the triangle inequality may fail"),
        ("properties", ", ".join(facts["properties"]) or "none"),
        ("cost", f"{facts['cost']}: {LETTERS}"),
        ("recipe", facts["recipe"]),
    ]
    for kind in ("options", "presets"):
        for i, (name, value) in enumerate(facts[kind].items()):
            said = f"{name}={value}" if kind == "options" else f"defaults={name}: {_written(value)}"
            lines.append(("" if i else kind, said))
    lines.append(("try", f"slicewise distance A B -v {facts['name']}"))
    print_lines(lines)
