"""
EBSW's weights gather where sets differ
=======================================

EBSW weighs a slice by a function of its cost, by default exp(cost). On the sphere of directions in three dimensions the
weights gather at the direction along which the two sets differ, the more the further they are apart.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
x, y = torch.randn(500, 3), torch.randn(500, 3)
toward = torch.nn.functional.normalize(torch.tensor([1.0, -1.0, 0.7]), dim=0)
slices = torch.nn.functional.normalize(torch.randn(1500, 3), dim=1)

fig, axes = plt.subplots(1, 3, figsize=(10, 3.6), subplot_kw={"projection": "3d"})
effective = []
for ax, shift in zip(axes, (0.5, 1.5, 3.0), strict=True):
    weights = sw.evaluate(x, y + shift * toward, "ebsw", slices=slices).weights
    effective.append(1 / weights.square().sum())  # how many equal slices would weigh as much
    near = slices @ torch.tensor([0.93, -0.16, 0.34]) > 0  # the half that faces the reader
    drawn = slices[near]
    ax.scatter(
        *drawn.T, c=weights[near] * len(slices), s=9, cmap="viridis", vmin=0, depthshade=False
    )
    ax.quiver(0, 0, 0, *(1.9 * toward), color="C1", lw=2)
    ax.set_title(f"shift {shift}: {effective[-1]:.0f} of 1,500\nslices in effect")
    ax.set(box_aspect=(1, 1, 1))
    ax.view_init(elev=20, azim=-10)
    ax.set_axis_off()
fig.suptitle("The further apart two sets are, the fewer slices EBSW listens to")
plt.show()

# %%
# This is why EBSW's learning rate does not carry over from one problem to another: its sharpness depends on the scale of
# the data. ``temperature=`` changes it.

assert effective[0] > 1400 > effective[1] > effective[2]
