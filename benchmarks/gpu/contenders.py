"""The implementations that are timed on a CUDA device: slicewise and others."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import dlpack

from benchmarks.speed.contenders import Contender, pot, slicewise, slicewise_autograd, torch_sort

# Compiled parts of POT: none is called by its sliced distance, all are imported with it.
COMPILED_PARTS = ("ot.lp.emd_wrap", "ot.partial.partial_cython", "ot.bsp.bsp_wrap")


@dataclass(frozen=True)
class Peer:
    """A contender: the function that is checked, and what makes the step that is timed."""

    checked: Contender
    prepare: Callable[[Tensor, Tensor, int], Callable[[], Any]]
    finish: Callable[[Any], None]  # waits for what the last step returned
    torch_stream: bool = True  # do torch's events see its work?


def torch_peer(contender: Contender) -> Peer:
    """Return a contender that is written in torch."""

    def prepare(x: Tensor, y: Tensor, n_slices: int) -> Callable[[], Any]:
        return functools.partial(contender, x, y, n_slices)

    def finish(_: Any) -> None:
        torch.cuda.synchronize()

    return Peer(contender, prepare, finish)


def peers(pot_folder: Path | None) -> tuple[dict[str, Peer], dict[str, str]]:
    """Return the implementations that can run here, and notes about the others."""
    found = {
        "slicewise": torch_peer(slicewise),
        "slicewise, autograd": torch_peer(slicewise_autograd),
        "torch sort": torch_peer(torch_sort),
    }
    notes: dict[str, str] = {}
    try:
        notes["POT"] = load_pot(pot_folder)
        found["POT"] = torch_peer(pot)
    except ImportError as trouble:
        notes["POT"] = f"left out: {trouble}"
    try:
        notes["jax jit"] = _load_jax()
        found["jax jit"] = Peer(jax_jit, _jax_steps, _jax_finish, torch_stream=False)
    except Exception as trouble:  # JAX has its own errors for a device it cannot use
        notes["jax jit"] = f"left out: {type(trouble).__name__}: {trouble}"
    return found, notes


def load_pot(folder: Path | None) -> str:
    """Import POT, installed or from a folder with its source, and return which."""
    # It would import these as well, and one of them may take the device's memory.
    for other in ("JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{other}", "1")
    if importlib.util.find_spec("ot") is not None:
        return f"{importlib.import_module('ot').__version__}, as installed"
    if folder is None:
        raise ImportError("POT is not installed: pip install POT, or give its source by --pot")
    if not (folder / "ot" / "__init__.py").is_file():
        raise ImportError(f"no package ot in {folder}")
    return pot_from_source(folder)


def pot_from_source(folder: Path) -> str:
    """Import POT from a folder, its compiled parts replaced by modules whose functions only raise."""
    for name in COMPILED_PARTS:
        sys.modules[name] = _Stub(name)
    sys.path.insert(0, str(folder))
    try:
        version = importlib.import_module("ot").__version__
    finally:
        sys.path.remove(str(folder))
    return f"{version}, from its source, compiled parts stubbed (the sliced distance calls none)"


class _Stub(types.ModuleType):
    """A module in which every name is a function that raises."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def missing(*_: Any, **__: Any) -> None:
            raise NotImplementedError(f"{self.__name__}.{name} is compiled, and stubbed here")

        return missing


def _load_jax() -> str:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave torch its memory
    import jax

    if jax.default_backend() != "gpu":
        raise RuntimeError(f"JAX sees no GPU, only {jax.default_backend()}")
    return f"{jax.__version__}, matmul precision highest"


def jax_jit(
    x: Tensor, y: Tensor, n_slices: int, slices: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Plain JAX: jit(value_and_grad) of project, sort, subtract."""
    import jax

    if slices is None:
        value, gradient, _ = _jax_step(n_slices)(*_to_jax(x, y), jax.random.key(0))
    else:
        value, gradient = _jax_graded()(*_to_jax(x, y, slices))
    jax.block_until_ready(gradient)
    return dlpack.from_dlpack(value), dlpack.from_dlpack(gradient)


def _to_jax(*tensors: Tensor) -> list[Any]:
    from jax import dlpack

    torch.cuda.synchronize()  # JAX has a stream of its own
    return [dlpack.from_dlpack(t.contiguous()) for t in tensors]


@functools.cache
def _jax_graded() -> Any:
    import jax
    import jax.numpy as jnp

    def root(x: Any, y: Any, slices: Any) -> Any:
        # By default JAX rounds factors to TF32, which the others do not.
        with jax.default_matmul_precision("highest"):
            u, v = slices @ x.T, slices @ y.T
        return jnp.sqrt(jnp.mean((jnp.sort(u, axis=-1) - jnp.sort(v, axis=-1)) ** 2))

    return jax.jit(jax.value_and_grad(root))


@functools.cache
def _jax_step(n_slices: int) -> Any:
    import jax
    import jax.numpy as jnp

    def step(x: Any, y: Any, key: Any) -> Any:
        key, fresh = jax.random.split(key)
        slices = jax.random.normal(fresh, (n_slices, x.shape[1]), dtype=x.dtype)
        slices = slices / jnp.linalg.norm(slices, axis=1, keepdims=True)
        return (*_jax_graded()(x, y, slices), key)

    return jax.jit(step)


def _jax_steps(x: Tensor, y: Tensor, n_slices: int) -> Callable[[], Any]:
    import jax

    here = _to_jax(x, y)
    step, state = _jax_step(n_slices), [jax.random.key(0)]

    def one() -> Any:
        value, gradient, state[0] = step(*here, state[0])
        return value, gradient

    return one


def _jax_finish(last: Any) -> None:
    import jax

    jax.block_until_ready(last)
