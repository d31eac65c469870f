"""Files are written whole or not at all, where and as their owner wants them."""

from __future__ import annotations

import errno
import os
import stat
import threading

import pytest

from slicewise.support.files import check_file_writable, write_whole


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    write_whole(file, "old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_new_file_obeys_the_umask(tmp_path, umask):
    write_whole(tmp_path / "new.csv", "1")
    assert mode_of(tmp_path / "new.csv") == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_an_existing_file_keeps_its_permissions(tmp_path, mode):
    file = tmp_path / "private.npz"
    file.write_text("old")
    file.chmod(mode)
    write_whole(file, "new")
    assert (file.read_text(), mode_of(file)) == ("new", mode)


def test_a_private_file_is_private_while_it_is_written(tmp_path, monkeypatch):
    file = tmp_path / "private.npz"
    file.write_text("old")
    file.chmod(0o600)
    seen = []
    replace = os.replace
    monkeypatch.setattr(
        "os.replace", lambda a, b: (seen.append(stat.S_IMODE(os.stat(a).st_mode)), replace(a, b))
    )
    write_whole(file, "new")
    assert seen == [0o600]


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "far").mkdir()
    link, real = tmp_path / "link.csv", tmp_path / "far" / "real.csv"
    link.symlink_to(real)  # to a file that is not there yet
    write_whole(link, "first")
    write_whole(link, "second")
    assert link.is_symlink()
    assert (real.read_text(), real.is_symlink()) == ("second", False)
    assert [file.name for file in real.parent.iterdir()] == ["real.csv"]


def test_a_named_pipe_is_written_into(tmp_path):
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "through")
    reader.join(10)
    assert heard == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_a_device(tmp_path):
    link = tmp_path / "nowhere.csv"
    link.symlink_to("/dev/null")
    write_whole(link, "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_the_longest_name_that_a_folder_takes(tmp_path):
    file = tmp_path / ("n" * 251 + ".csv")  # 255 bytes
    check_file_writable(file)
    write_whole(file, "1")
    assert file.read_text() == "1"
    with pytest.raises(OSError, match="n" * 252) as told:
        write_whole(tmp_path / ("n" * 252 + ".csv"), "1")
    assert told.value.errno == errno.ENAMETOOLONG


def test_errors_name_the_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: .*particles\.npy") as told:
        write_whole(tmp_path / "particles.npy", b"1")
    assert told.value.filename == str(tmp_path / "particles.npy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_device_is_named(tmp_path):
    link = tmp_path / "full.csv"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"full\.csv"):
        write_whole(link, "x" * 100_000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_protected_file_is_not_replaced(tmp_path):
    file = tmp_path / "kept.csv"
    file.write_text("old")
    file.chmod(0o444)
    for call in (lambda: write_whole(file, "new"), lambda: check_file_writable(file)):
        with pytest.raises(PermissionError, match=r"kept\.csv"):
            call()
    assert file.read_text() == "old"


def test_checking_creates_nothing(tmp_path):
    check_file_writable(tmp_path / "a" / "b" / "new.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        check_file_writable(tmp_path)
