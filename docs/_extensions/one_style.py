"""One look for all pictures of the gallery."""

from __future__ import annotations

import matplotlib.pyplot as plt

from slicewise.lab.images import STYLE_FILE


def reset(gallery: dict[str, object], example: str) -> None:
    """Give the next example the style of the site, whatever the one before it has set."""
    plt.rcdefaults()
    plt.style.use(STYLE_FILE)
