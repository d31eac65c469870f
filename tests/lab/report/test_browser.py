"""The report in a browser: nothing complains, charts are drawn, choosing and pointing do something."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from slicewise.lab.experiments import EXPERIMENTS, Options
from slicewise.lab.report.charts import REMAINING
from slicewise.lab.report.page import write_report
from slicewise.lab.study.store import Store
from slicewise.lab.study.sweep import sweep
from tests.lab.report.test_report import HOSTILE, hostile_store

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of a quick run, or of the store that is named: `make demo` has made one."""
    folder = tmp_path_factory.mktemp("report")
    made = Path(os.environ.get("SLICEWISE_STORE", "report/runs.db"))
    if not made.exists():
        made = folder / "runs.db"
        cells = [cell for cells in EXPERIMENTS.values() for cell in cells(Options("quick"))]
        cheap = [cell for cell in cells if getattr(cell, "variant", "sw") in ("sw", "ebsw", "maxsw")]  # fmt: skip
        with Store(made) as store:
            assert not sweep(cheap, store).failed
    return write_report(made, folder / "out")


def opened(chromium, page, *, width=1400, scheme="light"):
    """The page with all its charts drawn, and what the console said meanwhile."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: said.append(f"error: {error}"))
    tab.goto(page.as_uri())
    groups = tab.locator(".drawn")
    for i in range(groups.count()):
        groups.nth(i).scroll_into_view_if_needed()
        groups.nth(i).locator("svg.marks").wait_for(timeout=10_000)
    return tab, said


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_page_loads_draws_and_fits(chromium, report, width, scheme, record_property):
    assert report.stat().st_size < 15e6
    tab, said = opened(chromium, report, width=width, scheme=scheme)
    assert said == []
    drawn = tab.locator(".drawn svg.marks")
    assert drawn.count() == tab.locator(".drawn").count() >= 6
    # Nothing but tables and figures, which scroll by themselves, is wider than the screen.
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for chart in drawn.all()[:3]:
        assert chart.locator("path").count() > 10
        assert chart.bounding_box()["width"] > 200
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in re.findall(r"\d+", ground)[:3]) / 3
    assert light > 200 if scheme == "light" else light < 60
    tab.context.close()


def marks_of(chart, color):
    return chart.locator(f'path[fill="{color}"], path[stroke="{color}"]').count()


def test_choosing_a_method_changes_every_chart(chromium, report):
    tab, said = opened(chromium, report)
    charts = tab.locator(".drawn svg.marks")
    chart, other = charts.nth(0), charts.nth(2)
    before = marks_of(chart, "#0072b2"), marks_of(other, "#0072b2"), marks_of(chart, "#d55e00")
    assert min(before) > 1
    box = tab.locator('[data-methods] input[value="sw"]').first
    box.uncheck()
    tab.wait_for_timeout(200)
    # The curves of sw are gone; the dotted edge of its theory is drawn in its color, and may stay.
    assert marks_of(chart, "#0072b2") <= 1
    assert marks_of(other, "#0072b2") <= 1
    assert marks_of(chart, "#d55e00") == before[2]
    box.check()
    tab.wait_for_timeout(200)
    assert marks_of(chart, "#0072b2") == before[0]
    tab.locator('[data-all=""]').first.click()
    tab.wait_for_timeout(200)
    assert marks_of(chart, "#d55e00") == 0
    tab.locator('[data-all="yes"]').first.click()
    tab.wait_for_timeout(200)
    assert marks_of(chart, "#d55e00") == before[2]
    assert said == []
    tab.context.close()


def test_pointing_at_a_mark_tells_its_numbers(chromium, report):
    tab, _ = opened(chromium, report)
    chart = tab.locator(".drawn").first
    chart.scroll_into_view_if_needed()
    mark = chart.locator('g.mark-symbol path[fill="#0072b2"][opacity="0"]').first
    box = mark.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = tab.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=5000)
    words = tip.inner_text()
    assert "variant" in words
    assert re.search(re.escape(REMAINING) + r"\s+\d\.\de[-+]\d\d", words)
    assert re.search(r"rate\s+\S+", words)
    tab.context.close()


def test_a_tap_tells_as_well(chromium, report):
    """On a phone nothing hovers."""
    context = chromium.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True, offline=True
    )
    tab = context.new_page()
    tab.goto(report.as_uri())
    chart = tab.locator(".drawn").first
    chart.scroll_into_view_if_needed()
    chart.locator("svg.marks").wait_for()
    mark = chart.locator('g.mark-symbol path[fill="#0072b2"][opacity="0"]').first
    box = mark.bounding_box()
    tab.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = tab.locator("#vg-tooltip-element.visible")
    tip.wait_for(timeout=5000)
    assert re.search(re.escape(REMAINING) + r"\s+\d", tip.inner_text())
    context.close()


def test_on_paper_and_without_scripts_there_are_pictures(chromium, report):
    tab, _ = opened(chromium, report)
    assert tab.locator("img.still").count() >= 4
    assert not tab.locator("img.still").first.is_visible()
    tab.emulate_media(media="print")
    assert tab.locator("img.still").first.is_visible()
    assert not tab.locator(".drawn").first.is_visible()
    tab.context.close()
    plain = chromium.new_context(java_script_enabled=False, offline=True).new_page()
    plain.goto(report.as_uri())
    assert plain.locator("img.still").first.is_visible()
    assert not plain.locator(".drawn").first.is_visible()
    plain.context.close()


def test_dragging_moves_and_zooming_shows_less(chromium, report):
    tab, _ = opened(chromium, report)
    chart = tab.locator(".drawn").first
    chart.scroll_into_view_if_needed()
    labels = chart.locator("g.role-axis-label text")
    before = labels.all_inner_texts()
    box = chart.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + 120)
    tab.keyboard.down("Shift")
    for _ in range(5):
        tab.mouse.wheel(0, -200)
        tab.wait_for_timeout(50)
    tab.keyboard.up("Shift")
    tab.wait_for_timeout(200)
    zoomed = labels.all_inner_texts()
    assert zoomed != before
    tab.locator("[data-reset]").first.click()
    tab.wait_for_timeout(800)
    assert labels.all_inner_texts() == before
    tab.context.close()


def test_hostile_names_do_nothing(chromium, tmp_path):
    page = write_report(hostile_store(tmp_path), tmp_path / "out")
    tab, said = opened(chromium, page)
    assert said == []  # an alert would stop here, a broken script complain
    assert HOSTILE in tab.locator("h3").first.inner_text()
    assert tab.locator("h3 script, td script, caption script").count() == 0
    tab.context.close()
