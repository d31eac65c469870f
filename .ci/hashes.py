"""Write requirements-hashed.txt: every pin of constraints.txt but torch, with the hash of its file.

    python .ci/hashes.py

For Python 3.11 on Linux x86-64. Files are downloaded, not installed. torch is left out: its builds for a CPU and for CUDA
are different files of one version.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = """\
# Every pin of constraints.txt but torch, with the hash of its file: Python 3.11, Linux x86-64. `python .ci/hashes.py` writes it.
# pip install --require-hashes --no-deps --requirement requirements-hashed.txt
"""


def pins(text: str) -> dict[str, str]:
    """Return the pinned versions of a requirements file, by name."""
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, flags=re.MULTILINE)
    return {name.lower().replace("_", "-"): version for name, version in found}


def main() -> None:
    """Download, hash and write."""
    wanted = pins((ROOT / "constraints.txt").read_text())
    wanted.pop("torch")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, version in sorted(wanted.items()):
            place = Path(folder, name)
            asked = ["--no-deps", "--disable-pip-version-check", "--quiet", "--dest", str(place)]
            subprocess.run(
                [sys.executable, "-m", "pip", "download", *asked, f"{name}=={version}"], check=True
            )
            (file,) = place.iterdir()
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    (ROOT / "requirements-hashed.txt").write_text(HEAD + "".join(lines))


if __name__ == "__main__":
    main()
