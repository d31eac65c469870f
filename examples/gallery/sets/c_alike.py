"""
Which sets are alike?
=====================

Ten sets of images, one for each digit. ``pairwise`` computes all distances on shared slices, so that the matrix is a true
metric and can be given to any method that takes one, here a hierarchical clustering.
"""

import matplotlib.pyplot as plt
import torch
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform
from sklearn.datasets import load_digits

import slicewise as sw

images, labels = load_digits(return_X_y=True)
sets = [torch.tensor(images[labels == digit], dtype=torch.float32) for digit in range(10)]
halves = [half for s in sets for half in (s[::2], s[1::2])]  # each digit twice
distances = sw.pairwise(halves, n_slices=200, generator=0)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4))
drawn = axes[0].imshow(distances)
axes[0].set(
    title="SW$_2$ between halves of ten digits", xticks=range(0, 20, 2), yticks=range(0, 20, 2)
)
axes[0].set_xticklabels(range(10))
axes[0].set_yticklabels(range(10))
fig.colorbar(drawn, ax=axes[0], shrink=0.8)
tree = linkage(squareform(distances.double().numpy(), checks=False), "average")
dendrogram(
    tree,
    labels=[i // 2 for i in range(20)],
    ax=axes[1],
    color_threshold=0,
    above_threshold_color="C0",
)
axes[1].set(
    title="The two halves of every digit find each other", ylabel="distance at which groups join"
)
axes[1].tick_params(labelsize=9)
plt.show()

assert distances.shape == (20, 20)
nearest = distances.fill_diagonal_(torch.inf).argmin(dim=1)
assert (nearest == torch.arange(20) ^ 1).all()
