"""Doors that open on demand: the names of a package, each imported when it is first asked for.

A door writes its imports twice: under `TYPE_CHECKING`, for type checkers and editors, and as a table for
`open_on_demand`. A test compares the two.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from slicewise.support.words import did_you_mean, meant


def open_on_demand(
    door: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package whose names are imported when they are first asked for.

    A name that was found is kept as an attribute of the package, so that it is looked up once.

    Args:
        door: The package, its `__name__`.
        places: For each of its modules, the names that the package has from there, in one string. The modules are
            attributes of the package, too, unless a name of the same spelling stands for something else.

    Returns:
        The two functions (PEP 562).

    Example:
        >>> find, _ = open_on_demand("slicewise.support", {"words": "check_count meant"})
        >>> find("check_count").__module__
        'slicewise.support.words'
        >>> find("check_cuont")
        Traceback (most recent call last):
        AttributeError: module 'slicewise.support' has no attribute 'check_cuont': did you mean 'check_count'?
    """
    place_of = {name: place for place, names in places.items() for name in names.split()}
    package = sys.modules[door]
    shared = place_of.keys() & places.keys()
    if shared:
        vars(package)["_shared_names"] = shared
        package.__class__ = _Door

    def find(name: str) -> Any:
        if name in place_of:
            found = getattr(importlib.import_module(f"{door}.{place_of[name]}"), name)
        elif name in places:
            found = importlib.import_module(f"{door}.{name}")
        else:
            near = (
                [] if name.startswith("_") else meant(name, vars(package).get("__all__", place_of))
            )
            hint = f": {did_you_mean(near).strip()}" if near else ""
            raise AttributeError(f"module {door!r} has no attribute {name!r}{hint}")
        setattr(package, name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(package), *place_of})

    return find, names


class _Door(ModuleType):
    """A package with a function of the same name as the file it is in.

    Python makes a module an attribute of its package whenever it is imported, by whomever; then the package's name would
    mean the file. Here it is left out, and the name stays that of the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in vars(self)["_shared_names"] and isinstance(value, ModuleType)):
            super().__setattr__(name, value)
