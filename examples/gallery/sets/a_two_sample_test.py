"""
Do two sets differ, and where?
==============================

A permutation test along slices says how likely a distance this large is by chance. The same relabelings test every
coordinate, corrected for having looked at all of them, and say which samples contribute most.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
x, y = torch.randn(300, 20), torch.randn(250, 20)
y[:, 3] += 0.8  # one coordinate of twenty moved
found = sw.two_sample_test(x, y, generator=0)
same = sw.two_sample_test(x[:150], x[150:], generator=0)

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.7))
axes[0].hist(found.null, bins=40, color="0.75", label="relabeled")
axes[0].axvline(found.statistic, color="C1", lw=2, label=f"x and y: p = {found.p_value:.3f}")
axes[0].set(xlabel="SW$_2^2$", yticks=[], title="The distance is larger than chance explains")
axes[0].legend()
colors = ["C1" if p < 0.05 else "0.75" for p in found.coordinate_p_values]
axes[1].bar(range(20), -found.coordinate_p_values.log10(), color=colors)
axes[1].axhline(-torch.tensor(0.05).log10(), color="k", ls=":", label="level 0.05")
axes[1].set(
    xlabel="coordinate", ylabel="−log$_{10}$ of the corrected p-value", xticks=range(0, 20, 3)
)
axes[1].set_title(f"Coordinate {found.coordinate_p_values.argmin()} carries the difference")
axes[1].legend()
plt.show()

print(found)
assert found.p_value < 0.01
assert (found.coordinate_p_values < 0.05).nonzero().flatten().tolist() == [3]
assert same.p_value > 0.05
