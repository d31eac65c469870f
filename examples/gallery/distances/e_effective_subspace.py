"""
Data that span few dimensions look closer than they are
=======================================================

Planar data in d dimensions: a random slice sees only the part of it that lies in the plane, so SW₂² shrinks to k/d of what
it is in the plane. The paper calls this the effective subspace scaling factor. Nothing is lost: the φ-weighted variant
``phisw`` rescales each slice, and :class:`slicewise.Subspace` reduces the data to their own dimensions.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
plane_x, plane_y = torch.randn(300, 2), torch.randn(300, 2) + torch.tensor([2.0, 0.0])
in_plane = sw.sliced_wasserstein(plane_x, plane_y, n_slices=2000, objective="power")
dimensions = [2, 5, 10, 20, 50, 100, 200, 500]
plain, rescaled = [], []
for d in dimensions:
    basis = torch.linalg.qr(torch.randn(d, 2)).Q  # (d, 2): the plane within d dimensions
    x, y = plane_x @ basis.T, plane_y @ basis.T
    plain.append(sw.sliced_wasserstein(x, y, n_slices=2000, objective="power"))
    rescaled.append(sw.sliced_wasserstein(x, y, "phisw", n_slices=2000, objective="power"))

fig, ax = plt.subplots(figsize=(7, 3.8))
ax.loglog(dimensions, plain, "o-", label="sw")
ax.loglog(
    dimensions, [sw.essf(d, 2) * in_plane for d in dimensions], "k:", label="2/d of the plane's"
)
ax.loglog(dimensions, rescaled, "s-", color="C3", label="phisw")
ax.set(xlabel="d, dimensions around the plane", ylabel="SW$_2^2$")
ax.set_title(
    f"In 500 dimensions slices see {plain[-1] / in_plane:.1%} of the distance; φ-weights undo it"
)
ax.legend()
plt.show()

# %%
# The factor is common to all slices on average. It changes the scale of the loss and therefore the learning rate that is
# right, not the minimizer: the paper's point, and the reason why steps are better computed than searched for.

plane = sw.effective_subspace(x, y)
print(
    plane.k,
    sw.sliced_wasserstein(plane.reduce(x), plane.reduce(y), n_slices=2000, objective="power"),
)
assert plane.k == 2
assert abs(plain[-1] / in_plane / sw.essf(500, 2) - 1) < 0.1
assert abs(rescaled[-1] / in_plane - 1) < 0.1
