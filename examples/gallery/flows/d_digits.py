"""
Digits become digits
====================

Eighty images of zeros, each a point in 64 dimensions, flow onto eighty images of ones. Every picture on the way is a sample
of the flow, not a blend of two images.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import slicewise as sw

images, labels = load_digits(return_X_y=True)
zeros, ones = (torch.tensor(images[labels == digit][:80]) for digit in (0, 1))
shown = [0, 1, 2, 4, 8]
found = sw.flow(zeros, ones, seeds=0, recording=sw.Recording(particles_at=shown))

rows = [*zip(shown, found.history.particles, strict=True), (found.n_steps, found.particles)]
fig, axes = plt.subplots(len(rows), 12, figsize=(8, 4.4))
for line, (step, particles) in zip(axes, rows, strict=True):
    for ax, image in zip(line, particles, strict=False):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
    line[0].set_ylabel(f"step {step}", rotation=0, ha="right", va="center")
fig.suptitle(
    f"Zeros become ones in {found.n_steps} steps, in the {found.dimensions} dimensions that they span"
)
plt.show()

print(found)
nearest = torch.cdist(found.particles, ones).min(dim=1).values
assert found.converged
assert nearest.max() < 1e-6  # every particle is one of the ones
