"""
Pair batches so that paths cross less
=====================================

Flow matching learns velocities along lines from noise to data. Random pairs cross everywhere, so that a network has to
average opposite velocities. ``couple`` pairs a batch by slices, in O(n log n) a slice.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
noise = torch.randn(256, 2)
angles = torch.arange(8) * torch.pi / 4
data = 3 * torch.stack([angles.cos(), angles.sin()], dim=1).repeat(32, 1) + 0.15 * torch.randn(
    256, 2
)
pairs = sw.couple(noise, data, n_slices=200, generator=0)


def leftover(x0, x1):
    """Estimate the share of the velocity's variance that no function of the place explains, halfway along the lines."""
    place, velocity = (x0 + x1) / 2, x1 - x0
    near = (
        torch.cdist(place, place).topk(9, largest=False).indices[:, 1:]
    )  # the eight nearest others
    unexplained = (
        (velocity[near] - velocity[near].mean(dim=1, keepdim=True)).square().sum(-1).mean() * 8 / 7
    )
    return float(unexplained / (velocity - velocity.mean(dim=0)).square().sum(-1).mean())


fig, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True)
shares = []
for ax, x0, x1, name in (
    (axes[0], noise, data, "random pairs"),
    (axes[1], pairs.x0, pairs.x1, "couple"),
):
    shares.append(leftover(x0, x1))
    ax.plot(*torch.stack([x0, x1]).permute(2, 0, 1), color="0.8", lw=0.6)
    ax.scatter(*x0.T, s=5, zorder=2)
    ax.scatter(*x1.T, s=5, zorder=2)
    ax.set(title=f"{name}: {shares[-1]:.0%} of the velocity is unexplained", aspect="equal")
plt.show()

assert shares[1] < 0.6 * shares[0]
