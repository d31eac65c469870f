"""NumPy arrays and lists at the door of functions: converted on the way in, and back on the way out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

Returned = TypeVar("Returned")
_ARRAYS = (np.ndarray, list, tuple)


class Result:
    """What a function returns that has tensors as attributes; where arrays were given, they are read as arrays."""

    # Attributes that have another name now: an old one is answered by the new one.
    renamed: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        hint = f": it is called {self.renamed[name]} now" if name in self.renamed else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")


def takes_arrays(*names: str) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Let a function of tensors take NumPy arrays and lists for its arguments of these names, and return the same kind.

    The first of the names decides: a call whose first argument is a tensor returns tensors, and takes further arrays to
    its dtype and device. Whole numbers and lists become float64.
    """

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        parameters = list(inspect.signature(function).parameters)
        places = {parameters.index(name): name for name in names}

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Returned:
            given = [(i, args[i]) for i in places if i < len(args)]
            given += [(name, kwargs[name]) for name in names if name in kwargs]
            if not any(isinstance(value, _ARRAYS) for _, value in given):
                return function(*args, **kwargs)
            return _converted(function, args, kwargs, given)

        return called

    return decorate


def _converted(
    function: Callable[..., Returned],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: list[tuple[Any, Any]],
) -> Returned:
    first = given[0][1]
    like = first if isinstance(first, Tensor) else None
    new_args, new_kwargs = list(args), dict(kwargs)
    for where, value in given:
        if isinstance(value, _ARRAYS):
            if isinstance(where, int):
                new_args[where] = as_tensor(value, like)
            else:
                new_kwargs[where] = as_tensor(value, like)
    found = function(*new_args, **new_kwargs)
    back: Returned = (
        found if like is not None else given_back(found, as_list=not isinstance(first, np.ndarray))
    )
    return back


def as_tensor(array: Any, like: Tensor | None = None) -> Tensor:
    """An array or a list of numbers as a tensor: its own floating-point precision, else float64; or as another tensor."""
    try:
        plain = np.asarray(array)
        if plain.dtype.kind in "iub":
            plain = plain.astype(np.float64)
        if plain.dtype.kind not in "fc":
            raise TypeError(f"of {plain.dtype}")
        tensor = torch.from_numpy(np.ascontiguousarray(plain))
    except (TypeError, ValueError) as wrong:
        raise ValueError(
            f"a {type(array).__name__} that cannot be read as an array of numbers ({wrong}): give a tensor or an array of "
            f"shape (n, d), or a list of n rows of d numbers each"
        ) from None
    return tensor if like is None else tensor.to(like)


def given_back(found: Any, *, as_list: bool) -> Any:
    """Tensors as NumPy arrays, or as nested lists; a single number as a NumPy or Python number."""
    if isinstance(found, Tensor):
        plain = found.detach().cpu()
        return plain.tolist() if as_list else plain.numpy()[()]
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        return tuple(given_back(one, as_list=as_list) for one in found)
    return _ResultOfArrays(found, as_list) if isinstance(found, Result) else found


class _ResultOfArrays:
    """A `Result` whose tensors are read as arrays or lists."""

    def __init__(self, result: Result, as_list: bool) -> None:
        self._result, self._as_list = result, as_list

    @property
    def __class__(self) -> Any:  # so that it is an instance of the result's own class
        return type(self._result)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._result, name)
        if inspect.ismethod(found):
            return self._method(found)
        return given_back(found, as_list=self._as_list)

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any) -> Any:
            tensors = [as_tensor(a) if isinstance(a, _ARRAYS) else a for a in args]
            return given_back(method(*tensors), as_list=self._as_list)

        return called

    def __repr__(self) -> str:
        return repr(self._result)
