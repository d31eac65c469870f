"""Parts of the report: tables for other programs, charts, reasons, and what is the best."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from skimage.color import rgb2lab

from slicewise.lab.experiments.flows import ELEVEN, FlowCell
from slicewise.lab.experiments.gradient_flow import ToyTask
from slicewise.lab.images import STYLES
from slicewise.lab.report.best import Best, by_rate, steps_of
from slicewise.lab.report.curves import as_distance, loss_curve
from slicewise.lab.report.drawings import basins
from slicewise.lab.report.flow_runs import Flows
from slicewise.lab.report.layout import Table, as_csv, as_latex, as_markdown
from slicewise.lab.report.reasons import reason
from slicewise.lab.study.run import Result
from slicewise.lab.study.store import Store

SMALL = Table("t", "50% of_all", ["a & b", "W₂"], [["x_1", "1 ± 2"], ["[y]", "∞ | <b>"]], "A note.")


def test_a_table_for_latex():
    text = as_latex(SMALL)
    assert r"a \& b & W$_2$ \\" in text
    assert r"x\_1 & 1 $\pm$ 2 \\" in text
    assert r"{}[y] & $\infty$ | \textless{}b\textgreater{} \\" in text
    assert r"\caption{50\% of\_all. A note}" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2
    assert text.isascii()


def test_a_table_for_markdown_and_csv():
    lines = as_markdown(SMALL).splitlines()
    assert lines[1] == "| --- | --- |"
    assert lines[3] == r"| [y] | ∞ \| &lt;b> |"
    assert as_csv(SMALL).splitlines()[1] == "x_1,1 ± 2"


def test_every_variant_has_a_look_of_its_own():
    assert list(STYLES) == list(ELEVEN)
    assert len({look.color for look in STYLES.values()}) == len(ELEVEN)
    assert len({look.outline for look in STYLES.values()}) == len(ELEVEN)
    assert len({look.mark for look in STYLES.values()}) == len(ELEVEN)


def linear(color):
    parts = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return np.array([p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts])


def luminance(color):
    return float(linear(color) @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("name", ELEVEN)
def test_colors_read_on_white_and_on_black(name):
    light = luminance(STYLES[name].color)
    for page in ("#ffffff", "#14171b"):
        high, low = sorted((light, luminance(page)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 3


# What is seen without one kind of cone, of linear red, green and blue (Machado, Oliveira and Fernandes 2009).
BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


@pytest.mark.parametrize("kind", BLIND)
def test_lines_alike_to_the_color_blind_have_other_dashes(kind):
    """Marks differ always; lines between them by dash, or by a color that is told apart."""
    seen = {}
    for name, look in STYLES.items():
        light = np.clip(np.array(BLIND[kind]) @ linear(look.color), 0, 1)
        plain = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
        seen[name] = rgb2lab(plain[None, None])[0, 0]
    for one, other in itertools.combinations(STYLES, 2):
        if STYLES[one].dash == STYLES[other].dash:
            assert np.linalg.norm(seen[one] - seen[other]) > 10, (one, other)


def row(lr, w2, **more):
    given = {"convention": "mean", "task": {"n": 4}}
    return {"lr": lr, "w2": w2, "seed": 0, "objective": "power", "given": given,
            "measures": {"steps": 7}, "trace": {"at": [1, 7], "loss": [0.25, 0.0]}} | more  # fmt: skip


def test_losses_are_told_as_distances():
    assert as_distance(0.25, row(1.0, 0.1)) == 0.5
    assert as_distance(0.25, row(1.0, 0.1, objective="root")) == 0.25
    reference = {"convention": "reference", "task": {"n": 4}}
    assert as_distance(4.0, row(1.0, 0.1, given=reference)) == 0.5
    assert as_distance(4.0, row(1.0, 0.1, given=reference, objective="root")) == 0.5
    assert as_distance(None, row(1.0, 0.1)) is None
    assert as_distance(math.inf, row(1.0, 0.1)) is None
    # Of the first seed; a loss of 0 is drawn at the least height.
    runs = [row(1.0, 0.1, seed=1, trace={"at": [1], "loss": [9.0]}), row(1.0, 0.1)]
    assert loss_curve(Best(1.0, 0.1, 0.0, runs)) == [(1, 0.5), (7, 1e-16)]


def test_rates_in_order_and_steps_in_words():
    found = by_rate([row(3.0, 0.1), row(1.0, 0.2), row(1.0, 0.4, seed=1)])
    assert [(one.rate, one.mean) for one in found] == [(1.0, pytest.approx(0.3)), (3.0, 0.1)]
    assert steps_of(Best(None, 0, 0, [row(1, 1), row(1, 1, measures={"steps": 9000})])) == "7–9,000"


def reasons_of(
    tmp_path, values, variant="sw", toy="swiss", d=50, n=300, steps=10_000, squared=None
):
    """The reason that is given when these distances, by rate, were found."""
    cell = FlowCell("gradient-flow", ToyTask(toy, d, n), variant, "root", tuple(values), (0,), steps)  # fmt: skip
    runs = list(cell.runs)
    if squared is not None:
        runs += replace(cell, objective="power", rates=(1.0,)).runs
    with Store(tmp_path / "runs.db") as store:
        for run in runs:
            w2 = values[run.lr] if run.objective == "root" else squared
            measures = {"steps": steps, "rank": 2}
            store.add([Result(run, "limit", 1.0, w2=w2, measures=measures)], "here", {})
        return reason(Flows(store, "gradient-flow"), f"{toy} d={d}", variant)


@pytest.mark.parametrize(
    ("values", "how", "words"),
    [
        ({0.3: 0.1, 0.5: 5e-4}, {}, "agrees, within a factor of 2"),
        ({0.3: 0.1, 0.5: 5e-4}, {"n": 100}, "made with smaller sizes"),
        ({0.3: 0.1, 0.5: 1e-5}, {"variant": "rpsw"}, "both below the resolution of single precision"),
        ({0.3: 0.1, 0.5: 2e-3}, {}, "0.3, leaves 1.0e-01: too slow for 10,000 steps"),
        ({0.3: 0.1, 0.5: 2e-3}, {"squared": 0.01}, "stuck at every rate: the squared loss, which does not oscillate, ends with 1.0e-02"),
        ({0.3: 0.1, 0.5: 2e-3}, {"squared": 1e-16}, "too slow for 10,000 steps"),
        ({0.5: 2e-3}, {}, "no smaller rate was tried"),
        ({1.0: 0.06, 3.0: 2e-3}, {"toy": "8gaussians"}, "leaves 6.0e-02: a particle in a wrong mode"),
        ({0.3: 0.1, 0.5: 2e-3}, {"variant": "maxsw"}, "the paper does not print the rate of its number"),
    ],
)  # fmt: skip
def test_a_reason_is_given(tmp_path, values, how, words):
    assert words in reasons_of(tmp_path, values, **how)


def test_seeds_that_differ_are_not_called_slow(tmp_path):
    toy = ToyTask("swiss", 50, 300)
    cell = FlowCell("gradient-flow", toy, "sw", "root", (0.3, 0.5), (0, 1), 10_000)
    left = {(0.3, 0): 1e-4, (0.3, 1): 0.05, (0.5, 0): 2e-3, (0.5, 1): 2e-3}
    with Store(tmp_path / "runs.db") as store:
        for run in cell.runs:
            measures = {"steps": 10_000, "rank": 50}
            w2 = left[run.lr, run.seed]
            store.add([Result(run, "out of steps", 1.0, w2=w2, measures=measures)], "here", {})
        words = reason(Flows(store, "gradient-flow"), "swiss d=50", "sw")
    assert "some seeds arrive (1.0e-04), others are stuck (5.0e-02)" in words


@pytest.mark.parametrize(
    ("heights", "scale", "shown"),
    [
        ((9.8, 10.3), "linear", None),
        ((0.047, 0.44), "log", ["0.05", "0.1", "0.2"]),
        ((1e-12, 3.0), "log", None),
    ],
)
def test_heights_of_basins_can_be_read_off(heights, scale, shown):
    """Over less than a factor of 3 by even steps, up to one of 100 by plain numbers: not 1.03 · 10^1."""
    found = [Best(10.0**i, height, 0.0, []) for i, height in enumerate(heights)]
    figure = basins({"root": {"sw": found}}, {}, {})
    figure.canvas.draw()
    (panel,) = figure.axes
    assert panel.get_yscale() == scale
    low, high = panel.get_ylim()
    ticks = zip(panel.get_yticks(), panel.get_yticklabels(), strict=True)
    words = [label.get_text() for group, label in ticks if low <= group <= high]
    if shown is not None:
        assert words == shown
    assert len(words) >= 3
