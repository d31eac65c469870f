"""The playground: one file without a network, whose numbers are those of the library."""

from __future__ import annotations

import math
import re

import pytest
import torch

import slicewise as sw
from slicewise.lab.play import playground_page
from tests.command_line import accepted, refused

TOLERANCE = 1e-6


def test_the_page_asks_for_nothing_outside():
    page = playground_page()
    assert not re.search(r"/\*(STYLE|SLICED|PAGE)\*/", page)  # every part was put in
    assert "default-src 'none'" in page
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", page) == []
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|WebSocket|import\(", page)


def test_the_command_writes_it_once(capsys, tmp_path, monkeypatch):
    file = tmp_path / "play.html"
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    assert accepted(capsys, "play", "-o", file) == f"{file}\n"
    assert file.read_text(encoding="utf-8") == playground_page()
    assert opened == [file.as_uri()]
    file.write_text("mine")
    assert "--force" in refused(capsys, "play", "-o", file)
    assert file.read_text() == "mine"
    accepted(capsys, "play", "-o", file, "--force", "--no-open")
    assert file.read_text(encoding="utf-8") == playground_page()
    assert len(opened) == 1


def test_a_machine_without_a_browser_is_told_so(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "no browser" in accepted(capsys, "play", "-o", tmp_path / "play.html")


@pytest.fixture(scope="module")
def tab(chromium, tmp_path_factory):
    file = tmp_path_factory.mktemp("play") / "play.html"
    file.write_text(playground_page(), encoding="utf-8")
    context = chromium.new_context(viewport={"width": 1300, "height": 900}, offline=True)
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(file.as_uri())
    yield page
    assert said == []
    context.close()


def clouds(n, m, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 2, dtype=torch.float64, generator=drawn)
    y = 0.5 * torch.randn(m, 2, dtype=torch.float64, generator=drawn) + 0.7
    return x, y, math.pi * torch.rand(9, dtype=torch.float64, generator=drawn)


@pytest.mark.browser
@pytest.mark.parametrize(("n", "m"), [(8, 8), (12, 9), (5, 20), (1, 3)])
@pytest.mark.parametrize("variant", ["sw", "orthosw", "qsw", "ebsw"])
def test_values_weights_and_steps_are_those_of_the_library(tab, variant, n, m):
    x, y, angles = clouds(n, m)
    slices = torch.stack([angles.cos(), angles.sin()], dim=-1)
    got = tab.evaluate(
        """([x, y, angles, variant]) => {
            const found = sliced.evaluate(x, y, angles, variant);
            return { ...found, computed: sliced.moved(x, found, null), byRate: sliced.moved(x, found, 3) };
        }""",
        [x.tolist(), y.tolist(), angles.tolist(), variant],
    )
    expected = sw.evaluate(x, y, variant, slices=slices)
    near = {"rel": TOLERANCE, "abs": TOLERANCE}
    assert got["power"] == pytest.approx(expected.power.item(), **near)
    assert got["costs"] == pytest.approx(expected.costs.tolist(), **near)
    assert got["weights"] == pytest.approx(expected.weights.tolist(), **near)
    moved = x + sw.displacement(x, y, variant, slices=slices)
    assert torch.tensor(got["computed"]).flatten().tolist() == pytest.approx(
        moved.flatten().tolist(), **near
    )
    free = x.clone().requires_grad_()
    held = expected.weights.detach()  # the page holds weights constant, as steps do
    costs = sw.evaluate(free, y, slices=slices).costs
    (held * costs).sum().backward()
    by_rate = x - 3 * free.grad
    assert torch.tensor(got["byRate"]).flatten().tolist() == pytest.approx(
        by_rate.flatten().tolist(), **near
    )


@pytest.mark.browser
def test_the_costliest_slice_is_at_least_what_an_ascent_finds(tab):
    x, y, _ = clouds(40, 30)
    found = tab.evaluate(
        "([x, y]) => { const at = sliced.steepest(x, y); return [at, sliced.transport(x, y, at).cost]; }",
        [x.tolist(), y.tolist()],
    )
    every = torch.linspace(0, math.pi, 20_001, dtype=torch.float64)
    slices = torch.stack([every.cos(), every.sin()], dim=-1)
    most = sw.evaluate(x, y, slices=slices).costs.max().item()
    assert found[1] >= most * (1 - TOLERANCE)
    ascended = sw.evaluate(x, y, "maxsw", generator=0, restarts=10, n_steps=50, search=100)
    assert found[1] >= ascended.power.item() * (1 - TOLERANCE)


@pytest.mark.browser
def test_hands(tab):
    """Steps bring the clouds together, a reset takes them back, a drag draws, sizes are limited."""
    before = float(tab.inner_text("#distance"))
    for _ in range(15):
        tab.click("#step")
    assert float(tab.inner_text("#distance")) < 0.2 * before
    assert tab.inner_text("#steps") == "15"
    tab.click("#reset")
    assert float(tab.inner_text("#distance")) == before
    tab.click("#clear")
    assert tab.inner_text("#distance") == "–"
    for side, place in (("x", 0.3), ("y", 0.7)):
        tab.select_option("#brush", side)
        box = tab.locator("#cloud").bounding_box()
        tab.mouse.move(box["x"] + place * box["width"], box["y"] + 0.5 * box["height"])
        tab.mouse.down()
        for i in range(450):
            tab.mouse.move(box["x"] + place * box["width"] + i % 9, box["y"] + 0.5 * box["height"])
        tab.mouse.up()
    assert tab.inner_text("#count") == "(400 and 400)"
    tab.uncheck("#computed")
    assert tab.is_enabled("#rate")
    assert "lr=" in tab.inner_text("#code")
    tab.check("#computed")
    tab.select_option("#variant", "maxsw")
    assert tab.is_disabled("#slices")
    tab.click("#play")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect(tab.locator("#steps")).to_have_text(re.compile(r"^([4-9]|\d\d+)$"))
    tab.click("#play")
    # Two even slices of the plane see all there is of the means: they must meet.
    assert float(tab.inner_text("#distance")) < 0.5


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1300])
def test_it_fits_a_screen(chromium, tmp_path, width):
    file = tmp_path / "play.html"
    file.write_text(playground_page(), encoding="utf-8")
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme="dark")
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
