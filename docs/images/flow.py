"""Draw docs/images/flow.gif, the moving picture of the README: `python docs/images/flow.py`, half a minute.

300 particles flow to the three toy targets of the paper. Frames between two steps show the particles on the straight lines
that they move along, so that the first steps, which go far, can be followed.
"""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from PIL import Image

import slicewise as sw
from slicewise.lab.data import toy
from slicewise.lab.images import STYLE_FILE

HERE = Path(__file__).parent
TARGETS = {
    "swiss": "Swiss roll",
    "8gaussians": "eight Gaussians",
    "knot": "knot, in 100 dimensions",
}
BETWEEN = (10, 6, 4, 3, 2, 2, 2, 2)  # frames of the first steps; later ones have one
LAST = 10  # frames in which the assignment brings particles to their targets


def ways(name: str) -> tuple[torch.Tensor, list[tuple[str, torch.Tensor]]]:
    """Return the target, and the particles of every frame with what is written above it."""
    pair = toy(name, n=300, d=100 if name == "knot" else 2, seed=0)
    every = sw.Recording(particles_at=range(200))
    found = sw.flow(pair.x, pair.y, seeds=0, recording=every)
    plane = sw.effective_subspace(pair.x, pair.y)
    seen = [plane.reduce(p) for p in found.history.particles[: found.n_steps + 1]]
    frames = []
    for step, (before, after) in enumerate(pairwise(seen)):
        count = BETWEEN[step] if step < len(BETWEEN) else 1
        frames += [(f"step {step + 1}", before.lerp(after, (k + 1) / count)) for k in range(count)]
    end = plane.reduce(found.particles)
    frames += [(f"arrived, {found.n_steps} steps", seen[-1].lerp(end, (k + 1) / LAST)) for k in range(LAST)]  # fmt: skip
    return plane.reduce(pair.y), [("start", seen[0])] * 4 + frames


def main() -> None:
    """Draw all frames and write the GIF."""
    plt.style.use(STYLE_FILE)
    drawn = {name: ways(name) for name in TARGETS}
    count = max(len(frames) for _, frames in drawn.values())
    pictures = []
    for k in range(count):
        figure, panels = plt.subplots(1, 3, figsize=(7.2, 2.75))
        for panel, (name, (target, frames)) in zip(panels, drawn.items(), strict=True):
            said, particles = frames[min(k, len(frames) - 1)]
            panel.scatter(*target.T, s=9, facecolors="none", edgecolors="C1", lw=0.6)
            panel.scatter(*particles.T, s=4, color="C0", lw=0)
            panel.set(xlim=(-2.4, 2.4), ylim=(-2.4, 2.4), aspect="equal", xticks=[], yticks=[])
            panel.set_title(TARGETS[name], fontsize=10)
            panel.set_xlabel(said)
            panel.spines[:].set_visible(False)
        file = io.BytesIO()
        figure.savefig(file, dpi=100)
        plt.close(figure)
        pictures.append(Image.open(file).convert("RGB"))
    palette = pictures[len(pictures) // 2].quantize(32)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    times = [70] * (count - 1) + [2500]
    flat[0].save(HERE / "flow.gif", save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)  # fmt: skip
    print(f"{count} frames, {(HERE / 'flow.gif').stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
