"""`slicewise transfer` with maps that were kept and with folders: nothing silently ignored, nothing left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from skimage import data

from slicewise.color.color_transfer import ColorTransfer
from slicewise.lab.cli import main
from tests.command_line import accepted, refused
from tests.lab.images.test_files import noise, saved

QUICK = ("--palette", 24)
FITTED = ("--variant", "ebsw", "--space", "linear", "--smoothness", 3, "--seed", 7, *QUICK)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("slicewise.color.color_transfer._STEPS", {"natural": 5, "exact": 5})
    monkeypatch.setattr("slicewise.color.color_transfer._PALETTE_PIXELS", 500)
    saved("cat.png", data.chelsea()[::6, ::6].copy())
    saved("cup.png", data.coffee()[::6, ::6].copy())


def files():
    return sorted(path.name for path in Path().rglob("*"))


def frames(*last):
    """A folder of two frames, and perhaps another one."""
    Path("frames").mkdir()
    for i, pixels in enumerate((noise(9, 8, 3), noise(9, 8, 3), *last)):
        saved(f"frames/{i}.png", pixels)


@pytest.fixture
def _kept(capsys):
    accepted(
        capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", "--save-map", "m.npz", *FITTED
    )


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--variant", "sw"), "--variant sw: m.npz is a map, fitted with --variant ebsw"),
        (("--space", "oklab"), "--space oklab: m.npz is a map, fitted with --space linear"),
        (("--smoothness", 10), "--smoothness 10: m.npz is a map, fitted with --smoothness 3"),
        (("--seed", 0), "--seed 0: m.npz is a map, fitted with --seed 7"),
        (("--palette", 99), "--palette 99: m.npz is a map, fitted with --palette 24"),
        (("--save-map", "n.npz"), "m.npz is a map already: leave --save-map out"),
    ],
)
def test_a_map_is_not_fitted_again(capsys, given, said):
    """Also what would be the default is refused, where it was said."""
    before = files()
    line = refused(capsys, "transfer", "cat.png", "m.npz", "-o", "b.png", *given)
    assert said in line
    assert "leave" in line
    assert files() == before


@pytest.mark.usefixtures("_kept")
def test_what_a_map_was_fitted_with_may_be_said(capsys):
    said = json.loads(
        accepted(capsys, "transfer", "cat.png", "m.npz", "-o", "b.png", "--json", *FITTED)
    )
    assert (said["variant"], said["space"], said["seed"]) == ("ebsw", "linear", 7)
    assert Path("a.png").read_bytes() == Path("b.png").read_bytes()
    accepted(capsys, "transfer", "cat.png", "m.npz", "-o", "c.png", "--strength", 0.5)


def test_a_map_that_does_not_say_its_seed(capsys):
    cat = data.chelsea()[::9, ::9]
    ColorTransfer(palette=5).fit(cat, cat[::-1, :, ::-1]).save("m.npz")
    given = ("transfer", "cat.png", "m.npz", "-o", "b.png")
    assert "does not store its seed" in refused(capsys, *given, "--seed", 3)
    assert "fitted with --palette 5" in refused(capsys, *given, "--palette", 6)
    assert "seed" not in accepted(capsys, *given)


def test_a_map_says_all_it_was_fitted_with(tmp_path):
    made = ColorTransfer(
        "ebsw", space="srgb", palette=5, n_pixels=np.int32(99), smoothness=2, generator=np.int64(3)
    )
    cat = data.chelsea()[::9, ::9]
    for name in ("m.npz", "m.safetensors"):
        made.fit(cat, cat).save(tmp_path / name)
        again = ColorTransfer.load(tmp_path / name)
        for option in ("variant", "space", "palette", "n_pixels", "smoothness", "generator"):
            assert getattr(again, option) == getattr(made, option)


def test_a_refused_folder_leaves_nothing(capsys):
    """All of these are found out late: by reading the last frame, or by the fit."""
    saved("clear.png", np.zeros((4, 4, 4), np.uint8))
    frames(noise(9, 8, 3, dtype=np.uint8)[:5].copy())
    saved("mask.png", np.full((9, 8), 255, np.uint8))
    saved("black.png", np.zeros((9, 8), np.uint8))
    before = files()
    given = ("transfer", "frames", "cup.png", "-o", "out/new")
    assert "2.png has 8 × 5" in refused(capsys, *given, "--mask", "mask.png", *QUICK)
    assert "transparent" in refused(capsys, "transfer", "frames", "clear.png", "-o", "out/new")
    assert "--variant gsw: no step" in refused(capsys, *given, "--variant", "gsw")
    assert "both/c.gif" in refused(capsys, *given, "--compare", "both/c.gif")
    assert files() == before
    Path("frames/2.png").write_bytes(b"broken")
    for place in (("--compare", "shown/c.png"), ("--save-map", "maps/m.npz")):
        assert "2.png cannot be read as an image" in refused(capsys, *given, *place, *QUICK)
    Path("frames/2.png").unlink()
    assert "mask is black" in refused(capsys, *given, "--mask", "black.png", *QUICK)
    assert files() == [name for name in before if name != "2.png"]


def test_places_that_cannot_be_made_are_known_first(capsys):
    frames()
    for out in ("cat.png/new", "cat.png/new/deep"):
        line = refused(capsys, "transfer", "frames", "cup.png", "-o", out, *QUICK)
        assert f"--out {out}" in line
        assert "cannot be written" in line
    Path("mine").mkdir(mode=0o555)
    if not _can_write("mine"):  # root can, wherever
        assert "cannot be written" in refused(
            capsys, "transfer", "frames", "cup.png", "-o", "mine/new", *QUICK
        )


def _can_write(folder):
    try:
        Path(folder, "a").touch()
    except PermissionError:
        return False
    return True


def test_a_folder_goes_into_a_folder(capsys):
    frames()
    before = files()
    assert "give a folder" in refused(capsys, "transfer", "frames", "cup.png", "-o", "new.png")
    assert "give a folder" in refused(capsys, "transfer", "frames", "cup.png", "-o", "cat.png")
    assert files() == before
    Path("odd.png").mkdir()
    accepted(capsys, "transfer", "frames", "cup.png", "-o", "odd.png", *QUICK)
    assert len(list(Path("odd.png").iterdir())) == 2


def test_a_mask_says_what_is_judged(capsys):
    """What is left as it was says nothing of how near the rest came."""
    whole = np.concatenate([np.full((20, 30, 3), 50, np.uint8), np.zeros((60, 30, 3), np.uint8)])
    saved("half.png", whole)
    saved("far.png", np.full((9, 9, 3), (200, 60, 50), np.uint8))
    mask = np.zeros((80, 30), np.uint8)
    mask[:20] = 255
    saved("mask.png", mask)
    given = ("half.png", "far.png", "-o", "new.png", "--mask", "mask.png", "--json", *QUICK)
    said = json.loads(accepted(capsys, "transfer", *given))
    # SW_2 of two points is their distance over √3.
    assert said["sw2_before"] == pytest.approx(np.sqrt((150**2 + 10**2) / 3), rel=0.02)
    assert said["sw2"] < 3


def test_reading_frames_is_seen(capsys, monkeypatch):
    """Of a folder one may wait for that longest; a single photograph is read in no time."""
    frames()

    def seen(*given):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        assert main([str(word) for word in ("transfer", *given)]) == 0
        return capsys.readouterr().err

    kept = seen("frames", "cup.png", "-o", "a", "--save-map", "m.npz", *QUICK)
    assert re.search(r"read .*2/2", kept)
    assert re.search(r"read .*2/2", seen("frames", "m.npz", "-o", "b"))
    assert "read " not in seen("cat.png", "cup.png", "-o", "c.png", *QUICK)
    assert seen("frames", "cup.png", "-o", "d", "--quiet", *QUICK) == ""
