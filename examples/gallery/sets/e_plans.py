"""
A plan from slices costs little more than the exact one
=======================================================

A slice couples samples by sorting. The best of many slices is a transport plan, found without solving the assignment
problem. In the plane it comes close to the exact plan; more slices come closer.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
x, y = torch.randn(60, 2), 0.7 * torch.randn(60, 2) + torch.tensor([4.0, 0.0])
exact = sw.wasserstein(x, y) ** 2
numbers = [1, 3, 10, 30, 100, 300, 1000]
costs = [sw.sliced_plan(x, y, n_slices=n, generator=0).cost / exact for n in numbers]
plan = sw.sliced_plan(x, y, n_slices=1000, generator=0)
random = (x - y).square().sum(dim=1).mean() / exact

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.7))
axes[0].plot(*torch.stack([x, y[plan.permutation]]).permute(2, 0, 1), color="0.75", lw=0.8)
axes[0].scatter(*x.T, s=14, zorder=2)
axes[0].scatter(*y.T, s=14, zorder=2)
axes[0].set(title="Who goes where, by the best of 1,000 slices", aspect="equal")
axes[1].semilogx(numbers, costs, "o-", label="best of so many slices")
axes[1].axhline(1, color="k", ls=":", label="exact plan")
axes[1].axhline(random, color="C1", ls="--", label="random pairs")
axes[1].set(xlabel="slices", ylabel="cost / exact cost")
axes[1].set_title(f"1,000 slices: {costs[-1] - 1:.0%} above the exact cost")
axes[1].legend()
plt.show()

assert 1 <= costs[-1] < 1.1
