"""The demonstration from end to end, and its mistakes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import slicewise as sw
from slicewise.files import write_whole
from slicewise.lab import demo


def test_it_ends_in_a_page_with_every_variant(tmp_path, capsys):
    assert demo.main(["--out", str(tmp_path / "new" / "report")]) == 0
    page = (tmp_path / "new" / "report" / "index.html").read_text()
    assert (tmp_path / "new" / "report" / "distances.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "new" / "report" / "flows.png").read_bytes().startswith(b"\x89PNG")
    assert "Flows that are given no rate" in page
    printed = capsys.readouterr().out
    assert printed.count("no rate given, W2 <= 1e-3 after") == 3
    for name in sw.VARIANTS:
        assert f"<code>{name}</code>" in page
        assert f"\n  {name} " in printed
    assert "http" not in page, "the page must work offline"


def test_mistakes_end_in_one_line(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert demo.main(["--out", str(tmp_path / "taken")]) == 2
    assert "is a file: name a folder" in capsys.readouterr().err
    assert demo.main(["--out", "/proc/nowhere"]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_help_says_what_it_does():
    out = subprocess.run(
        [sys.executable, "-m", "slicewise.lab.demo", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "every variant between two real point sets" in out.stdout


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    write_whole(file, "old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
