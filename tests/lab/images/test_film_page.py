"""The page of a film in a browser: nothing complains, it plays, and the slider moves points, axes and the curve."""

from __future__ import annotations

import statistics

import pytest
import torch

from slicewise.lab.images.animation import as_html
from slicewise.lab.images.scenes import film

pytestmark = pytest.mark.browser

# The columns of the pixels of a canvas that are near a color; of a copy, as Chromium warns of canvases that are read.
COLUMNS = """([name, r, g, b]) => {
  const canvas = document.getElementById(name), copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const brush = copy.getContext("2d", { willReadFrequently: true });
  brush.drawImage(canvas, 0, 0);
  const { data } = brush.getImageData(0, 0, copy.width, copy.height), found = [];
  for (let i = 0; i < data.length; i += 4)
    if (data[i + 3] > 200 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12)
      found.push(i / 4 % copy.width);
  return found;
}"""
LIGHT = {"dot": (0x00, 0x72, 0xB2), "ring": (0xD5, 0x5E, 0x00)}
DARK = {"dot": (0x56, 0xB4, 0xE9), "ring": (0xE6, 0x9F, 0x00)}


@pytest.fixture
def page(tmp_path):
    """A cloud that moves far, with an outlier on either side; ten frames of a fifth of a second."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 2, generator=g), torch.randn(40, 2, generator=g) + 30
    x[0], y[1] = 1e4, -1e4
    particles = torch.stack([y + 0.5**k * (x - y) for k in range(10)])
    shown = film(range(10), particles, y, names=("a", "b"), w2=[0.5**k for k in range(10)])
    path = tmp_path / "film.html"
    path.write_text(as_html(shown, fps=5, title="a to b"))
    return path


def opened(chromium, page, **options):
    tab = chromium.new_context(offline=True, **options).new_page()
    said = []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.goto(page.as_uri())
    return tab, said


def move_to(tab, frame):
    tab.evaluate(
        "n => { const s = document.getElementById('slider'); s.value = n; s.dispatchEvent(new Event('input')); }",
        frame,
    )


@pytest.mark.parametrize(("scheme", "colors"), [("light", LIGHT), ("dark", DARK)])
@pytest.mark.parametrize("width", [1200, 400])
def test_it_is_drawn_in_its_colors(chromium, page, scheme, colors, width):
    tab, said = opened(
        chromium, page, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    move_to(tab, 0)
    for kind, color in colors.items():
        assert len(tab.evaluate(COLUMNS, ["plane", *color])) > 50, kind
    assert len(tab.evaluate(COLUMNS, ["curve", *colors["dot"]])) > 20
    assert tab.inner_text("#outside") == "▸ outside: 1 particle and 1 of the target"
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.evaluate(overflow) <= 0
    assert said == []


def test_it_plays_to_the_end_and_again(chromium, page):
    tab, said = opened(chromium, page)
    tab.wait_for_function("document.getElementById('play').textContent === 'Again'", timeout=8000)
    assert tab.inner_text("#step") == "end, step 9"
    assert tab.inner_text("#left") == "0.00195"
    tab.click("#play")
    tab.wait_for_function("document.getElementById('step').textContent === 'step 2'", timeout=4000)
    tab.click("#play")
    assert tab.inner_text("#play") == "Play"
    assert said == []


def test_motion_is_not_started_where_it_is_unwanted(chromium, page):
    tab, said = opened(chromium, page, reduced_motion="reduce")
    tab.wait_for_timeout(600)
    assert (tab.inner_text("#step"), tab.inner_text("#play")) == ("step 0", "Play")
    assert said == []


def spread(columns):
    """The distance of the quartiles, which the arrow of the outlier hardly moves."""
    first, _, last = statistics.quantiles(columns)
    return last - first


def test_the_axes_zoom_in(chromium, page):
    tab, said = opened(chromium, page)
    move_to(tab, 0)
    before = spread(tab.evaluate(COLUMNS, ["plane", *LIGHT["ring"]]))
    move_to(tab, 9)
    assert spread(tab.evaluate(COLUMNS, ["plane", *LIGHT["ring"]])) > 3 * before
    assert said == []
