"""
Train a generator with no rate, at any scale of the data
========================================================

``sw.optim.Computed`` takes the place of Adam. It computes the length of each step from the loss, so that the same lines
train on data a thousand times as large. Adam at its usual rate fits one scale only.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import slicewise as sw

angles = torch.arange(8) * torch.pi / 4
centers = torch.stack([angles.cos(), angles.sin()], dim=1)
loss = sw.SlicedWasserstein(n_slices=50)


def trained(scale, adam_rate=None):
    """Train a small network on eight groups around a circle of this radius; return samples and their distance."""
    torch.manual_seed(0)
    data = scale * (centers.repeat(64, 1) + 0.05 * torch.randn(512, 2))
    network = nn.Sequential(
        nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
    )
    if adam_rate is None:
        optimizer = sw.optim.Computed(network.parameters(), total_steps=400)
    else:
        optimizer = torch.optim.Adam(network.parameters(), lr=adam_rate)
    for _ in range(400):
        noise = torch.randn(256, 4)
        if adam_rate is None:
            optimizer.step(lambda noise=noise: loss(network(noise), data))
        else:
            optimizer.zero_grad()
            loss(network(noise), data).backward()
            optimizer.step()
    with torch.no_grad():
        made = network(torch.randn(512, 4))
    return (
        data / scale,
        made / scale,
        sw.sliced_wasserstein(made / scale, data / scale, n_slices=500, generator=0),
    )


runs = {
    "Computed, radius 1": trained(1.0),
    "Computed, radius 1000": trained(1000.0),
    "Adam 1e-3, radius 1": trained(1.0, 1e-3),
    "Adam 1e-3, radius 1000": trained(1000.0, 1e-3),
}
fig, axes = plt.subplots(1, 4, figsize=(10, 3.1), sharex=True, sharey=True)
for ax, (name, (data, made, left)) in zip(axes, runs.items(), strict=True):
    ax.scatter(*data.T, s=4, color="C1")
    ax.scatter(*made.T, s=4, color="C0", alpha=0.6)
    ax.set(
        title=f"{name}\nSW$_2$ left: {left:.2f}", aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6)
    )
fig.suptitle("The computed step fits both scales, a rate fits one (axes in units of the radius)")
plt.show()

# %%
# :doc:`/networks` derives the rule and compares it with searched rates on 64 settings, also where it falls short.

left = {name: float(run[2]) for name, run in runs.items()}
assert max(left["Computed, radius 1"], left["Computed, radius 1000"]) < 0.15
assert left["Adam 1e-3, radius 1000"] > 3 * left["Computed, radius 1000"]
