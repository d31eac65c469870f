"""The device that runs are made on, and the versions of the packages that results depend on."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import slicewise
from slicewise.lab.errors import UserError


def choose_device(asked: str) -> str:
    """Return the device to use.

    Args:
        asked: "auto" (CUDA if there is a device), "cpu", "cuda", or one of several, such as "cuda:1".

    Raises:
        UserError: there is no such device.
    """
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    kind, _, index = asked.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()) or asked.endswith(":"):
        raise UserError(f"--device {asked}: give auto, cpu, cuda, or one of several, cuda:1")
    if kind == "cuda" and int(index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        found = f"there are {count}" if count else "there is no CUDA device here; use --device cpu"
        raise UserError(f"--device {asked}: {found}")
    return asked


def device_name(device: str) -> str:
    """Return the name of a device, which is stored with each run."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"


@functools.cache
def commit_of(package: Path) -> str | None:
    """Return the commit of the checkout that a package is imported from, None if it is an installed copy.

    Ends in "-dirty" if files differ from that commit.
    """
    root = package.parent.parent
    if not (root / ".git").exists():
        return None
    asked = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    try:
        found = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def versions() -> dict[str, str]:
    """Return the versions of the packages that results depend on, and the commit of this one if it is a checkout."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    commit = commit_of(Path(slicewise.__file__).parent)
    if commit is not None:
        found["commit"] = commit
    for package in ("slicewise", "numpy", "numba", "POT", "scipy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
