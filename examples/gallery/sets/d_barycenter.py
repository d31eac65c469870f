"""
The mean of shapes
==================

The barycenter of several sets is the set with the least weighted distance to all of them. Three shapes at the corners of a
triangle, their means between; no rate is given.
"""

import math

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
n = 200
turn = 2 * math.pi * torch.rand(n)
ring = torch.stack([turn.cos(), turn.sin()], dim=1)
along = 2 * torch.rand(n) - 1
cross = torch.stack([along, 0.08 * torch.randn(n)], dim=1)
cross[: n // 2] = cross[: n // 2].flip(1)
square = 2 * torch.rand(n, 2) - 1
square[torch.arange(n), torch.randint(2, (n,))] = torch.randint(2, (n,)).float() * 2 - 1

weights = [(a, b, 3 - a - b) for a in range(4) for b in range(4 - a)]
fig, ax = plt.subplots(figsize=(6.4, 5.8))
ended = []
for triple in weights:
    found = sw.barycenter([ring, cross, square], weights=triple, generator=0)
    ended.append(found.status)
    a, b, _ = triple
    center = torch.tensor([b + a / 2, a * math.sqrt(3) / 2]) * 2.9
    ax.scatter(*(found.samples + center).T, s=4, color="C2" if max(triple) < 3 else "C0")
ax.set(title="Between a ring, a cross and a square", aspect="equal")
ax.set_axis_off()
plt.show()

print(ended)
assert "out of steps" not in ended
