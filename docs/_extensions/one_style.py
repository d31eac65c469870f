"""One look for all pictures of the gallery."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt


def reset(gallery: dict[str, object], example: str) -> None:
    """Give the next example the style of the site, whatever the one before it has set."""
    plt.rcdefaults()
    plt.style.use(Path(__file__).parent.parent / "slicewise.mplstyle")
