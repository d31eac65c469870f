"""The documentation site: `make docs` builds it into build/site, with warnings as errors and without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions")]

import slicewise  # noqa: E402
from slicewise.lab.play import playground_page  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "slicewise"
author = "The slicewise developers"
copyright = "2026, the slicewise developers"
version = release = slicewise.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    # Ours.
    "mathml",
    "repository_links",
    "command_line",
    "public_names",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_extensions",
    "check_site.py",
    "_templates",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.json",
    "**sg_execution_times.rst",
]

# Markdown
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# The reference, from docstrings. They are written as plain text: `x` is code, a star is a star.
default_role = "code"
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# The gallery: every example is executed, and drawn in one style.
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "remove_config_comments": True,
    "subsection_order": [
        f"../examples/gallery/{part}" for part in ("distances", "flows", "networks", "sets")
    ],
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("one_style.reset",),
    "capture_repr": (),
    "doc_module": (),
    "backreferences_dir": None,
    "show_signature": False,
    "line_numbers": False,
}

# Appearance. Nothing is loaded from elsewhere: fonts are the system's.
html_theme = "furo"
html_title = "slicewise"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Pages opened from disk may not read each other: results are titles, without a passage of the page.
html_show_search_summary = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
copybutton_exclude = ".linenos, .gp, .go"


def setup(app: Sphinx) -> None:
    """Put the playground, one page that needs no other file, beside those that Sphinx writes."""
    page = Path(app.outdir) / "play.html"
    app.connect("build-finished", lambda *_: page.write_text(playground_page(), encoding="utf-8"))
