"""What can be checked of a release without a network; run by `make release-check` after `make check dist`.

Versions agree, the changelog has a dated section, the wheel is reproducible, its metadata renders, and the repository passes
the scientific-Python review. Tools that are not installed are named and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from email.parser import BytesParser
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent


def versions(tag: str | None) -> Iterator[str]:
    """Yield a sentence for each version that differs from that of the package."""
    package = _found(r'__version__ = "([^"]+)"', "src/slicewise/__init__.py")
    cited = _found(r"(?m)^version: (\S+)$", "CITATION.cff")
    if cited != package:
        yield f"CITATION.cff has version {cited}, the package {package}"
    newest = _found(r"(?m)^## (.+)$", "CHANGELOG.md")
    if not newest.startswith(f"{package} ("):
        yield f"the newest section of CHANGELOG.md is {newest!r}, the package is {package}"
    if tag is not None:
        if tag != f"v{package}":
            yield f"the tag is {tag}, the package {package}"
        if not re.search(r"\(\d{4}-\d{2}-\d{2}\)", newest):
            yield f"CHANGELOG.md says {newest!r}: a release has its date"


def floors(tag: str | None) -> Iterator[str]:
    """Yield requirements whose floor `make lowest` does not test."""
    del tag
    lowest = dict(
        re.findall(r"(?m)^([\w-]+)==(\S+)$", (ROOT / "constraints-lowest.txt").read_text())
    )
    lowest = {name.lower(): version for name, version in lowest.items()}
    text = (ROOT / "pyproject.toml").read_text()
    extras = text[
        text.index("[project.optional-dependencies]") : text.index("\ndocs = [")
    ]  # those after it are tools of developers
    for name, floor in re.findall(r'"([\w-]+)(?:\[\w+\])?>=([\d.]+)"', extras):
        if name in ("ray", "openvino", "imageio-ffmpeg"):
            continue  # installed for clusters, faces and films only
        tested = lowest.get(name.lower())
        if tested is None or not f"{tested}.".startswith(f"{floor}."):
            yield f"{name}>={floor} in pyproject.toml, {tested} in constraints-lowest.txt"


def reproducible(tag: str | None) -> Iterator[str]:
    """Yield a sentence if two builds of the wheel differ."""
    del tag
    epoch = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    hashes = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "build",
                    "--no-isolation",
                    "--wheel",
                    "--outdir",
                    folder,
                    str(ROOT),
                ],
                env={**os.environ, "SOURCE_DATE_EPOCH": epoch},
                capture_output=True,
                check=True,
            )
            (wheel,) = Path(folder).glob("*.whl")
            hashes.append(hashlib.sha256(wheel.read_bytes()).hexdigest())
    if len(set(hashes)) != 1:
        yield f"two builds of the wheel differ: {hashes}"


def metadata(tag: str | None) -> Iterator[str]:
    """Yield what the wheel's metadata lack."""
    del tag
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with ZipFile(wheel) as opened:
        (name,) = (n for n in opened.namelist() if n.endswith(".dist-info/METADATA"))
        found = BytesParser().parsebytes(opened.read(name))
    for field in ("Summary", "License-Expression", "Requires-Python", "Description-Content-Type"):
        if not found[field]:
            yield f"the wheel's metadata have no {field}"
    if "direct_url" in str(found) or any(
        " @ " in one for one in found.get_all("Requires-Dist", [])
    ):
        yield "a requirement names an address, which a registry refuses"


def review(tag: str | None) -> Iterator[str]:
    """Yield what the scientific-Python review and, if installed, the audit of workflows and requirements object to."""
    del tag
    asked = {
        "repo-review": ["."],
        "zizmor": [
            "--offline",
            "--no-progress",
            "--min-severity=medium",
            "--config=.github/zizmor.yml",
            ".github",
        ],
    }
    for tool, arguments in asked.items():
        program = shutil.which(
            tool, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        if program is None:
            print(f"  left out: {tool} is not installed (pip install '.[release]')")
            continue
        done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            yield f"{tool}: {(done.stdout + done.stderr).strip()[-2000:]}"


def _found(pattern: str, file: str) -> str:
    match = re.search(pattern, (ROOT / file).read_text())
    if match is None:
        raise SystemExit(f"{file} has nothing like {pattern}")
    return match[1]


def main() -> int:
    """Run every check; print a line for each, and what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="the tag of the release, such as v0.2.0")
    tag = parser.parse_args().tag
    checks: tuple[Callable[[str | None], Iterator[str]], ...]
    checks = (versions, floors, reproducible, metadata, review)
    failed = False
    for check in checks:
        troubles = list(check(tag))
        failed |= bool(troubles)
        print(f"{'FAILED' if troubles else 'ok    '} {check.__name__}")
        for trouble in troubles:
            print(f"  {trouble}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
