"""CUDA C++ compiled where it runs, by NVRTC: through NVIDIA's own bindings, else through torch's.

Nothing here needs a CUDA toolkit. What was compiled is kept on disk, so that the next process does
not wait for it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import re
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor

from slicewise.kernels.kept_code import cache_base, private_folder, read_sealed, sealed
from slicewise.support import write_whole

Route = Literal["bindings", "hook"]
Argument = Tensor | int | float | None

REAL = {torch.float32: "float", torch.float64: "double"}  # as CUDA C++ calls them
_HERE = Path(__file__).parent
# Beyond, a kernel must ask for shared memory.
_PLAIN_SHARED = 48 * 1024
_COMPILING = threading.Lock()


class Kernel:
    """A compiled kernel: call it with a grid, a block, the shared memory it needs, and its arguments."""

    def __init__(
        self, launch: Callable[..., None], launch_at: Callable[..., None] | None = None
    ) -> None:
        self._launch = launch
        self._launch_at = launch_at

    def __call__(
        self, blocks: int, threads: int, arguments: Sequence[Argument], shared: int = 0
    ) -> None:
        if blocks > 0:
            self._launch(blocks, threads, arguments, shared)

    def launch_at(self, blocks: int, threads: int, arguments: int, stream: int) -> None:
        """Launch with the addresses of arguments that lie in host memory, on a stream, with no checks.

        The kernel's device must be the current one. By the route "bindings" only.
        """
        if self._launch_at is None:
            raise RuntimeError("arguments by address need the package cuda-bindings")
        self._launch_at(blocks, threads, arguments, stream)


def routes() -> dict[Route, str]:
    """Each way to a compiled kernel, and why it is closed; empty where it is open."""
    if torch.version.cuda is None or not torch.cuda.is_available():
        return {"bindings": "no CUDA device", "hook": "no CUDA device"}
    try:
        found = importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:  # there is no package `cuda` at all
        found = False
    missing = "the package cuda-bindings is not installed"
    no_hook = "this torch cannot compile CUDA C++"
    return {
        "bindings": "" if found else missing,
        "hook": "" if hasattr(torch.cuda, "_compile_kernel") else no_hook,
    }


def works(device: torch.device, route: Route) -> bool:
    """Does a small kernel compile and run? If not, say why: everything will be slower."""
    try:
        number = torch.zeros(1, dtype=torch.int32, device=device)
        kernel("trial.cu", "trial", "", device, route)(1, 32, [number, 42])
        return int(number) == 42
    except (RuntimeError, OSError, ImportError, AttributeError, TypeError) as trouble:
        warnings.warn(
            f"CUDA kernels cannot be compiled by {route} ({trouble}); going on without, several times "
            f"slower. Choose backend='torch' to say no more of it",
            stacklevel=2,
        )
        return False


def kernel(
    files: str,
    name: str,
    settings: str,
    device: torch.device,
    route: Route = "bindings",
    group: tuple[str, ...] = (),
) -> Kernel:
    """The kernel `name` of source files, taken together behind a prelude of settings, for a device.

    `group` names the kernels of these files that are always used together: they are compiled at once, all others
    not at all.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    return _kernel(files, name, settings, index, route, group or (name,))


@functools.cache
def _kernel(
    files: str, name: str, settings: str, device: int, route: Route, group: tuple[str, ...]
) -> Kernel:
    source = "\n".join([settings, *((_HERE / file).read_text() for file in files.split())])
    with torch.cuda.device(device):
        if route == "hook":
            return _by_hook(only(source, (name,)), name, device)
        return _by_bindings(only(source, group), name, device)


_KERNEL = re.compile(r'extern "C" __global__ void(?:\s+__launch_bounds__\([^)]*\))?\s+(\w+)\(')


def only(source: str, names: Sequence[str]) -> str:
    """Source in which all kernels but the named ones are functions that nobody calls: no code is made of them.

    A kernel of draw.cu takes 0.1 to 0.5 seconds to compile, all of them 1.7.
    """

    def kept(found: re.Match[str]) -> str:
        return found[0] if found[1] in names else f"static __device__ void {found[1]}("

    return _KERNEL.sub(kept, source)


def _by_hook(source: str, name: str, device: int) -> Kernel:
    compiled = torch.cuda._compile_kernel(source, name, nvcc_options=["-std=c++17"])

    def launch(blocks: int, threads: int, arguments: Sequence[Argument], shared: int) -> None:
        if shared >= _PLAIN_SHARED:
            compiled.set_shared_memory_config(shared)
        here = torch.cuda.current_device() == device
        with nullcontext() if here else torch.cuda.device(device):
            nothing = torch.empty(0, device="cuda")  # its address is null
            given = [nothing if a is None else a for a in arguments]
            compiled((blocks, 1, 1), (threads, 1, 1), given, shared_mem=shared)

    return Kernel(launch)


def _by_bindings(source: str, name: str, device: int) -> Kernel:
    from cuda.bindings import driver

    function = _checked(driver.cuModuleGetFunction(_module(source, device), name.encode()))
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    allowed = [_PLAIN_SHARED]
    start, current, stream_of = (
        driver.cuLaunchKernel,
        torch._C._cuda_getDevice,
        torch._C._cuda_getCurrentRawStream,
    )
    # Room for arguments, one for each thread that is launching: taking one and giving it back is atomic.
    rooms: list[_Room] = []

    def launch(blocks: int, threads: int, arguments: Sequence[Argument], shared: int) -> None:
        if shared > allowed[0]:
            _checked(driver.cuFuncSetAttribute(function, most, shared))
            allowed[0] = shared
        try:
            room = rooms.pop()
        except IndexError:
            room = _Room(arguments)
        room.fill(arguments)
        grid = (blocks, 1, 1, threads, 1, 1, shared, stream_of(device), room.address, 0)
        if current() == device:
            answer = start(function, *grid)
        else:
            with torch.cuda.device(device):
                answer = start(function, *grid)
        rooms.append(room)
        if int(answer[0]):
            _checked(answer)

    def launch_at(blocks: int, threads: int, arguments: int, stream: int) -> None:
        answer = start(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, 0)
        if int(answer[0]):
            _checked(answer)

    return Kernel(launch, launch_at)


class _Room:
    """Arguments of a launch in host memory, eight bytes to each, and their addresses.

    A kernel's int is the lower half of its eight bytes.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        count = len(arguments)
        self._slots = (ctypes.c_int64 * count)()
        first = ctypes.addressof(self._slots)
        self._addresses = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
        self.address = ctypes.addressof(self._addresses)
        kinds = "".join("d" if type(a) is float else "q" for a in arguments)
        self._pack = struct.Struct(f"<{kinds}").pack_into

    def fill(self, arguments: Sequence[Argument]) -> None:
        values = [
            a
            if type(a) is int or type(a) is float
            else 0
            if a is None
            else cast(Tensor, a).data_ptr()
            for a in arguments
        ]
        self._pack(self._slots, 0, *values)


@functools.cache
def _module(source: str, device: int) -> Any:
    """The kernels of one source, loaded once."""
    from cuda.bindings import driver

    major, minor = torch.cuda.get_device_capability(device)
    return _checked(driver.cuModuleLoadData(_machine_code(source, f"sm_{major}{minor}")))


def _machine_code(source: str, architecture: str) -> bytes:
    """Compiled code, from disk if this very source was compiled before."""
    from cuda.bindings import nvrtc

    version = _checked(nvrtc.nvrtcVersion())
    words = f"{source}\n{architecture} {version}"
    folder = _cache_folder()
    kept = folder / f"{hashlib.sha256(words.encode()).hexdigest()[:32]}.kernel"
    closed = private_folder(folder)
    known = None if closed else read_sealed(kept)
    if known is not None:
        return known
    with _COMPILING:
        program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), b"slicewise.cu", 0, [], []))
        options = [b"--std=c++17", f"--gpu-architecture={architecture}".encode()]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(f"NVRTC could not compile for {architecture}:\n{log.decode()}")
        code = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
        _checked(nvrtc.nvrtcGetCUBIN(program, code))
        _checked(nvrtc.nvrtcDestroyProgram(program))
    trouble: object = closed
    if not closed:
        try:
            write_whole(kept, sealed(code))
        except OSError as error:
            trouble = error
    if trouble:
        warnings.warn(
            f"compiled CUDA code cannot be kept in {kept.parent} ({trouble}): every process will compile "
            f"its own; set XDG_CACHE_HOME to a folder that can be written",
            stacklevel=2,
        )
    return code


def _cache_folder() -> Path:
    return cache_base() / "slicewise" / "cuda"


def _checked(answer: tuple[Any, ...]) -> Any:
    """The results of a call of NVIDIA's bindings, whose first entry is its status."""
    status, *rest = answer
    if int(status) != 0:
        raise RuntimeError(f"CUDA: {status!r}")
    return rest[0] if len(rest) == 1 else tuple(rest)
