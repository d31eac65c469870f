"""Options that several subcommands share, and options of variants (-O name=value)."""

from __future__ import annotations

import ast
import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

from slicewise.lab import names
from slicewise.lab.errors import UserError
from slicewise.support import check_choice

if TYPE_CHECKING:
    from slicewise.variants import Recipe

MOST_SLICES = 10**8
DATA, TOY, RUNS, OUTPUT = "Input", "Toy target", "Execution", "Output"
LATENTS = "Latents"


def one_of(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Complete a word on the command line to those of a few that begin with it."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


VariantName = Annotated[
    str,
    typer.Option(
        "--variant",
        "-v",
        metavar="NAME",
        help="A variant; `slicewise variants` lists them.",
        autocompletion=one_of(names.VARIANTS),
    ),
]
Order = Annotated[float, typer.Option("--p", help="The order of W_p, at least 1.")]
NSlices = Annotated[
    int | None,
    typer.Option(metavar="L", help="The number of slices. \\[default: that of the variant]"),
]
OwnOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-O",
        metavar="NAME=VALUE",
        help="An option of the variant (kappa=10), a preset (defaults=paper), or the scale of "
        "published scripts (convention=reference). May be repeated.",
    ),
]
_WEIGHTS = "Weights of the samples of {}, one for each; they are divided by their sum."
XWeights = Annotated[
    str | None,
    typer.Option(metavar="FILE", help=_WEIGHTS.format("A"), rich_help_panel=DATA),
]
YWeights = Annotated[
    str | None,
    typer.Option(metavar="FILE", help=_WEIGHTS.format("B"), rich_help_panel=DATA),
]
Subset = Annotated[
    int | None,
    typer.Option(metavar="N", help="Use only N random samples of each file.", rich_help_panel=DATA),
]
Flatten = Annotated[
    bool,
    typer.Option(
        "--flatten",
        help="Flatten arrays (N, ...) of more than two dimensions to N samples.",
        rich_help_panel=DATA,
    ),
]
Header = Annotated[
    str,
    typer.Option(
        metavar="auto|yes|no",
        help="Whether the first line of a table is a header; auto: if it has no number, or is 0,1,2,…",
        autocompletion=one_of(("auto", "yes", "no")),
        rich_help_panel=DATA,
    ),
]
Toy = Annotated[
    str | None,
    typer.Option(
        "--toy",
        metavar="|".join(names.TOYS),
        autocompletion=one_of(names.TOYS),
        help="The target if no files are given; particles start from a normal distribution. "
        "\\[default: swiss]",
        rich_help_panel=TOY,
    ),
]
ToySize = Annotated[
    int | None,
    typer.Option("--n", help="The number of samples. \\[default: 300]", rich_help_panel=TOY),
]
ToyDimension = Annotated[
    int | None,
    typer.Option("--d", help="Their dimension. \\[default: 2]", rich_help_panel=TOY),
]
LatentLabels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Labels of latents, one for each row.", rich_help_panel=LATENTS
    ),
]
LatentsHeldOut = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Hold out the last N rows. \\[default: depends on the layout]",
        rich_help_panel=LATENTS,
    ),
]
AdultAge = Annotated[
    float, typer.Option(help="Rows with a larger age are adults.", rich_help_panel=LATENTS)
]
ChildAge = Annotated[
    float, typer.Option(help="Rows with a smaller age are children.", rich_help_panel=LATENTS)
]
MoreLatents = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Draw N more training rows with random-face, for stylegan_ffhq_w512.",
        rich_help_panel=LATENTS,
    ),
]
Seed = Annotated[
    int,
    typer.Option(help="The seed of everything random: the same seed gives the same result.",
                 rich_help_panel=RUNS),
]  # fmt: skip
Dtype = Annotated[
    str,
    typer.Option(
        metavar="|".join(names.DTYPES),
        autocompletion=one_of(names.DTYPES),
        rich_help_panel=RUNS,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda",
        help="auto is cuda if there is a device.",
        autocompletion=one_of(("auto", "cpu", "cuda")),
        rich_help_panel=RUNS,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Overwrite existing files.", rich_help_panel=OUTPUT),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only the number.", rich_help_panel=OUTPUT)
]


def check_variant(variant: str) -> None:
    """Check that there is a variant of this name."""
    check_choice("variant", variant, names.VARIANTS)


def recipe_of(
    variant: str, n_slices: int | None, given: list[str] | None
) -> tuple[Recipe, int | None, dict[str, Any]]:
    """Return the recipe that options ask for, the number of slices given, and the other options of the variant.

    Raises:
        UserError: an option is unknown to the variant, has a wrong value, or is given twice.
    """
    from slicewise.distance import recipe_for

    check_variant(variant)
    options = _own_options(variant, given or [])
    if "n_slices" in options:
        if n_slices is not None:
            raise UserError("--n-slices and -O n_slices are the same option: give one of them")
        n_slices = options.pop("n_slices")
    if n_slices is not None and n_slices > MOST_SLICES:
        raise UserError(f"{n_slices} slices are too many: give at most {MOST_SLICES}")
    return recipe_for(variant, n_slices, options), n_slices, options


def _own_options(variant: str, given: list[str]) -> dict[str, Any]:
    from slicewise.variants import VARIANTS

    own = VARIANTS[variant]
    kinds: dict[str, Any] = {"defaults": str, "convention": str, **get_type_hints(own.build)}
    options: dict[str, Any] = {}
    for text in given:
        name, found, word = text.partition("=")
        name = name.strip().replace("-", "_")
        if not found:
            raise UserError(f"-O {text}: write name=value, e.g. -O n_slices=100")
        check_choice(
            f"option of variant {variant!r}", name, (*own.options, "defaults", "convention")
        )
        if name in options:
            raise UserError(f"-O {name} is given twice: give it once")
        options[name] = _value(word.strip())
        if not _fits(options[name], kinds[name]):
            wanted = " or ".join(_words(kinds[name]))
            raise UserError(
                f"-O {text}: give {wanted}" if wanted else f"-O {name} can be given in Python only"
            )
    return options


def _value(word: str) -> Any:
    """Return a Python literal, or the word itself if it is none."""
    known = {"true": True, "false": False, "none": None}
    if word.lower() in known:  # the string "false" would be true
        return known[word.lower()]
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return word


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value has the type that an option is annotated with."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if get_origin(kind) is Literal or kind is str:
        return isinstance(value, str)
    if get_origin(kind) is tuple:
        same = isinstance(value, (tuple, list)) and len(value) == len(parts)
        return same and all(map(_fits, value, parts))
    if kind is float:
        return type(value) in (int, float) and math.isfinite(value)
    return kind in (int, bool, type(None)) and type(value) is kind


def _words(kind: Any) -> Iterable[str]:
    if get_origin(kind) in (Union, types.UnionType):
        # "none" as the only choice would not help.
        found = [word for part in get_args(kind) for word in _words(part)]
        return found if found != ["none"] else []
    if get_origin(kind) is tuple:
        return [f"({', '.join(word for part in get_args(kind) for word in _words(part))})"]
    names = {float: "a number", int: "a whole number", bool: "true or false", type(None): "none"}
    return (
        ["a word"]
        if get_origin(kind) is Literal or kind is str
        else filter(None, [names.get(kind)])
    )
