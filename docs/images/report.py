"""Photograph the first screen of a report for docs/images/report.png: `python docs/images/report.py report/index.html`.

The window is about as wide as a page of the site, so that its letters are shown at their own size. Needs Chromium.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

WINDOW = {"width": 800, "height": 850}


def main(page: Path, out: Path) -> None:
    """Stop the film at six tenths of its way and write what is seen."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])  # fmt: skip
        tab = browser.new_page(viewport=WINDOW, device_scale_factor=1.75, color_scheme="light")
        tab.goto(page.resolve().as_uri())
        tab.locator("[data-films] button", has_text="Pause").click()
        moved = "e => { e.value = Math.round(0.6 * e.max); e.dispatchEvent(new Event('input')); }"
        tab.locator("[data-films] input[type=range]").evaluate(moved)
        tab.wait_for_timeout(500)
        seen = tab.screenshot()
        browser.close()
    with Image.open(io.BytesIO(seen)) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_suffix(".png"))
