"""The one style of all figures."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from slicewise.lab.images import PAGE_WIDTH, STYLES, blank, draw_variant, in_style, save_png


def test_the_style_ends_where_it_was_begun():
    with mpl.rc_context({"font.size": 4, "axes.labelsize": 3}):
        with in_style():
            assert mpl.rcParams["font.size"] == 9.5
        assert mpl.rcParams["font.size"] == 4
        assert mpl.rcParams["axes.labelsize"] == 3


def test_letters_have_nine_points_even_if_the_user_has_smaller_ones():
    with mpl.rc_context({"font.size": 4, "xtick.labelsize": 3, "legend.fontsize": 3}), in_style():
        figure = blank(PAGE_WIDTH, 3)
        panel = figure.subplots()
        draw_variant(panel, "ebsw", [1, 2], [3, 4])
        panel.set(title="title", xlabel="x", ylabel="y")
        panel.legend()
        figure.suptitle("above")
        figure.savefig(io.BytesIO())  # makes the ticks
        texts = [t for t in figure.findobj(mpl.text.Text) if t.get_text() and t.get_visible()]
    assert len(texts) > 10  # ticks are among them
    assert min(text.get_fontsize() for text in texts) >= 9


def test_a_variant_has_its_color_and_mark():
    figure = blank(3, 3)
    panel = figure.subplots()
    for variant, style in STYLES.items():
        draw_variant(panel, variant, [1, 2], [3, 4])
        line = panel.lines[-1]
        assert (line.get_color(), line.get_marker()) == (style.color, style.mark)
        assert line.get_label() == variant


@pytest.mark.parametrize(("data", "mode"), [(False, "P"), (True, "RGB")])
def test_a_saved_figure_keeps_the_colors_of_data(tmp_path, data, mode):
    """A ramp of 1,000 colors, which a palette of 256 would merge."""
    with in_style():
        figure = blank(PAGE_WIDTH, 2)
        panel = figure.subplots()
        if data:
            panel.imshow(np.linspace(0, 1, 1000)[None], aspect="auto", cmap="hsv")
        else:
            panel.plot([1, 2])
        save_png(figure, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.mode == mode
        assert image.width == round(180 * PAGE_WIDTH)
        if data:
            assert len(image.getcolors(1 << 20)) > 300
