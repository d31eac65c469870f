"""
A sliced distance is a mean of sorts
====================================

Project two sets on a direction, sort both, and match them in that order: this is optimal transport on a line. The
sliced-Wasserstein distance does so along many random directions, called *slices*, and averages the costs.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
x = torch.randn(12, 2) * torch.tensor([1.0, 0.4])
y = torch.randn(12, 2) * torch.tensor([0.4, 1.0]) + torch.tensor([3.0, 1.0])
angles = torch.tensor([0.0, 45.0, 90.0]).deg2rad()
slices = torch.stack([angles.cos(), angles.sin()], dim=1)  # (3, 2)
found = sw.evaluate(x, y, slices=slices)

fig, axes = plt.subplots(1, 4, figsize=(10, 2.9), width_ratios=[1.2, 1, 1, 1])
axes[0].scatter(*x.T, label="x")
axes[0].scatter(*y.T, label="y")
for direction in slices:
    axes[0].axline(
        (1.5, 0.5), tuple((torch.tensor([1.5, 0.5]) + direction).tolist()), color="0.8", zorder=0
    )
axes[0].set(title="Two sets and three slices", aspect="equal")
axes[0].legend()
for ax, direction, cost, angle in zip(axes[1:], slices, found.costs, (0, 45, 90), strict=True):
    u, v = (x @ direction).sort().values, (y @ direction).sort().values
    ax.plot(torch.stack([u, v]), torch.tensor([[1.0], [0.0]]).expand(2, 12), color="0.7", lw=1)
    ax.scatter(u, torch.ones(12), color="C0")
    ax.scatter(v, torch.zeros(12), color="C1")
    ax.set(title=f"slice at {angle}°: cost {cost:.2f}", yticks=[0, 1], yticklabels=["y", "x"])
fig.suptitle(f"SW$_2^2$ on these slices is the mean of their costs, {found.power:.2f}")
plt.show()

# %%
# The cost of a slice is the mean squared length of the gray lines; the distance is the root of the mean cost.

by_hand = torch.stack(
    [((x @ s).sort().values - (y @ s).sort().values).square().mean() for s in slices]
)
assert torch.allclose(found.costs, by_hand, rtol=1e-4)
assert torch.allclose(found.value, by_hand.mean().sqrt(), rtol=1e-4)
