"""
SW averages over directions, MaxSW takes the largest
====================================================

In the plane the cost of every direction can be drawn. SW is the mean of this curve, MaxSW its peak, and EBSW a mean in
which expensive directions count more.
"""

import math

import matplotlib.pyplot as plt
import torch

import slicewise as sw
from slicewise.lab.images import STYLES

torch.manual_seed(1)
x = torch.randn(300, 2)
y = torch.randn(300, 2) @ torch.tensor([[2.2, 1.2], [0.0, 0.5]])
angles = torch.linspace(0, 2 * math.pi, 361)
circle = torch.stack([angles.cos(), angles.sin()], dim=1)
costs = sw.evaluate(x, y, slices=circle).costs
values = {
    "sw": sw.evaluate(x, y, slices=circle).power,
    "ebsw": sw.evaluate(x, y, "ebsw", slices=circle).power,
    "maxsw": sw.evaluate(x, y, "maxsw", n_steps=50, generator=0).power,
}

fig = plt.figure(figsize=(9, 4))
left = fig.add_subplot(1, 2, 1, aspect="equal", title="Two sets that differ along one diagonal")
left.scatter(*y.T, s=8, color="C1", label="y")
left.scatter(*x.T, s=8, color="C0", label="x")
left.legend()
right = fig.add_subplot(1, 2, 2, projection="polar")
right.fill(angles, costs, color="0.9")
right.plot(angles, costs, color="0.4", label="cost of a slice")
for name, value in values.items():
    right.plot(angles, value.expand(361), color=STYLES[name].color, label=f"{name}: {value:.2f}")
right.set_title("One direction has most of the cost")
right.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
right.set_yticklabels([])
plt.show()

assert values["sw"] < values["ebsw"] < values["maxsw"]
assert values["maxsw"] > 0.99 * costs.max()
