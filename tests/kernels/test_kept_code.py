"""Compiled code is loaded from a folder of the user alone, and only as it was written."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slicewise.kernels.kept_code import private_folder, read_sealed, sealed

CODE = """
import logging, sys
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
import torch, slicewise as sw
x, y = torch.arange(12.0).reshape(6, 2), torch.ones(6, 2)
print(float(sw.sliced_wasserstein(x, y, generator=1, backend="numba")))
"""


def run(folder):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    said = subprocess.run(
        [sys.executable, "-c", CODE], env=env, capture_output=True, text=True, check=True
    )
    lines = said.stdout.strip().splitlines()
    return float(lines[-1]), "\n".join(lines[:-1])


def test_code_that_was_changed_is_not_loaded(tmp_path, caplog):
    caplog.set_level(
        logging.WARNING, logger="slicewise"
    )  # trials in this process may have made it quiet
    place = tmp_path / "a.kernel"
    place.write_bytes(sealed(b"machine code"))
    assert read_sealed(place) == b"machine code"
    for damage in (b"", b"machine code", sealed(b"machine code")[:-1], sealed(b"x")[:20]):
        place.write_bytes(damage)
        assert read_sealed(place) is None
        assert "a.kernel is damaged: it is compiled again" in caplog.text
        caplog.clear()
    assert read_sealed(tmp_path / "none") is None


def test_a_folder_that_others_can_write_is_not_used(tmp_path):
    assert private_folder(tmp_path / "new" / "one") is None
    assert (tmp_path / "new" / "one").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "can be written by others" in private_folder(tmp_path / "open")
    (tmp_path / "file").write_text("")
    assert "cannot be made" in private_folder(tmp_path / "file" / "x")


def test_a_folder_of_another_user_is_not_used(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir(mode=0o700)
    me = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: me + 1)
    assert "belongs to another user" in private_folder(tmp_path / "theirs")
    place = tmp_path / "theirs" / "a.kernel"
    place.write_bytes(sealed(b"code"))
    assert read_sealed(place) is None


@pytest.mark.slow
def test_a_damaged_cache_of_numba_is_compiled_again(tmp_path):
    pytest.importorskip("numba")
    value, said = run(tmp_path)
    assert "compiling kernels" in said
    assert run(tmp_path) == (value, "")  # found
    files = [path for path in Path(tmp_path).rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert len(files) > 1
    for path in files:
        held = bytearray(path.read_bytes())
        held[len(held) // 2] ^= 1
        path.write_bytes(held)
    again, said = run(tmp_path)
    assert again == value
    assert "is damaged: it is compiled again" in said
    assert run(tmp_path) == (value, "")
    # An open folder is not asked at all.
    (folder,) = {path.parent for path in files}
    folder.chmod(0o777)
    value_of_open, said = run(tmp_path)
    assert value_of_open == value
    assert "can be written by others" in said
