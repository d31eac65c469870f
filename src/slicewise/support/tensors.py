"""Tensors at the door: arrays become tensors, and mistakes are named; torch's modes, which stand between us and their values.

The modes are compilers and function transforms (`is_transformed`), and autocast (`full_precision`).
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
        hint = f": it is called {self.renamed[name]!r} now" if name in self.renamed else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")


def takes_arrays(*names: str) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Let a function of tensors take NumPy arrays and lists for its arguments of these names, and return the same kind.

    The first of the names decides: a call whose first argument is a tensor returns tensors, and takes further arrays to
    its dtype and device. Whole numbers and lists become float64.
    """

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        parameters = function.__code__.co_varnames  # arguments come first
        places = {parameters.index(name): name for name in names}

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Returned:
            given: list[tuple[int | str, Any]] = [(i, args[i]) for i in places if i < len(args)]
            given += [(name, kwargs[name]) for name in names if name in kwargs]
            if _other_device():
                with torch.device("cpu"):
                    return _converted_if_arrays(function, args, kwargs, given)
            if not any(isinstance(value, _ARRAYS) for _, value in given):
                return function(*args, **kwargs)
            return _converted(function, args, kwargs, given)

        return called

    return decorate


def _other_device() -> bool:
    """Return whether a default device that is not the CPU is set: one number is read unless some mode of torch is on."""
    if torch.compiler.is_compiling() or not torch._C._len_torch_function_stack():
        return False
    return torch.get_default_device().type != "cpu"


def own_device(function: Callable[..., Returned]) -> Callable[..., Returned]:
    """Let a function make its tensors where it says, whatever `torch.set_default_device` says.

    What this library makes without naming a device is for the host: seeds, schedules, results that are read.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Returned:
        if not _other_device():
            return function(*args, **kwargs)
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return called


def _converted_if_arrays(
    function: Callable[..., Returned],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: list[tuple[int | str, Any]],
) -> Returned:
    if not any(isinstance(value, _ARRAYS) for _, value in given):
        return function(*args, **kwargs)
    return _converted(function, args, kwargs, given)


def _converted(
    function: Callable[..., Returned],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    given: list[tuple[int | str, Any]],
) -> Returned:
    first = given[0][1]
    like = first if isinstance(first, Tensor) else None
    if like is None:  # lists follow the arrays, and arrays of two precisions the wider one
        kinds = [v.dtype for _, v in given if isinstance(v, np.ndarray) and v.dtype.kind == "f"]
        wide = np.result_type(*kinds) if kinds else np.dtype(np.float64)
        given = [(w, _widened(v, wide) if isinstance(v, _ARRAYS) else v) for w, v in given]
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


def _widened(array: Any, dtype: np.dtype[Any]) -> Any:
    try:
        plain = np.asarray(array)
    except ValueError:
        return array  # said by `as_tensor`
    return plain.astype(dtype) if plain.dtype.kind in "iubf" else array


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

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # so that it is an instance of the result's own class
        return type(self._result)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_result", "_as_list"):
            raise AttributeError(name)
        found = getattr(self._result, name)
        if inspect.ismethod(found):
            return self._method(found)
        return given_back(found, as_list=self._as_list)

    def _method(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(*args: Any, **kwargs: Any) -> Any:
            tensors = [as_tensor(a) if isinstance(a, _ARRAYS) else a for a in args]
            more = {k: as_tensor(a) if isinstance(a, _ARRAYS) else a for k, a in kwargs.items()}
            return given_back(method(*tensors, **more), as_list=self._as_list)

        return called

    def __repr__(self) -> str:
        return repr(self._result)

    def __dir__(self) -> list[str]:
        return dir(self._result)

    def __reduce__(self) -> tuple[Any, ...]:
        return _ResultOfArrays, (self._result, self._as_list)


# How far sample weights may be from summing to one, by the precision they come in.
_SUM_TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 1e-2}


def check_samples(x: Tensor, y: Tensor, *, may_be_empty: bool = False) -> None:
    """Two sets (*batch, n, d) and (*batch, m, d) of one dtype, device and dimension."""
    check_set("x", x, may_be_empty=may_be_empty)
    check_set("y", y, may_be_empty=may_be_empty)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and y {tuple(y.shape)}: their last dimensions, the "
            f"coordinates, must agree; is one of them transposed?"
        )
    if x.device != y.device:
        raise ValueError(
            f"x is on device {x.device} and y on {y.device}: move one of them, e.g. y.to(x.device)"
        )
    _check_has_values("x", x)
    # Under autocast a network's half-precision output meets float32 data; both are then widened.
    if x.dtype != y.dtype and not torch.is_autocast_enabled(x.device.type):
        half = x.dtype in (torch.float16, torch.bfloat16)  # better the wider of the two
        raise ValueError(
            f"x has dtype {x.dtype} and y {y.dtype}: convert one of them, e.g. "
            f"{'x.to(y.dtype)' if half else 'y.to(x.dtype)'}"
        )
    check_broadcast(x=x.shape[:-2], y=y.shape[:-2])


def check_set(name: str, samples: Any, *, may_be_empty: bool = False) -> None:
    """One set of samples (*batch, n, d), of real numbers."""
    if not isinstance(samples, Tensor):
        is_law = hasattr(samples, "sample") and not hasattr(samples, "shape")
        instead = f"torch.as_tensor({name})"
        if is_law and isinstance(samples, type):
            raise ValueError(
                f"{name} is the class {samples.__name__}: make a law of it, e.g. {samples.__name__}(...)"
            )
        if hasattr(samples, "to_numpy"):  # a table, which torch does not read
            instead = f"torch.from_numpy({name}.to_numpy())"
        if is_law:
            instead = f"{name}.sample(...): samples of a law are needed here"
        if name == "y" and isinstance(samples, torch.distributions.Distribution):
            instead = "y.sample((n,)), or a law: slicewise.laws.Normal(mean, cov) or Quantile(y), where laws are taken"
        raise ValueError(
            f"{name} is a {type(samples).__name__}: give a torch.Tensor, e.g. {instead}"
        )
    if samples.is_nested or samples.layout != torch.strided:
        kind = "nested" if samples.is_nested else str(samples.layout).removeprefix("torch.")
        instead = (
            "pad them, or give one after another"
            if samples.is_nested
            else f"give {name}.to_dense()"
        )
        raise ValueError(f"{name} is a {kind} tensor: samples are plain tensors (n, d); {instead}")
    if not samples.is_floating_point():
        real = f"torch.view_as_real({name}).flatten(-2)"
        instead = real if samples.is_complex() else f"{name}.float()"
        raise ValueError(
            f"{name} has dtype {samples.dtype}: give floating-point samples, e.g. {instead}"
        )
    if samples.dim() < 2:
        raise ValueError(
            f"{name} has shape {tuple(samples.shape)}: give (n, d) samples, or (*batch, n, d); "
            f"for samples on a line, {name}.unsqueeze(-1)"
        )
    if 0 in (samples.shape[:-2] + samples.shape[-1:] if may_be_empty else samples.shape):
        raise ValueError(
            f"{name} has shape {tuple(samples.shape)}, which holds no sample: give at least one "
            f"sample of at least one dimension"
        )


def _check_has_values(name: str, samples: Tensor) -> None:
    if samples.is_meta:
        raise ValueError(
            f"{name} is on the device 'meta', which holds no values: give a tensor that has them"
        )


def check_weights(
    name: str, weights: Tensor | None, samples: Tensor, *, share: bool = False
) -> None:
    """Weights (n,) or (*batch, n) of samples: no negative ones, and their sum is one.

    Those of a `share` of the samples are judged by their sum once all are together.
    """
    if weights is None:
        return
    wanted = f"({samples.shape[-2]},) or (*batch, {samples.shape[-2]})"
    if not isinstance(weights, Tensor) or not weights.is_floating_point():
        kind = weights.dtype if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(
            f"{name} is {kind}: give a floating-point torch.Tensor of shape {wanted}, e.g. "
            f"torch.as_tensor({name}).float()"
        )
    if weights.dim() < 1 or weights.shape[-1] != samples.shape[-2]:
        raise ValueError(
            f"{name} has shape {tuple(weights.shape)}, but there are {samples.shape[-2]} samples: "
            f"give shape {wanted}, one weight for each sample"
        )
    if weights.device != samples.device:
        raise ValueError(
            f"{name} is on device {weights.device}, its samples on {samples.device}: move one of them"
        )
    check_broadcast(**{name: weights.shape[:-1], "samples": samples.shape[:-2]})
    if not values_readable(weights) or not weights.numel():
        return
    # Read at once: on a device every read waits for it.
    wide = weights.detach().double()
    bad = ~(wide.isfinite() & (wide >= 0)).all()
    unfit, smallest, worst = torch.stack([bad.double(), wide.min(), _worst_sum(wide)]).tolist()
    if unfit:
        raise ValueError(
            f"{name} has a negative or non-finite entry (smallest: {smallest:g}): sample weights must be finite and at "
            f"least 0"
        )
    if not share:
        _check_sum(name, weights, worst)


def check_weight_sum(name: str, weights: Tensor | None) -> None:
    """Weights of all samples, which sum to one."""
    if weights is not None and values_readable(weights):
        _check_sum(name, weights, _worst_sum(weights.detach().double()).item())


def _worst_sum(weights: Tensor) -> Tensor:
    """Of the sums over samples, the one furthest from 1."""
    total = weights.sum(dim=-1).flatten()
    return total[(total - 1).abs().argmax()]


def are_weights(weights: Tensor) -> Tensor:
    """Whether weights (..., n) are such as `check_weights` wants them, one answer for each row; nothing is read."""
    off = (weights.double().sum(dim=-1) - 1).abs()
    return (weights.amin(dim=-1) >= 0) & (off <= _SUM_TOLERANCE.get(weights.dtype, 1e-4))


def _check_sum(name: str, weights: Tensor, worst: float) -> None:
    if not abs(worst - 1) <= _SUM_TOLERANCE.get(weights.dtype, 1e-4):
        raise ValueError(
            f"{name} sums to {worst:g}: sample weights must sum to 1, e.g. {name} / {name}.sum(-1, keepdim=True)"
        )


def check_slices(slices: Tensor, x: Tensor, batch: tuple[int, ...], d: int) -> None:
    """Directions of d dimensions as rows, (L, d) or (*batch, L, d), for samples x."""
    if isinstance(slices, Tensor) and (slices.is_nested or slices.layout != torch.strided):
        raise ValueError(f"slices is a {slices.layout} tensor: give a plain one, slices.to_dense()")
    if not isinstance(slices, Tensor) or slices.dim() < 2 or slices.shape[-1] != d:
        plain = not isinstance(slices, Tensor)
        got = f"is a {type(slices).__name__}" if plain else f"has shape {tuple(slices.shape)}"
        raise ValueError(
            f"slices {got}: give a tensor (L, {d}) or (*batch, L, {d}), a direction in each row; "
            f"transpose directions that are columns"
        )
    if slices.shape[-2] == 0:
        raise ValueError(f"slices has shape {tuple(slices.shape)}: give at least one direction")
    if slices.device != x.device:
        raise ValueError(
            f"slices is on device {slices.device} and x on {x.device}: move one of them"
        )
    shapes = check_broadcast(slices=slices.shape[:-2], batch=batch)
    if shapes != batch:
        raise ValueError(
            f"slices has shape {tuple(slices.shape)}, more leading dimensions than the samples' "
            f"batch {batch}: expand x to compare it under several sets of slices"
        )


# Powers of such an order have nothing but the largest gap left.
_LARGEST_ORDER = 1e6


def check_order(p: object) -> None:
    """The order p of W_p."""
    if isinstance(p, bool) or not isinstance(p, int | float | np.integer | np.floating):
        raise ValueError(f"p = {p!r}: give a finite real number p >= 1, e.g. 2")
    if not 1 <= p < math.inf:
        raise ValueError(f"p = {p!r}: give a finite real number p >= 1, e.g. 2")
    if p > _LARGEST_ORDER:
        raise ValueError(f"p = {p:g}: give an order up to {_LARGEST_ORDER:g}")


def check_finite(**tensors: Tensor | None) -> None:
    """No NaN and no infinity, where the values can be looked at (not in compiled or vmapped code)."""
    present = {k: t.detach() for k, t in tensors.items() if t is not None}
    if not values_readable(*present.values()):
        return
    for name, tensor in present.items():
        # One number, one look: a sum is finite unless an entry is not (or, rarely, the sum overflows).
        if math.isfinite(tensor.sum()):
            continue
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            raise ValueError(
                f"{name} of shape {tuple(tensor.shape)} has {bad} NaN or infinite entries: give finite "
                f"values; if a model made them, its last step diverged (try a smaller rate)"
            )


def check_generator(generator: object) -> None:
    """A seed, a generator, a list of either, or None."""
    if generator is None or isinstance(generator, torch.Generator):
        return
    many = generator if isinstance(generator, (list, tuple)) else [generator]
    wrong = [g for g in many if not (isinstance(g, torch.Generator) or _is_seed(g))]
    if wrong:
        raise ValueError(
            f"generator is a {type(generator).__name__} of {wrong[0]!r}: give a seed (a whole number), a "
            f"torch.Generator, a list of them (one for each element of the batch) or None"
        )


def _is_seed(value: object) -> bool:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return whole and -(2**63) <= int(value) < 2**64  # type: ignore[call-overload]


def values_readable(*tensors: Tensor) -> bool:
    """May values be read here? Not while compiling, under torch.func, or in a CUDA graph capture."""
    if is_transformed(*tensors):
        return False
    on_gpu = any(t.is_cuda for t in tensors)
    return not (on_gpu and torch.cuda.is_current_stream_capturing())


def check_broadcast(**shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Leading dimensions that fit together."""
    try:
        return broadcast(*shapes.values())
    except RuntimeError:
        said = " and ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(
            f"leading (batch) dimensions do not fit together: {said}; give equal ones, or ones"
        ) from None


def check_basis(basis: Tensor) -> None:
    """Orthonormal columns (d, k), zero ones aside, which pad a batched `Subspace` of lower rank."""
    if not isinstance(basis, Tensor):
        raise ValueError(f"basis is a {type(basis).__name__}: give a torch.Tensor (d, k)")
    error = math.inf
    if basis.dim() >= 2:
        gram = basis.double().mT @ basis.double()
        wanted = (gram.diagonal(dim1=-2, dim2=-1) > 0).double().diag_embed()
        error = float((gram - wanted).abs().max())
    if error > 1e-4:
        raise ValueError(
            f"basis of shape {tuple(basis.shape)} has columns that are not orthonormal: give (d, k) "
            f"with basisᵀ basis = 1, e.g. torch.linalg.qr(basis).Q"
        )


def is_transformed(*tensors: Tensor | None) -> bool:
    """Does a compiler or a transform of torch.func stand between us and these tensors' values?"""
    # torch offers no public test for its function transforms, and cannot compile the private one.
    return torch.compiler.is_compiling() or any(
        torch._C._functorch.is_functorch_wrapped_tensor(t) for t in tensors if t is not None
    )


def full_precision(device_type: str) -> AbstractContextManager[None]:
    """A context without autocast; entering one where there is none to switch off costs nothing."""
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The joint shape of leading dimensions.

    Torch takes ten microseconds to broadcast two equal shapes, and its first call imports SymPy and its compiler: a second
    and a half.

    Raises:
        RuntimeError: where they do not fit, as torch raises.
    """
    first = next((s for s in shapes if len(s)), ())
    if all(s == first or not len(s) for s in shapes):
        return tuple(first)
    joint = [1] * max(map(len, shapes))
    for shape in shapes:
        for k, size in enumerate(shape, len(joint) - len(shape)):
            if size != 1:
                if joint[k] not in (1, size):
                    raise RuntimeError(f"shapes do not broadcast: {[tuple(s) for s in shapes]}")
                joint[k] = size
    return tuple(joint)
