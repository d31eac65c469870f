"""`slicewise play`: write the playground and open it in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slicewise.lab.cli.common import options
from slicewise.lab.cli.common.output import check_output_path
from slicewise.lab.data import visible
from slicewise.support import write_whole


def play(
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write the page to this file instead of a temporary one."),
    ] = None,
    open_it: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = True,
    force: options.Force = False,
) -> None:
    """Open a page on which two clouds can be drawn and moved onto each other.

    Choose a variant, slices, a learning rate or the computed step, and watch
    the flow, the cost of every direction and the weights of slices. The page
    is one file that works without a network; no server is started.

    [bold]Examples[/bold]
      slicewise play
      slicewise play -o playground.html --no-open
    """
    import tempfile
    import webbrowser

    from slicewise.lab.play import playground_page

    if out is None:
        out = Path(tempfile.mkdtemp(prefix="slicewise-")) / "playground.html"
    else:
        check_output_path("--out", out, (".html",), force=force)
    write_whole(out, playground_page())
    print(visible(str(out)))
    if open_it and not webbrowser.open(out.resolve().as_uri()):
        print("no browser was found here: open that file in one")
