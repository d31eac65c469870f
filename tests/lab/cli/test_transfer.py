"""`slicewise transfer`: files in, files out, and nothing lost or half done in between."""

from __future__ import annotations

import functools
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from skimage import data
from skimage.color import rgb2lab

import slicewise
from slicewise.color.color_transfer import ColorTransfer, transfer
from slicewise.lab.cli import main
from slicewise.lab.cli.transfer import recolored
from slicewise.lab.images.frames import palette_sw2, palette_w2
from slicewise.lab.images.movies import Movie
from slicewise.support.files import write_whole
from tests.command_line import accepted, refused
from tests.lab.images.test_files import broken_files, noise, saved

KEYS = {
    *("out", "images", "height", "width", "sw2_before", "sw2", "seconds", "strength"),
    *("look", "keep_luminance", "variant", "space", "seed", "compare", "map", "preview", "strip"),
}
# A small palette flows quickly.
QUICK = ("--palette", 24)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # How far flows go is asked elsewhere, and few pixels are judged sooner.
    few = functools.partial(palette_w2, n=200)
    monkeypatch.setattr("slicewise.lab.images.palette_w2", few)
    monkeypatch.setattr("slicewise.color.color_transfer._STEPS", {"natural": 40, "exact": 40})
    monkeypatch.setattr("slicewise.color.color_transfer._PALETTE_PIXELS", 2000)
    saved("cat.png", data.chelsea()[::4, ::4].copy())
    saved("cup.png", data.coffee()[::4, ::4].copy())


def pixels(path):
    return np.asarray(Image.open(path))


def files():
    return sorted(path.name for path in Path().rglob("*"))


@pytest.mark.slow
def test_it_is_the_function(capsys):
    said = json.loads(accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "new.png", "--json"))
    assert set(said) == KEYS
    assert np.array_equal(
        pixels("new.png"), transfer(pixels("cat.png"), pixels("cup.png"), generator=0)
    )
    assert said["sw2"] == palette_sw2(pixels("new.png"), pixels("cup.png"))
    assert said["sw2"] < 0.4 * said["sw2_before"]
    given = ("transfer", "cat.png", "cup.png", "-o", "new.png", "--json", "--exact", "--force")
    said = json.loads(accepted(capsys, *given))
    assert said["w2"] == palette_w2(pixels("new.png"), pixels("cup.png"), 0, n=200)
    assert 0 < said["w2_floor"] == palette_w2(pixels("cup.png"), pixels("cup.png"), 0, n=200)


def test_what_is_said(capsys):
    out = accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "new.png", *QUICK)
    assert out.startswith("written       new.png, 113 × 75, in ")
    found = palette_sw2(pixels("new.png"), pixels("cup.png"))
    assert f" before, {found:.1f} after\n" in out
    assert "natural, sw, strength 1, seed 0" in out
    number = accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "n.png", "--quiet", *QUICK)
    assert 0 < float(number) < 100


def test_options_are_passed_on(capsys):
    given = ("--variant", "ebsw", "--space", "linear", "--smoothness", 3, "--strength", 0.5)
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "new.png", *given, "--seed", 7, *QUICK)
    options = {"space": "linear", "smoothness": 3, "palette": 24, "generator": 7}
    wanted = transfer(pixels("cat.png"), pixels("cup.png"), "ebsw", strength=0.5, **options)
    assert np.array_equal(pixels("new.png"), wanted)


def test_no_strength_and_no_difference_change_nothing(capsys):
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", "--strength", 0, *QUICK)
    assert np.array_equal(pixels("a.png"), pixels("cat.png"))
    accepted(capsys, "transfer", "cat.png", "cat.png", "-o", "b.png")
    assert np.abs(pixels("b.png").astype(int) - pixels("cat.png")).max() <= 1


def test_a_mask(capsys):
    mask = np.zeros(pixels("cat.png").shape[:2], np.uint8)
    mask[:, 60:] = 255
    saved("mask.png", mask)
    accepted(
        capsys, "transfer", "cat.png", "cup.png", "-o", "new.png", "--mask", "mask.png", *QUICK
    )
    new, old = pixels("new.png"), pixels("cat.png")
    assert np.array_equal(new[:, :60], old[:, :60])
    assert (new[:, 60:] != old[:, 60:]).mean() > 0.9
    saved("small.png", mask[:5])
    line = refused(capsys, "transfer", "cat.png", "cup.png", "-o", "b.png", "--mask", "small.png")
    assert "the mask has 113 × 5 pixels, cat.png has 113 × 75" in line


def test_a_map_is_used_again(capsys):
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", "--save-map", "m.npz", *QUICK)
    accepted(capsys, "transfer", "cat.png", "m.npz", "-o", "b.png")
    assert np.array_equal(pixels("a.png"), pixels("b.png"))
    assert np.array_equal(pixels("a.png"), ColorTransfer.load("m.npz").transform(pixels("cat.png")))
    accepted(
        capsys, "transfer", "cat.png", "cup.png", "-o", "c.png", "--save-map", "m.cube", *QUICK
    )
    assert Path("m.cube").read_text().count("\n") == 33**3 + 2
    accepted(capsys, "transfer", "cat.png", "m.cube", "-o", "d.png")
    # A table ends at black and white, where displacements of a map may lead further.
    apart = np.abs(pixels("d.png").astype(int) - pixels("c.png"))
    assert apart.mean() < 0.1
    assert apart.max() <= 4


@pytest.mark.slow
def test_a_folder_gets_one_map(capsys):
    whole = pixels("cat.png")
    Path("frames").mkdir()
    for i, part in enumerate((whole[:40], whole[30:70])):
        saved(f"frames/{i}.png", part.copy())
    given = ("transfer", "frames", "cup.png", "-o", "out/new", *QUICK)
    said = json.loads(accepted(capsys, *given, "--compare", "both.png", "--json"))
    assert said["images"] == 2
    first, second = pixels("out/new/0.png"), pixels("out/new/1.png")
    # Frames overlap by ten rows; away from the borders, which blur sees, they agree.
    assert np.abs(first[36:40].astype(int) - second[6:10]).mean() < 2
    assert "0.png exists" in refused(capsys, *given)
    Path("empty").mkdir()
    assert "holds no image" in refused(capsys, "transfer", "empty", "cup.png", "-o", "o", *QUICK)


def test_kinds_are_kept(capsys):
    saved("gray.png", data.camera()[::8, ::8].copy())
    clear = np.concatenate([pixels("cat.png"), noise(75, 113, 1)], axis=2)
    saved("clear.png", clear)
    deep = pixels("cat.png").astype(np.uint16) * 257
    tifffile.imwrite("deep.tif", deep, photometric="rgb")
    for source, out in (("gray.png", "g.jpg"), ("clear.png", "c.png"), ("deep.tif", "d.tif")):
        accepted(capsys, "transfer", source, "cup.png", "-o", out, *QUICK)
    assert pixels("g.jpg").shape == (64, 64, 3)
    assert np.array_equal(pixels("c.png")[:, :, 3], clear[:, :, 3])
    assert tifffile.imread("d.tif").dtype == np.uint16
    for source, out, said in (
        ("clear.png", "c.jpg", "transparent"),
        ("deep.tif", "d.jpg", "16 bits"),
    ):
        assert said in refused(capsys, "transfer", source, "cup.png", "-o", out, *QUICK)
        assert not Path(out).exists()


@pytest.mark.slow
def test_tiny_and_constant_images(capsys):
    saved("dot.png", np.array([[[9, 99, 199]]], np.uint8))
    saved("flat.png", np.full((6, 5, 3), 77, np.uint8))
    for source in ("dot.png", "flat.png", "cat.png"):
        for target in ("dot.png", "flat.png"):
            accepted(capsys, "transfer", source, target, "-o", "new.png", "--force", *QUICK)
            wanted = pixels(target)[0, 0].astype(int)
            assert np.abs(pixels("new.png").reshape(-1, 3).mean(0) - wanted).max() < 6


def test_a_map_meets_a_broken_frame_before_it_writes(capsys):
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", "--save-map", "m.npz", *QUICK)
    Path("frames").mkdir()
    saved("frames/0.png", pixels("cat.png"))
    saved("frames/1.jpg", noise(5, 7, 3))
    saved("frames/2.bmp", noise(5, 7, 3))
    Path("frames/2.bmp").write_bytes(b"broken")
    assert "2.bmp cannot be read" in refused(capsys, "transfer", "frames", "m.npz", "-o", "out")
    for name in ("1.jpg", "2.bmp"):
        Path("frames", name).unlink()
    Path("frames/1.png").write_bytes(b"broken")
    assert "1.png cannot be read as an image" in refused(
        capsys, "transfer", "frames", "m.npz", "-o", "out"
    )
    assert not Path("out").exists()
    saved("frames/1.png", pixels("cat.png")[:50].copy())
    saved("mask.png", np.full(pixels("cat.png").shape[:2], 255, np.uint8))
    given = ("transfer", "frames", "m.npz", "-o", "out", "--mask", "mask.png")
    assert "1.png has 113 × 50" in refused(capsys, *given)
    assert not Path("out").exists()


def test_a_map_tells_what_it_was_fitted_by(capsys):
    given = ("--save-map", "m.npz", "--variant", "ebsw", "--space", "linear", *QUICK)
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", *given)
    said = json.loads(accepted(capsys, "transfer", "cat.png", "m.npz", "-o", "b.png", "--json"))
    assert (said["variant"], said["space"]) == ("ebsw", "linear")


def test_stopped_between_frames(capsys, monkeypatch):
    Path("frames").mkdir()
    for i in range(3):
        saved(f"frames/{i}.png", pixels("cat.png"))

    def stopped(source, place):
        if str(place).endswith("1.png"):
            raise KeyboardInterrupt
        os.rename(source, place)

    monkeypatch.setattr("os.replace", stopped)
    given = ["transfer", "frames", "cup.png", "-o", "out", "--palette", "24", "--save-map", "m.npz"]
    assert main(given) == 130
    assert capsys.readouterr().out == ""
    assert [path.name for path in Path("out").iterdir()] == ["0.png"]
    assert np.array_equal(ColorTransfer.load("m.npz").transform(pixels("cat.png")), pixels("out/0.png"))  # fmt: skip
    assert pixels("out/0.png").shape == pixels("cat.png").shape


def test_an_empty_frame_among_others(capsys):
    Path("frames").mkdir()
    saved("frames/0.png", np.dstack([pixels("cat.png"), np.full((75, 113), 255, np.uint8)]))
    saved("frames/1.png", np.zeros((75, 113, 4), np.uint8))
    out = accepted(capsys, "transfer", "frames", "cup.png", "-o", "out", *QUICK)
    assert "nan" not in out
    assert not pixels("out/1.png")[:, :, 3].any()
    assert (pixels("out/0.png")[:, :, :3] != pixels("cat.png")).mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", broken_files())
@pytest.mark.parametrize("place", ["source", "target", "mask", "frame"])
def test_what_cannot_be_read_writes_nothing(capsys, name, place):
    content, said = broken_files()[name]
    Path(name).write_bytes(content)
    given = {
        "source": (name, "cup.png"),
        "target": ("cat.png", name),
        "mask": ("cat.png", "cup.png", "--mask", name),
        "frame": ("frames", "cup.png"),
    }[place]
    if place == "frame":
        if name.endswith((".eps", ".gif")):
            pytest.skip("no frame: its name is not that of one")
        Path("frames").mkdir()
        saved("frames/0.png", pixels("cat.png"))
        Path("frames", name).write_bytes(content)
    before = files()
    line = refused(
        capsys, "transfer", *given, "-o", "out" if place == "frame" else "out.png", *QUICK
    )
    assert name in line
    assert said in line
    assert files() == before


def test_all_transparent_is_refused(capsys):
    saved("clear.png", np.zeros((4, 4, 4), np.uint8))
    for given in (("clear.png", "cup.png"), ("cat.png", "clear.png")):
        assert "transparent all over" in refused(capsys, "transfer", *given, "-o", "a.png", *QUICK)
    assert not Path("a.png").exists()


def test_nothing_is_written_over(capsys):
    given = ("transfer", "cat.png", "cup.png", "-o", "new.png", *QUICK)
    accepted(capsys, *given)
    Path("new.png").write_bytes(b"mine")
    assert "new.png exists: give another name, or --force" in refused(capsys, *given)
    assert Path("new.png").read_bytes() == b"mine"
    for option, file in (("--compare", "c.png"), ("--save-map", "m.npz")):
        Path(file).write_bytes(b"mine")
        assert f"{file} exists" in refused(
            capsys, "transfer", "cat.png", "cup.png", "-o", "b.png", option, file, *QUICK
        )
    accepted(capsys, *given, "--force")
    assert pixels("new.png").shape == pixels("cat.png").shape


def test_a_failed_write_leaves_what_was_there(capsys, monkeypatch):
    Path("new.png").write_bytes(b"mine")

    def full(path, content):
        monkeypatch.setattr("os.replace", no_room)
        write_whole(path, content)

    def no_room(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slicewise.lab.cli.transfer.write_whole", full)
    before = files()
    line = refused(capsys, "transfer", "cat.png", "cup.png", "-o", "new.png", "--force", *QUICK)
    assert "No space left" in line
    assert Path("new.png").read_bytes() == b"mine"
    assert files() == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("none.png", "cup.png", "-o", "a.png"), "no such file"),
        (("cat.png", "none.png", "-o", "a.png"), "no such file"),
        (("cat.png", "cup.png"), "--out"),
        (("cat.png", "cup.png", "-o", "a.txt"), "ends in .png"),
        (("cat.png", "cup.png", "-o", "."), "ends in .png"),
        (("cat.png", "cup.png", "-o", "a.png", "--strength", "2"), "--strength 2"),
        (("cat.png", "cup.png", "-o", "a.png", "--strength", "nan"), "--strength nan"),
        (("cat.png", "cup.png", "-o", "a.png", "--variant", "sww"), "'sw'"),
        (("cat.png", "cup.png", "-o", "a.png", "--space", "rgb"), "'srgb'"),
        (("cat.png", "cup.png", "-o", "a.png", "--seed", "-1"), "--seed -1"),
        (("cat.png", "cup.png", "-o", "a.png", "--palette", "0"), "palette = 0"),
        (("cat.png", "cup.png", "-o", "a.png", "--smoothness", "0"), "smoothness = 0"),
        (("cat.png", "cup.png", "-o", "a.png", "--compare", "a.png"), "must be different files"),
        (("cat.png", "cup.png", "-o", "a.png", "--compare", "b.gif"), "--compare b.gif"),
        (("cat.png", "cup.png", "-o", "a.png", "--save-map", "b.pkl"), "--save-map b.pkl"),
        (("cat.png", "cup.png", "-o", "a.png", "--json", "--quiet"), "choose one"),
        (("cat.png", "cup.png", "-o", "a.png", "--look", "exakt"), "'exact'"),
        (("cat.png", "cup.png", "-o", "a.png", "--feather", "-1"), "--feather -1"),
        (("cat.png", "cup.png", "-o", "a.png", "--cube-size", "17"), "give 33 or 65"),
        (("cat.png", "cup.png", "--preview", "p.gif"), "--preview p.gif"),
        (("cat.png", "cup.png", "--preview", "p.png", "--strip", "s.png"), "--out is missing"),
        (
            ("cat.png", "cup.png", "-o", "a.png", "--region", "cat.png:none.png"),
            "two files that exist",
        ),
        (("cat.png", "cup.png", "cup.png", "-o", "a.png"), "several sources"),
    ],
)
def test_mistakes(capsys, given, said):
    before = files()
    assert said in refused(capsys, "transfer", *given)
    assert files() == before


def test_compare_shows_all_three(capsys):
    given = ("transfer", "cat.png", "cup.png", "-o", "new.png", "--compare", "both.png", *QUICK)
    accepted(capsys, *given)
    with Image.open("both.png") as image:
        width = image.width
    widths = [
        round(360 * p.shape[1] / p.shape[0]) for p in map(pixels, ("cat.png", "new.png", "cup.png"))
    ]
    assert width == sum(widths) + 4 * 12


def test_several_files_and_folders(capsys):
    Path("frames").mkdir()
    saved("frames/a.png", pixels("cat.png")[:40].copy())
    said = json.loads(accepted(capsys, "transfer", "cat.png", "frames", "cup.png", "-o", "out", "--json", *QUICK))  # fmt: skip
    assert said["images"] == 2
    assert pixels("out/cat.png").shape == pixels("cat.png").shape
    assert pixels("out/a.png").shape == (40, 113, 3)
    saved("frames/cat.png", pixels("cat.png"))
    given = ("transfer", "cat.png", "frames", "cup.png", "-o", "new", *QUICK)
    assert "two sources have one name" in refused(capsys, *given)


@pytest.mark.slow
def test_a_preview_shows_looks_and_strengths(capsys):
    accepted(capsys, "transfer", "cat.png", "cup.png", "--preview", "p.png", *QUICK)
    with Image.open("p.png") as image:
        assert image.width == 4 * (320 + 6) + 6
    assert not Path("new.png").exists()
    given = ("transfer", "cat.png", "cup.png", "-o", "new.png", "--strip", "s.png", *QUICK)
    accepted(capsys, *given)
    with Image.open("s.png") as image:
        assert len({image.getpixel((x, 40)) for x in range(0, 960, 8)}) == 8


def test_regions_keep_their_colors_apart(capsys):
    """The upper half of the source to the red half of the target, and so on: nothing crosses."""
    halves = np.full((40, 30, 3), 60, np.uint8)
    halves[20:] = 180
    saved("source.png", halves)
    colors = np.zeros((10, 10, 3), np.uint8)
    colors[:5], colors[5:] = (200, 0, 0), (0, 0, 200)
    saved("target.png", colors)
    for name, size in (("s", 40), ("t", 10)):
        mask = np.zeros((size, 30 if name == "s" else 10), np.uint8)
        mask[: size // 2] = 255
        saved(f"{name}-up.png", mask)
        saved(f"{name}-down.png", 255 - mask)
    given = ("transfer", "source.png", "target.png", "-o", "new.png", *QUICK)
    accepted(capsys, *given, "--region", "s-up.png:t-up.png", "--region", "s-down.png:t-down.png")
    assert np.abs(pixels("new.png")[2].astype(int) - (200, 0, 0)).max() <= 2
    assert np.abs(pixels("new.png")[-2].astype(int) - (0, 0, 200)).max() <= 2
    line = refused(
        capsys, *given, "--force", "--region", "s-up.png:t-up.png", "--save-map", "m.npz"
    )
    assert "--region has masks and maps of its own" in line
    given = ("transfer", "source.png", "target.png", "-o", "t.png", "--target-mask", "t-down.png", *QUICK)  # fmt: skip
    accepted(capsys, *given)
    assert pixels("t.png")[:, :, 0].max() <= 2


def test_luminance_is_kept(capsys):
    given = ("transfer", "cat.png", "cup.png", "-o", "new.png", "--keep-luminance", *QUICK)
    accepted(capsys, *given)
    before, after = (rgb2lab(pixels(name))[..., 0] for name in ("cat.png", "new.png"))
    assert np.quantile(np.abs(before - after), 0.95) < 3
    assert np.abs(pixels("new.png").astype(int) - pixels("cat.png")).mean() > 5


def test_movies_need_ffmpeg_or_say_so(capsys, monkeypatch):
    Path("clip.mp4").write_bytes(b"no movie")
    given = ("transfer", "clip.mp4", "cup.png", "-o", "new.mp4")
    monkeypatch.setattr("slicewise.lab.images.movies.find_encoder", lambda _: None)
    assert "pip install 'slicewise[video]'" in refused(capsys, *given)
    assert "--mask is for photographs" in refused(capsys, *given, "--mask", "cat.png")
    assert "--out a.png" in refused(capsys, *given[:3], "-o", "a.png")


def test_frames_of_a_movie_come_in_order_by_the_map_of_their_shot():
    read = []

    class Adds:
        def __init__(self, number):
            self.number = number

        def transform(self, frame, strength):
            time.sleep(
                0.02 if frame[0, 0, 0] % 2 else 0
            )  # later frames are done before earlier ones
            return frame + np.uint8(strength * self.number)

    def frames():
        for index in range(7):
            read.append(index)
            yield np.full((2, 2, 3), index, np.uint8)

    shots = [range(3), range(3, 4), range(4, 7)]
    threads = torch.get_num_threads()
    found = recolored(frames(), shots, [Adds(10), Adds(20), Adds(30)], {"strength": 2})
    before, after = next(found)
    assert len(read) <= threads + 1  # few are in memory
    pairs = [(before, after), *found]
    assert [int(one[0, 0, 0]) for one, _ in pairs] == list(range(7))
    assert [int(one[0, 0, 0]) for _, one in pairs] == [20, 21, 22, 43, 64, 65, 66]
    assert torch.get_num_threads() == threads


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.slow
def test_a_movie_gets_one_map_a_shot(capsys):
    """Two shots of pans over photographs: the cut is found, and flat areas change no more than they did."""
    one, two = data.chelsea()[:120, :200], data.coffee()[100:220, 100:300]
    frames = [np.roll(one, i, axis=1) for i in range(6)] + [
        np.roll(two, i, axis=1) for i in range(6)
    ]
    raw = b"".join(np.ascontiguousarray(frame).tobytes() for frame in frames)
    command = "ffmpeg -loglevel error -f rawvideo -pix_fmt rgb24 -s 200x120 -r 10 -i pipe: -pix_fmt yuv420p clip.mp4"  # fmt: skip
    subprocess.run(command.split(), input=raw, check=True)
    said = json.loads(accepted(capsys, "transfer", "clip.mp4", "cup.png", "-o", "new.mp4", "--json", *QUICK))  # fmt: skip
    assert (said["images"], said["shots"]) == (12, 2)
    again = Movie.open(Path("new.mp4"))
    assert (again.width, again.height, again.rate) == (200, 120, 10)
    assert len(list(again.frames())) == 12
    assert "new.mp4 exists" in refused(capsys, "transfer", "clip.mp4", "cup.png", "-o", "new.mp4")
    Path("bad.mp4").write_bytes(b"no movie")
    assert "cannot be read as a movie" in refused(capsys, "transfer", "bad.mp4", "cup.png", "-o", "b.mp4")  # fmt: skip


@pytest.mark.slow
def test_twelve_megapixels(tmp_path):
    """Under 20 s of processors and 1 GB, the start of Python and the files counted in; seconds of a processor, whoever shares it."""
    rng = np.random.default_rng(0)
    large = np.asarray(
        Image.fromarray(data.coffee()).resize((4243, 2829), Image.Resampling.BICUBIC)
    )
    grain = rng.integers(-2, 3, large.shape, dtype=np.int8)
    Image.fromarray(np.clip(large + grain, 0, 255).astype(np.uint8)).save("large.jpg", quality=95)
    # The process tells its own peak: what the system counts for it includes that of these tests, from before its start.
    tells = "import sys; from slicewise.lab.cli import main; status = main(sys.argv[1:]); "
    tells += "print(*[s.split()[1] for s in open('/proc/self/status') if 'VmHWM' in s]); sys.exit(status)"
    call = [sys.executable, "-c", tells, "transfer", "large.jpg", "cat.png"]
    source = {"PYTHONPATH": str(Path(slicewise.__file__).parents[1])}
    warm = [*call[:4], "cup.png", "cat.png", "-o", "warm.png"]
    subprocess.run(warm, check=True, capture_output=True, env=source)  # kernels are compiled once
    running = subprocess.Popen(
        [*call, "-o", "out.jpg"], stdout=subprocess.PIPE, env=source, text=True
    )
    assert running.stdout is not None
    peak = 1024 * int(running.stdout.read().split()[-1])
    running.stdout.close()
    # Of this process alone: others that the tests started may have taken more.
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    assert used.ru_utime + used.ru_stime < 20
    assert peak < 1e9
    assert pixels("out.jpg").shape == (2829, 4243, 3)


def test_jpeg_is_written_as_fine_as_it_gets(capsys):
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.jpg", *QUICK)
    accepted(capsys, "transfer", "cat.png", "cup.png", "-o", "a.png", *QUICK)
    image = Image.open(io.BytesIO(Path("a.jpg").read_bytes()))
    assert [component[1:3] for component in image.layer] == [(1, 1)] * 3  # colors at full size
    assert np.abs(pixels("a.jpg").astype(int) - pixels("a.png")).mean() < 3
