"""`slicewise flow`: where particles end, and the film of how they got there."""

from __future__ import annotations

import html
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.optimize import linear_sum_assignment

from slicewise.flows import flow as run_flow
from slicewise.lab.cli import main
from slicewise.lab.images import find_encoder
from slicewise.lab.images.animation import as_gif
from slicewise.lab.images.scenes import SHOWN, film, log_spaced
from tests.command_line import accepted, refused

KEYS = {
    *(
        "ended",
        "by",
        "jump",
        "steps",
        "w2",
        "seconds",
        "variant",
        "recipe",
        "lr",
        "objective",
        "p",
        "seed",
    ),
    *("source", "target", "n", "m", "d", "worked_in", "device", "dtype", "frames", "shows"),
    *("out", "save"),
}
QUICK = ("--n", 12, "--frames", 3)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def found(capsys, *arguments):
    """The JSON object."""
    said = json.loads(accepted(capsys, "flow", *arguments, "--json", "--force"))
    assert set(said) == KEYS
    return said


def exact(x, y):
    """W_2 by an assignment."""
    costs = ((x[:, None] - y[None]) ** 2).sum(-1)
    return math.sqrt(costs[linear_sum_assignment(costs)].mean())


def film_in(path):
    """What the page plays."""
    page = path.read_text()
    return json.loads(re.search(r'id="film">(.*?)</script>', page, re.DOTALL)[1])


def points_of(numbers, grid):
    """Positions in the unit square, upwards, from those on the page."""
    flat = np.array(numbers).reshape(-1, 2) / grid
    return np.stack([flat[:, 0], 1 - flat[:, 1]], axis=-1)


def test_a_toy_arrives(capsys, tmp_path):
    said = found(capsys, "--n", 40, "--frames", 4, "--save", "end.npz", "--seed", 3)
    assert said["ended"] == "arrived"
    assert said["w2"] < 1e-6
    assert (said["n"], said["m"], said["d"]) == (40, 40, 2)
    with np.load("end.npz") as saved:
        assert set(saved) == {"particles", "source", "target"}
        assert exact(saved["particles"], saved["target"]) == pytest.approx(said["w2"], abs=1e-8)
        assert exact(saved["source"], saved["target"]) > 0.3
    assert said["frames"][0] == 0
    assert said["frames"][-1] == said["steps"]
    with Image.open(tmp_path / "flow.gif") as gif:
        assert gif.n_frames == len(said["frames"]) == 4
        assert gif.info["loop"] == 0
    assert (tmp_path / "flow.gif").stat().st_size < 100_000


def test_files_and_the_particles_that_are_saved(capsys, tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=15), rng.normal(size=15) + 5
    np.save("x.npy", x)
    np.save("y.npy", y)
    said = found(capsys, "x.npy", "y.npy", "--save", "end.npy", "--frames", 3)
    assert (said["source"], said["target"], said["d"]) == ("x.npy", "y.npy", 1)
    assert np.sort(np.load("end.npy").ravel()) == pytest.approx(np.sort(y), abs=1e-6)
    assert "share of samples below" in said["shows"]


def test_a_given_rate_makes_the_steps_of_its_formula(capsys):
    np.save("x.npy", [0.0, 1.0])
    np.save("y.npy", [4.0, 7.0])
    # In one dimension the gradient of SW_2² is 2 (x − y) / n: a rate of h shrinks what is left by 1 − h.
    said = found(
        capsys, "x.npy", "y.npy", "--lr", 0.25, "--steps", 3, "--save", "end.npy", "--frames", 9
    )
    assert (said["ended"], said["steps"], said["lr"]) == ("out of steps", 3, 0.25)
    assert said["frames"] == [0, 1, 2, 3]
    expected = np.array([4.0, 7.0]) - 0.75**3 * np.array([4.0, 6.0])
    assert np.load("end.npy").ravel() == pytest.approx(expected)
    assert said["w2"] == pytest.approx(0.75**3 * math.sqrt((16 + 36) / 2))


def test_unequal_sizes(capsys):
    rng = np.random.default_rng(0)
    np.save("x.npy", rng.normal(size=(10, 2)))
    np.save("y.npy", rng.normal(size=(7, 2)))
    said = found(capsys, "x.npy", "y.npy", "--steps", 5, "--frames", 2)
    assert (said["n"], said["m"], said["frames"]) == (10, 7, [0, 5])


def test_variants_and_their_options(capsys):
    said = found(
        capsys, *QUICK, "--steps", 2, "-v", "ebsw", "-O", "temperature=2", "--objective", "root"
    )
    assert said["recipe"] == "Recipe(Uniform(50), weighting=Energy(temperature=2))"
    assert said["objective"] == "root"
    found(capsys, *QUICK, "--steps", 2, "-O", "n_slices=5", "--dtype", "float32", "--p", 1.5)


def test_the_page(capsys, tmp_path):
    np.save("x.npy", [[0.0, 0.0], [1.0, 0.0]])
    np.save("y.npy", [[0.0, 1.0], [1.0, 1.0]])
    said = found(capsys, "x.npy", "y.npy", "-o", "new/folder/flow.html", "--frames", 3, "--fps", 5)
    page = (tmp_path / "new" / "folder" / "flow.html").read_text()
    assert "http" not in page, "the page must work offline"
    assert not re.search(r"\b(src|href|import|url)\b *[=(]", page)
    assert "prefers-reduced-motion" in page
    assert "color-scheme: light dark" in page
    data = film_in(tmp_path / "new" / "folder" / "flow.html")
    assert [step for step in data["steps"] if step == int(step)] == said["frames"]
    assert data["fps"] == 5
    dots = data["curve"]["dots"]
    assert len(data["particles"]) == len(data["w2"]) == len(dots) == len(data["steps"])
    assert len(data["views"]) == len(data["labels"]) == len(data["steps"])
    assert float(data["w2"][0]) == pytest.approx(1)
    assert data["colors"] is None
    start, end = (points_of(data["particles"][i], data["grid"]) for i in (0, -1))
    target = points_of(data["target"], data["grid"])
    assert start[:, 1].max() < target[:, 1].min(), "upwards is up"
    assert np.abs(np.sort(end, axis=0) - np.sort(target, axis=0)).max() < 1e-3


def test_hostile_names_are_text(capsys, tmp_path):
    evil = "<script>alert(1)<!-- $x_ \\.npy"
    np.save(evil, np.zeros((3, 2)))
    np.save("_'\"&{{ 7 * 7 }}.npy", np.ones((3, 2)))
    arguments = (evil, "_'\"&{{ 7 * 7 }}.npy", "--frames", 2)
    found(capsys, *arguments, "-o", "a.html")
    page = (tmp_path / "a.html").read_text()
    assert page.count("<script") == 2
    assert evil not in page
    assert evil in html.unescape(page)
    assert "{{ 7 * 7 }}" in page
    found(capsys, *arguments, "-o", "a.gif")
    np.save("日本.npy", np.ones((3, 2)))
    found(capsys, "日本.npy", evil, "--frames", 2)


def test_many_dimensions_are_seen_in_a_plane(capsys, tmp_path):
    said = found(capsys, *QUICK, "--d", 9, "-o", "a.html")
    assert said["worked_in"] == 2
    assert "the first two principal directions of 9 (100% of the variance)" in said["shows"]
    assert said["shows"] in (tmp_path / "a.html").read_text()
    np.save(
        "line.npy", np.outer(np.arange(4.0), [1, 2, 3])
    )  # of rank one: the plane has but one direction
    np.save("same.npy", np.ones((4, 3)))
    found(capsys, "line.npy", "same.npy", "--steps", 2, "--frames", 2)
    found(capsys, "same.npy", "same.npy", "--steps", 2, "--frames", 2)


def test_pixels_keep_their_colors(capsys, tmp_path):
    for name, color in (("red.png", (255, 0, 0)), ("blue.png", (0, 0, 255))):
        Image.new("RGB", (3, 2), color).save(name)
    said = found(capsys, "red.png", "blue.png", "-o", "a.html", "--frames", 2, "--samples", 4)
    assert said["n"] == 4
    colors = film_in(tmp_path / "a.html")["colors"]
    assert colors["particles"][0] == 4 * "ff0000"
    assert colors["target"] == colors["particles"][-1] == 4 * "0000ff"
    found(capsys, "red.png", "blue.png", "--frames", 2)
    np.save("plain.npy", np.eye(3))
    found(capsys, "plain.npy", "blue.png", "-o", "a.html", "--steps", 1)
    assert film_in(tmp_path / "a.html")["colors"] is None


def test_a_run_that_diverges_says_so(capsys):
    said = found(capsys, *QUICK, "--lr", 1e6, "--steps", 50, "-o", "a.html")
    assert (said["ended"], said["w2"]) == ("diverged", None)
    out = accepted(capsys, "flow", "--force", *QUICK, "--lr", 1e6, "--steps", 50)
    assert "the rate is too large; try --lr auto" in out
    assert accepted(capsys, "flow", "--force", *QUICK, "--lr", 1e6, "--steps", 50, "-q") == "inf\n"


def test_no_step_is_one_frame(capsys):
    assert found(capsys, *QUICK, "--steps", 0)["frames"] == [0]
    with Image.open("flow.gif") as gif:
        assert gif.n_frames == 1


def test_a_seed_gives_the_answer_again(capsys, tmp_path):
    first = accepted(capsys, "flow", "--force", *QUICK, "--steps", 3, "-q")
    picture = (tmp_path / "flow.gif").read_bytes()
    assert accepted(capsys, "flow", "--force", *QUICK, "--steps", 3, "-q") == first
    assert (tmp_path / "flow.gif").read_bytes() == picture
    assert accepted(capsys, "flow", "--force", *QUICK, "--steps", 3, "-q", "--seed", 1) != first


def test_what_a_person_reads(capsys):
    out = accepted(capsys, "flow", "--force", "--toy", "knot", *QUICK, "--save", "end.npy")
    for words in (
        "arrived by",
        "exact W_2 left",
        "knot (m = 12)",
        "flow.gif, 3 frames",
        "end.npy",
    ):
        assert words in out
    out = accepted(capsys, "flow", "--force", *QUICK, "--steps", 1)
    assert "out of steps after 1," in out
    assert float(accepted(capsys, "flow", "--force", *QUICK, "--quiet")) < 1e-6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("x.npy", "give both SOURCE and TARGET"),
        ("x.npy missing.npy", "there is no file"),
        ("x.npy y.npy --toy swiss", "files are given"),
        ("x.npy y.npy --n 3", "files are given"),
        ("x.npy y.npy --samples 4", "x.npy has only 3"),
        ("x.npy flat.npy", "of 1: give as many in both"),
        ("--samples 4", "use --n for a toy target"),
        ("--flatten", "are for files"),
        ("--toy swis", "did you mean 'swiss'"),
        ("--toy=", "--toy = '' is unknown"),
        ("--n 0", "--n = 0"),
        ("--d 1", "--d = 1"),
        ("--d 99999999999999", "too large for a toy target"),
        ("--steps -1", "--steps = -1"),
        ("--frames 1", "--frames = 1"),
        ("--fps 0", "--fps 0"),
        ("--fps nan", "--fps nan"),
        ("--fps 51", "up to 50"),
        ("--lr fast", "--lr fast: give auto, or a positive number"),
        ("--lr -1", "--lr -1"),
        ("--lr inf", "--lr inf"),
        ("--objective rot", "did you mean 'root'"),
        ("--p 0", "p = 0"),
        ("-v swx", "did you mean 'sw'"),
        ("-O lr=3", "option of variant 'sw' = 'lr' is unknown"),
        ("-o flow.avi", "ends in .gif or .html or .mp4 or .webm"),
        ("-o flow", "ends in .gif or .html"),
        ("-o taken.gif", "is a folder"),
        ("-o x.npy/flow.gif", "cannot be written"),
        ("-o /proc/nowhere/flow.gif", "cannot be written"),
        ("--save end.csv", "ends in .npy or .npz"),
        ("--save x.npy/end.npy", "cannot be written"),
        ("--frames 1001", "at most 1000"),
        ("--frames 1000 --n 200000 --steps 10000", "fewer --frames"),
        ("--json -q", "choose one"),
    ],
)
def test_mistakes_end_in_one_line(capsys, tmp_path, arguments, said):
    np.save("x.npy", np.zeros((3, 2)))
    np.save("y.npy", np.ones((3, 2)))
    np.save("flat.npy", np.ones(3))
    (tmp_path / "taken.gif").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert said in refused(capsys, "flow", *arguments.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_a_video_needs_an_encoder_and_says_so_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("slicewise.lab.images.video.find_spec", lambda _: None)
    monkeypatch.setattr("slicewise.flows.flow", None)
    for out in ("flow.mp4", "flow.WEBM"):
        said = refused(capsys, "flow", *QUICK, "-o", out)
        assert "install ffmpeg, or pip install 'slicewise[video]'" in said
        assert ".gif and .html need nothing" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["a.mp4", "a.webm"])
def test_a_video(capsys, tmp_path, out):
    if find_encoder(".mp4") is None:
        pytest.skip("no video encoder")
    said = found(capsys, *QUICK, "--steps", 3, "-o", out)
    assert said["frames"][-1] == 3
    head = (tmp_path / out).read_bytes()[:12]
    assert head[4:8] == b"ftyp" if out == "a.mp4" else head[:4] == b"\x1aE\xdf\xa3"


def test_the_bar_counts_from_the_first_step_on(capsys, monkeypatch):
    from rich.progress import Progress

    counts = []
    monkeypatch.setattr(Progress, "update", lambda *_, completed, words: counts.append(completed))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main(["flow", "--n", "12", "--steps", "4", "--frames", "3"])
    # The steps, the distances of two frames and two steps in between, then the frames.
    assert counts == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
    counts.clear()
    main(["flow", "--n", "12", "--steps", "4", "--frames", "3", "--quiet"])
    assert counts == []


def test_a_final_jump_has_its_own_frame(capsys, monkeypatch):
    """As of flows that end by an assignment: the last particles are not those of a step."""
    jumped = torch.arange(24.0, dtype=torch.float64).reshape(12, 2)

    def jumping(*given, **options):
        result = run_flow(*given, **options)
        result.particles = jumped
        return result

    monkeypatch.setattr("slicewise.flows.flow", jumping)
    said = found(capsys, *QUICK, "--steps", 2, "--frames", 20, "-o", "a.html")
    assert said["frames"] == [0, 1, 2]
    data = film_in(Path("a.html"))
    assert data["labels"][-1] == "end, step 2"
    assert data["labels"].count("step 2") == 1
    assert "step 2 → end" in data["labels"]
    corner, extent = np.array(data["corner"]), np.array(data["extent"])
    end = corner + extent * points_of(data["particles"][-1], data["grid"])
    assert np.abs(end - jumped.numpy()).max() < 1e-2


@pytest.mark.parametrize("out", ["a.gif", "a.html"])
def test_a_failed_write_leaves_the_old_film_and_nothing_else(capsys, tmp_path, monkeypatch, out):
    (tmp_path / out).write_text("old")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert "No space left" in refused(capsys, "flow", *QUICK, "--steps", 1, "-o", out, "--force")
    assert list(tmp_path.iterdir()) == [tmp_path / out]
    assert (tmp_path / out).read_text() == "old"


def test_many_points_are_thinned():
    particles, target = torch.rand(2, SHOWN + 500, 2), torch.rand(50, 2)
    shown = film([0, 1], particles, target, names=("a", "b"))
    assert shown.particles.shape == (2, SHOWN, 2)
    assert shown.target.shape == (50, 2)
    assert f"{SHOWN} particles and 50 of the target are shown" in shown.words


def test_far_particles_neither_stretch_nor_break_the_film():
    particles = torch.rand(2, 30, 2)
    particles[1] = 1e30
    target = torch.rand(20, 2)
    shown = film([0, 1], particles, target, names=("a", "b"), w2=[1.0, math.inf])
    assert ((shown.target >= 0) & (shown.target <= 1)).all()
    assert as_gif(shown, fps=10).startswith(b"GIF89a")


def test_frames_lie_denser_at_the_start():
    for last in (0, 1, 2, 9, 57, 1000, 10**6):
        for most in (2, 3, 10, 60):
            steps = log_spaced(last, most)
            assert steps == sorted(set(steps))
            assert (steps[0], steps[-1]) == (0, last)
            assert len(steps) == min(most, last + 1)
    gaps = np.diff(log_spaced(1000, 30))
    assert (np.diff(gaps) >= -1).all()


def test_help_shows_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = accepted(capsys, "flow", "--help")
    assert "slicewise flow --toy knot --d 50 -o knot.html" in out
    assert "[default: 300]" in out
