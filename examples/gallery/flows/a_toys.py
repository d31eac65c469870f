"""
The paper's toys, without a learning rate
=========================================

300 particles flow to a Swiss roll, eight Gaussians and a knot. The study behind this library searches 36 learning rates
of 10,000 steps each for every variant; here the length of each step is computed from the slices it draws.
"""

import matplotlib.pyplot as plt

import slicewise as sw
from slicewise.lab.data import toy

shown = [0, 1, 3, 8]
fig, axes = plt.subplots(3, len(shown) + 1, figsize=(10, 6), sharex="row", sharey="row")
steps = []
for row, name in zip(axes, ("swiss", "8gaussians", "knot"), strict=True):
    pair = toy(name, n=300, seed=0)
    found = sw.flow(pair.x, pair.y, seeds=0, recording=sw.Recording(particles_at=shown))
    steps.append(found.n_steps)
    moments = [*zip(shown, found.history.particles, strict=True), (found.n_steps, found.particles)]
    for ax, (step, particles) in zip(row, moments, strict=True):
        ax.scatter(*pair.y.T, s=10, facecolors="none", edgecolors="C1", lw=0.6)
        ax.scatter(*particles.T, s=3)
        ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"step {step}" if ax is not row[-1] else f"{found.status}, step {step}")
    row[0].set_ylabel(name)
    assert found.converged
fig.suptitle(
    f"All three arrive, after {min(steps)} to {max(steps)} sliced steps; no rate was given"
)
plt.show()
