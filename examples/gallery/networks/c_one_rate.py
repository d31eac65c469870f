"""
One rate for every dimension
============================

With an optimizer of torch the rate has to fit the dimension of the data and the number of slices, since the gradient of
SW₂² shrinks with both. ``scale="displacement"`` takes this out: the value stays, the gradient of a sample is the move that
the slices suggest for it.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import slicewise as sw

rates = [0.0125, 0.05, 0.2, 0.8, 3.2, 12.8]


def left_after_training(d, scale, rate):
    """Train 8 → 32 → d by 150 steps of SGD; return the distance that is left, of what it was."""
    torch.manual_seed(0)
    data = torch.tanh(torch.randn(256, 3) @ torch.randn(3, d))
    network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, d))
    loss = sw.SlicedWasserstein(n_slices=50, scale=scale)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    values = []
    for _ in range(150):
        made = network(torch.randn(128, 8))
        if not made.abs().max() < 1e6:
            return 1.5  # diverged
        value = loss(made, data)
        values.append(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return min(1.5, values[-1] / values[0])


fig, axes = plt.subplots(1, 2, figsize=(9, 3.7), sharey=True)
best = {}
for ax, scale in zip(axes, ("classic", "displacement"), strict=True):
    for d in (4, 32, 256):
        left = [left_after_training(d, scale, rate) for rate in rates]
        best[scale, d] = rates[left.index(min(left))]
        ax.loglog(rates, left, "o-", label=f"d = {d}: best at {best[scale, d]:g}")
    ax.set(xlabel="rate of SGD", title=f'scale="{scale}"')
    ax.legend()
axes[0].set_ylabel("SW$_2^2$ left after 150 steps, of its start")
fig.suptitle(
    f"The best rate grows with the dimension; with the displacement scale it stays at {best['displacement', 4]:g}"
)
plt.show()

assert best["classic", 4] < best["classic", 256]
assert len({best["displacement", d] for d in (4, 32, 256)}) == 1
