"""
A variant of your own is a function
===================================

A variant is a recipe of a slicer (which directions) and a weighting (how much each counts). A plain function is a valid
part, and everything that takes a variant's name takes the recipe: distances, losses, flows, tests.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw
from slicewise.parts import Uniform

torch.manual_seed(0)


def middle_half(costs: torch.Tensor, slices: torch.Tensor, problem: sw.Problem) -> torch.Tensor:
    """Weigh the slices between the quartiles of the costs equally, the others not at all: a trimmed mean."""
    low, high = costs.quantile(costs.new_tensor([0.25, 0.75]), dim=-1, keepdim=True)
    inside = ((costs >= low) & (costs <= high)).to(costs.dtype)
    return inside / inside.sum(-1, keepdim=True)


trimmed = sw.Recipe(Uniform(200), middle_half)
x, y = torch.randn(300, 2), torch.randn(300, 2) @ torch.diag(torch.tensor([3.0, 1.0]))
found = sw.evaluate(x, y, trimmed, generator=0)
plain = sw.evaluate(x, y, n_slices=200, generator=0)
flow = sw.flow(x, y, trimmed, seeds=0, stopping=sw.Stopping(assign=False))  # sliced steps alone

fig, axes = plt.subplots(1, 2, figsize=(9, 3.6))
order = found.costs.argsort()
axes[0].plot(found.costs[order], color="0.5")
counted = found.weights[order] > 0
axes[0].fill_between(range(200), found.costs[order], where=counted, alpha=0.4)
axes[0].set(xlabel="slices, by cost", ylabel="cost")
axes[0].set_title(f"The middle half: {found.power:.2f}, all slices: {plain.power:.2f}")
axes[1].scatter(*y.T, s=14, facecolors="none", edgecolors="C1", label="y")
axes[1].scatter(*flow.particles.T, s=5, label=f"x after {flow.n_steps} steps: {flow.status}")
axes[1].set_title("A flow by its slices alone arrives")
axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
plt.show()

# %%
# :doc:`/developers/contributing` says how a recipe becomes a variant with a name, options and tested properties.

assert flow.converged
assert found.weights.sum().isclose(torch.tensor(1.0))
