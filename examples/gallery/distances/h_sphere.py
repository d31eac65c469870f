"""
Directions are compared on great circles
========================================

For samples on a sphere (places on a globe, normalized embeddings) slices are great circles and transport runs around them.
The spherical distance grows with the angle between two groups of directions, and ``spherical_uniformity`` says how
unevenly one set covers the sphere.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
normalize = torch.nn.functional.normalize
north = normalize(torch.tensor([0.0, 0.0, 1.0]) + 0.2 * torch.randn(300, 3), dim=1)
angles = torch.linspace(0, 180, 13)


def turned(degrees: torch.Tensor) -> torch.Tensor:
    """Turn the group about the first axis."""
    c, s = degrees.deg2rad().cos(), degrees.deg2rad().sin()
    return north @ torch.tensor([[1, 0, 0], [0, c, s], [0, -s, c]])


distances = {
    name: [sw.sliced_wasserstein(north, turned(a), name, n_slices=200, generator=0) for a in angles]
    for name in ("ssw", "linearssw", "s3w", "ris3w")
}
uneven = [sw.spherical_uniformity(normalize(z, dim=1)) for z in (north, torch.randn(300, 3))]

fig = plt.figure(figsize=(9, 3.8))
globe = fig.add_subplot(1, 2, 1, projection="3d")
globe.scatter(*north.T, s=6, label=f"uniformity {uneven[0]:.3f}")
globe.scatter(*turned(angles[4]).T, s=6, label="the same, turned by 60°")
globe.scatter(
    *normalize(torch.randn(300, 3), dim=1).T, s=3, color="0.6", label=f"uniformity {uneven[1]:.3f}"
)
globe.set(box_aspect=(1, 1, 1))
globe.set_axis_off()
globe.legend(loc="lower center", bbox_to_anchor=(0.5, -0.2))
ax = fig.add_subplot(1, 2, 2)
for name, values in distances.items():
    ax.plot(angles, torch.stack(values) / max(values), "o-", ms=4, label=name)
ax.set(xlabel="angle between the groups, degrees", ylabel="distance / its largest")
ax.set_title("Great circles see the angle grow all the way")
ax.legend()
plt.show()

assert all(a < b for a, b in zip(distances["ssw"], distances["ssw"][1:], strict=False))
assert uneven[0] > 5 * uneven[1]
