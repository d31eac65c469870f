"""Draw docs/images/film.png, what the film of `slicewise flow` shows: `python docs/images/film.py`, a few seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import slicewise as sw
from slicewise.lab.data import toy
from slicewise.lab.images import BLUE, GRAY, ORANGE, PAGE_WIDTH, blank, in_style, save_png

SHOWN = (0, 1, 7)  # and the end
LOWEST = 1e-5  # of the curve, which ends at 0


def main() -> None:
    """Flow 300 particles to the Swiss roll, draw four steps and the distance over all of them."""
    pair = toy("swiss", n=300, d=2, seed=0)
    steps = range(100)
    found = sw.flow(pair.x, pair.y, seeds=0, recording=sw.Recording(particles_at=steps, w2_at=steps))  # fmt: skip
    last, history = int(found.n_steps), found.history
    # The last step is the assignment, after which nothing is left.
    w2 = [*history.w2[:last].tolist(), float(found.w2)]
    with in_style():
        figure = blank(PAGE_WIDTH, 3.7)
        grid = figure.add_gridspec(2, len(SHOWN) + 1, height_ratios=(1.7, 1))
        frames = [(step, history.particles[step], w2[step]) for step in SHOWN]
        frames.append((last, found.particles, w2[last]))
        for column, (step, particles, left) in enumerate(frames):
            panel = figure.add_subplot(grid[0, column])
            panel.scatter(*particles.T, s=6, color=BLUE, lw=0)
            panel.scatter(*pair.y.T, s=12, facecolors="none", edgecolors=ORANGE, lw=0.6)
            extent = 1.1 * max(float(particles.abs().max()), float(pair.y.abs().max()))
            panel.set(xlim=(-extent, extent), ylim=(-extent, extent), xticks=[], yticks=[], aspect="equal")  # fmt: skip
            panel.spines[:].set(visible=True, color="0.8")
            panel.set_title(f"step {step}\nW₂ = {left:.3g}")
        panel = figure.add_subplot(grid[1, :])
        curve = np.maximum(w2, LOWEST)
        panel.plot(range(last + 1), curve, color=GRAY)
        marked = [*SHOWN, last]
        panel.plot(marked, curve[marked], "o", color=BLUE, clip_on=False, zorder=3)
        panel.set(yscale="log", xlabel="step", ylabel="exact W₂", ylim=(LOWEST, 2))
        panel.set_yticks([1, 1e-2, 1e-4])
        panel.minorticks_off()
        panel.grid()
        figure.suptitle(
            f"300 particles are at the Swiss roll after {last} steps, the last by assignment"
        )
        save_png(figure, Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main()
