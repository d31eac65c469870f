"""Films of flows: which frames, which axes, and what is drawn."""

from __future__ import annotations

import io
import math
import stat
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image

from slicewise.lab.errors import UserError
from slicewise.lab.images.animation import as_gif, as_html, curve_at, curve_range
from slicewise.lab.images.figures import BLUE, ORANGE
from slicewise.lab.images.scenes import (
    choose_frames,
    film,
    log_ticks,
    seen_in,
    steps_to_record,
    ticks,
)
from slicewise.lab.images.video import Encoder
from tests.command_line import accepted

NAMES = ("start", "goal")


def cloud(n, *, seed=0, d=2):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def approach(x, y, left):
    """Particles on straight lines to y, with these shares of the way left, (M, n, d)."""
    return torch.stack([y + share * (x - y) for share in left])


def chosen(steps, particles, target, most):
    frames = choose_frames(steps, particles, target, seen_in(particles[0], target), most)
    return [step for step, _ in frames], torch.stack([x for _, x in frames])


def pixels(frame, color):
    """Where a picture has exactly a color, (k, 2): column and row."""
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
    rows, columns = np.nonzero((np.asarray(frame.convert("RGB")) == wanted).all(-1))
    return np.stack([columns, rows], axis=-1)


def in_plane(places):
    """Those of some pixels in the plane: below the legend, above the curve."""
    return places[(places[:, 1] > 64) & (places[:, 1] < 560)]


def frames_of(gif):
    with Image.open(io.BytesIO(gif)) as picture:
        for i in range(picture.n_frames):
            picture.seek(i)
            yield picture.convert("RGB")


def test_axes_follow_the_particles_and_zoom_in():
    x, y = cloud(100), 0.1 * cloud(100, seed=1) + 30
    particles = approach(x, y, np.geomspace(1, 1e-3, 40))
    shown = film(range(40), particles, y, names=NAMES)
    sides = shown.views[:, 1] - shown.views[:, 0]
    assert torch.equal(sides[:, :1].expand(-1, 2), sides) or torch.allclose(
        sides[:, 0], sides[:, 1]
    )
    # The first view holds both clouds, the last the target only; each frame holds all points it should.
    scale = shown.extent[0]
    assert float(sides[0, 0] * scale) > 30
    spread = float((y.amax(0) - y.amin(0)).max())
    assert spread < float(sides[-1, 0] * scale) < 1.3 * spread
    assert (shown.particles >= shown.views[:, :1]).all()
    assert (shown.particles <= shown.views[:, 1:]).all()
    # Smoothly: here all that is left shrinks by 16 % a frame, and so does the view at most.
    ratios = sides[1:, 0] / sides[:-1, 0]
    assert float(ratios.max()) <= 1 + 1e-9
    assert float(ratios.min()) > 0.83


@pytest.mark.parametrize("n", [12, 50, 300])
@pytest.mark.parametrize("d", [2, 3, 20])
def test_an_outlier_squeezes_nothing(n, d):
    x, y = cloud(n, d=d), cloud(n, seed=1, d=d) + 3
    plain = film([0, 1], torch.stack([x, y]), y, names=NAMES)
    x[0], y[0] = 1e4, -1e4
    shown = film([0, 1], torch.stack([x, y]), y, names=NAMES)
    extent = (shown.views[:, 1] - shown.views[:, 0]) * shown.extent
    usual = (plain.views[:, 1] - plain.views[:, 0]) * plain.extent
    assert float(extent.max()) < 1.5 * float(usual.max())
    first = next(iter(frames_of(as_gif(shown, fps=10))))
    # Both are marked at the border of the plane: by the filled arrow of the particle, the hollow one of the target.
    blue, orange = (in_plane(pixels(first, color)) for color in (BLUE, ORANGE))
    for places in (blue, orange):
        edges = (
            (places[:, 0] < 58) | (places[:, 0] > 532) | (places[:, 1] < 83) | (places[:, 1] > 546)
        )
        assert edges.any()


def test_a_few_far_points_are_no_outliers():
    x = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1e4, 0.0]])
    shown = film([0, 1], torch.stack([x, x]), x, names=NAMES)
    assert (shown.target >= shown.views[0, 0]).all()
    assert (shown.target <= shown.views[0, 1]).all()


def test_the_target_is_hollow_and_on_top():
    point = torch.zeros(1, 2)
    shown = film([0], point[None], point, names=NAMES)
    (picture,) = frames_of(as_gif(shown, fps=10))
    blue, orange = (in_plane(pixels(picture, color)) for color in (BLUE, ORANGE))
    center = blue.mean(0)
    assert np.abs(center - orange.mean(0)).max() < 1
    # The dot is whole, inside the ring; the ring is around it.
    assert (
        np.linalg.norm(blue - center, axis=1).max() < np.linalg.norm(orange - center, axis=1).min()
    )
    # Where a dot crosses the line of a ring, the ring is seen.
    beside = film([0], torch.tensor([[[0.0, 0.0], [0.011, 0.0]]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]]), names=NAMES)  # fmt: skip
    alone = film([0], torch.tensor([[[0.0, 0.0], [0.0, 0.0]]]), torch.tensor([[0.0, 0.0], [1.0, 1.0]]), names=NAMES)  # fmt: skip
    rings = [
        {tuple(p) for p in in_plane(pixels(next(iter(frames_of(as_gif(f, fps=10)))), ORANGE))}
        for f in (alone, beside)
    ]
    assert rings[0]
    assert rings[0] <= rings[1]


def test_frames_are_spaced_by_progress():
    # As flows do: most of the way in the first step, then slowly, then too little to be seen.
    left = np.concatenate([[1.0], 0.2 * 0.9 ** np.arange(60), np.full(200, 1e-9)])
    x, y = 3 * cloud(80), cloud(80, seed=1)
    particles = approach(x, y, left)
    steps, frames = chosen(range(len(left)), particles, y, 50)
    assert (steps[0], steps[-1]) == (0, len(left) - 1)
    assert 40 <= len(steps) <= 50
    far = (frames - frames[-1]).norm(dim=-1).mean(-1)
    falls = -torch.log(far + 0.01).diff()
    # Equal decrements, but that whole steps are taken where there are some: of 0.1 each, in the middle.
    # At the end, those less than a third of a pixel apart are left out.
    assert float(falls[:-3].max()) < 2.5 * float(falls.mean())
    between = [step for step in steps if 0 < step < 1]
    assert len(between) > 10
    share = torch.tensor(between, dtype=torch.float64)[:, None, None]
    assert torch.allclose(
        frames[1 : 1 + len(between)], particles[0].lerp(particles[1], share), atol=1e-12
    )


def test_no_frame_looks_like_the_one_before():
    x, y = cloud(40), cloud(40, seed=1)
    left = np.concatenate(
        [np.linspace(1, 0.5, 5), np.full(50, 0.5), np.linspace(0.5, 0, 5), np.zeros(50)]
    )
    steps, frames = chosen(range(len(left)), approach(x, y, left), y, 200)
    moves = (frames[1:] - frames[:-1]).norm(dim=-1).mean(-1)
    assert float(moves.min()) > 1e-3
    assert (steps[0], steps[-1]) == (0, len(left) - 1)
    assert not [step for step in steps if 5 <= step <= 53]
    # Nothing moves at all: the start and the end.
    assert chosen(range(9), x.expand(9, 40, 2), y, 60)[0] == [0, 8]
    assert chosen([0], x[None], y, 60)[0] == [0]


def test_a_run_that_does_not_settle_is_shown_all_the_way():
    x, y = cloud(40), cloud(40, seed=1)
    left = [1.0, 0.1] + [0.1 * (-1) ** t for t in range(500)]
    steps, _ = chosen(range(len(left)), approach(x, y, left), y, 60)
    assert sum(step > 100 for step in steps) >= 6


def test_a_jump_at_the_end_is_shown():
    x, y = cloud(40), cloud(40, seed=1)
    particles = torch.cat([approach(x, y, [1, 0.6, 0.5]), y.flip(0)[None]])
    steps, frames = chosen([0, 1, 2, 2], particles, y, 30)
    shown = film(steps, frames, y, names=NAMES)
    assert shown.labels[-1] == "end, step 2"
    assert "step 2 → end" in shown.labels
    assert shown.whole_steps == [0, 1, 2]
    assert torch.equal(frames[-1], y.flip(0))
    # The curve drops at the last step, and does not go beyond it.
    shown = film(steps, frames, y, names=NAMES, w2=np.linspace(1, 0.1, len(steps)).tolist())
    assert max(step for step, _ in shown.curve[1]) == 2
    assert as_gif(shown, fps=10).startswith(b"GIF89a")


def test_a_diverged_run_leaves_the_view():
    x, y = cloud(40), cloud(40, seed=1)
    particles = torch.stack([x * 10.0**k for k in (0, 1, 50, 200, 300)])
    steps, frames = chosen(range(5), particles, y, 30)
    assert steps[-1] == 4
    shown = film(steps, frames, y, names=NAMES, w2=[1.0] * (len(steps) - 1) + [math.inf])
    assert torch.isfinite(shown.views).all()
    home = torch.cat([x, y])
    extent = float((home.amax(0) - home.amin(0)).max())
    assert float(((shown.views[:, 1] - shown.views[:, 0]) * shown.extent).max()) < 4 * extent
    assert as_gif(shown, fps=10).startswith(b"GIF89a")
    assert "outside" in as_html(shown, fps=10, title="a")


def test_thinned_sets_arrive_together():
    y = cloud(5000)
    x = y[torch.randperm(5000, generator=torch.Generator().manual_seed(2))]
    shown = film([0, 1], torch.stack([x + 1, x]), y, names=NAMES)
    away = torch.cdist(shown.target, shown.particles[-1]).amin(1)
    assert float(away.max()) < 1e-6
    assert shown.target.shape == (2000, 2)
    # If a part of the target is missed, it is shown.
    x = y.clone()
    x[:2500] = y[0]
    shown = film([0, 1], torch.stack([x + 1, x]), y, names=NAMES)
    away = torch.cdist(shown.target, shown.particles[-1]).amin(1)
    assert float((away > 1e-3).double().mean()) > 0.3


def test_numbers_at_the_axes():
    assert [text for _, text in ticks(-3.2, 4.1)] == ["-2", "0", "2", "4"]
    assert [text for _, text in ticks(999.5, 1001.2)] == ["999.5", "1000", "1000.5", "1001"]
    assert [text for _, text in ticks(0, 3e-7)] == ["0", "1e-07", "2e-07", "3e-07"]
    assert ticks(1.0, 1.0) == []
    assert ticks(-math.inf, 1.0) == []
    for low, high in ((1e-3, 5.0), (0.4, 0.9), (1e-12, 1e3)):
        marks = log_ticks(low, high)
        assert 1 <= len(marks) <= 6
        assert all(low <= value <= high for value, _ in marks)
    # Coordinates with many digits in common are written without them.
    x = cloud(50) + 1e7
    shown = film([0, 1], torch.stack([x, x]), x, names=NAMES)
    assert shown.axes == ("x − 10000000", "y − 10000000")
    low = float(shown.corner[0] + shown.extent[0] * shown.views[0, 0, 0]) - shown.base[0]
    assert abs(low) < 20


def test_the_curve_has_a_dot_for_each_frame():
    x = cloud(30)
    w2 = [1.0, 0.1, 1e-9]
    shown = film([0, 0.5, 4], x.expand(3, 30, 2), x, names=NAMES, w2=w2)
    assert [curve_at(shown, i) for i in range(3)] == [(0, 1.0), (0.5, 0.1), (4, 1e-9)]
    low, high = curve_range(w2)
    assert 1e-6 < low < 1e-5
    assert high > 1
    # Another distance, known at whole steps: frames in between are on the line.
    losses = ("sliced distance", [(0.0, 1.0), (1.0, 0.01), (2.0, 0.001)])
    shown = film([0, 0.5, 4], x.expand(3, 30, 2), x, names=NAMES, curve=losses)
    assert curve_at(shown, 1) == pytest.approx((0.5, 0.1))
    assert curve_at(shown, 2) == pytest.approx((2.0, 0.001))
    # The dot moves down and to the right.
    places = [pixels(f, BLUE) for f in frames_of(as_gif(shown, fps=10))]
    dots = [p[p[:, 1] > 575].mean(0) for p in places]
    assert dots[0][0] < dots[1][0] < dots[2][0]
    assert dots[0][1] < dots[1][1] < dots[2][1]
    # Only distances that are not finite: no curve.
    assert film([0], x[None], x, names=NAMES, w2=[math.inf]).curve is None


def test_steps_to_record_are_dense_early_and_late():
    for last in (0, 3, 100, 1000, 12345):
        for most in (2, 4, 16, 480):
            steps = steps_to_record(last, most)
            assert steps == sorted(set(steps))
            assert (steps[0], steps[-1]) == (0, last)
            assert len(steps) <= max(most, 2)
    steps = steps_to_record(100_000, 480)
    assert max(np.diff(steps)) <= math.ceil(100_000 / 239)
    assert steps[:10] == list(range(10))


def test_the_film_of_the_default_toy(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    accepted(capsys, "flow")
    gif = (tmp_path / "flow.gif").read_bytes()
    assert len(gif) < 1_000_000
    frames = [np.asarray(frame).astype(int) for frame in frames_of(gif)]
    assert 40 <= len(frames) <= 60
    with Image.open(io.BytesIO(gif)) as picture:
        picture.seek(len(frames) - 1)
        assert picture.info["duration"] == 2000
    for before, after in pairwise(frames):
        moved = (np.abs(before - after).sum(-1) > 60)[75:555]
        assert moved.sum() > 30, "points or axes move in every frame"
    assert (frames[0][2, 2] == 255).all(), "the background is white"


FAKE = """#!{python}
import sys
given = sys.argv
codec = given[given.index("-c:v") + 1]
raw = sys.stdin.buffer.read()
if codec not in {works}:
    sys.exit(f"Unknown encoder '{{codec}}'")
open(given[-1], "wb").write(f"{{codec}} {{given[given.index('-s') + 1]}} {{len(raw)}}".encode())
"""


def fake_ffmpeg(folder, works):
    program = folder / "ffmpeg"
    program.write_text(FAKE.format(python=sys.executable, works=works))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_an_encoder_takes_the_codec_it_has(tmp_path):
    pictures = [np.zeros((6, 4, 3), np.uint8)] * 5
    program = fake_ffmpeg(tmp_path, ["libopenh264", "libvpx"])
    assert Encoder(".mp4", program).encode(pictures, 12) == b"libopenh264 4x6 360"
    assert Encoder(".webm", program).encode(pictures, 12) == b"libvpx 4x6 360"
    program = fake_ffmpeg(tmp_path, [])
    with pytest.raises(UserError, match=r"cannot write a .mp4 video \(libx264: Unknown encoder"):
        Encoder(".mp4", program).encode(pictures, 12)


def test_videos_have_even_sides_and_hold_the_last_frame():
    from slicewise.lab.images.animation import as_video

    class Kept:
        def encode(self, pictures, fps):
            self.pictures = pictures
            return b"video"

    kept = Kept()
    x = cloud(10)
    shown = film([0, 1], torch.stack([x, x + 1]), x, names=NAMES, w2=[0.0, 1.0])
    counts = []
    assert as_video(shown, kept, fps=10, tick=lambda n, _: counts.append(n)) == b"video"
    assert len(kept.pictures) == 22
    assert all(side % 2 == 0 for side in kept.pictures[0].shape[:2])
    assert counts == [1, 2]
