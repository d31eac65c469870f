"""
The largest slice has to be climbed to
======================================

Two sets in 64 dimensions differ along one axis. The best of many random slices hardly sees it, since random directions
are nearly orthogonal to any given one; an ascent that starts from the best of some finds it. An upper bound on all slices says how
far the true maximum can be; here the ascent has reached it.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw
from slicewise.lab.images import STYLES

torch.manual_seed(0)
x, y = torch.randn(500, 64), torch.randn(500, 64)
y[:, 0] += 3
axis = sw.sliced_wasserstein(x, y, slices=torch.eye(64)[:1])
numbers = [10, 30, 100, 300, 1000, 3000]
best = [sw.evaluate(x, y, n_slices=n, generator=0).costs.max().sqrt() for n in numbers]
climbed = sw.evaluate(x, y, "maxsw", search=100, restarts=10, n_steps=50, generator=0)

fig, ax = plt.subplots(figsize=(7, 3.8))
ax.semilogx(numbers, best, "o-", color=STYLES["sw"].color, label="best of so many random slices")
ax.axhline(
    climbed.value, color=STYLES["maxsw"].color, label=f"maxsw with a search: {climbed.value:.2f}"
)
ax.axhline(climbed.bound, color="0.5", ls=":", label=f"no slice is beyond {climbed.bound:.2f}")
ax.axhline(axis, color="C2", ls="--", label=f"the axis itself: {axis:.2f}")
ax.set(xlabel="random slices", ylabel="W$_2$ along the slice", ylim=(0, None))
ax.set_title(f"The best of 3,000 random slices sees {best[-1] / climbed.value:.0%} of the largest")
ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
plt.show()

assert best[-1] < 0.6 * climbed.value
assert axis <= climbed.value <= 1.00001 * climbed.bound
