"""
Outliers can be left behind
===========================

A few far samples pull every plan toward them. The unbalanced distance may leave mass where it is, at a price: with the
marginals of all slices in common it says which samples are outliers.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
x, y = torch.randn(200, 2), torch.randn(200, 2) + torch.tensor([3.0, 0.0])
x[:10] = torch.randn(10, 2) + torch.tensor([-6.0, 12.0])  # one in twenty is far away
penalties = torch.logspace(-1, 3, 13)
balanced = sw.sliced_wasserstein(x, y, objective="power", generator=0)
clean = sw.sliced_wasserstein(x[10:], y, objective="power", generator=0)
values = [
    sw.unbalanced(x, y, float(penalty), marginals="shared", generator=0) for penalty in penalties
]
chosen = sw.unbalanced(x, y, 10.0, marginals="shared", generator=0)
kept = chosen.x_marginal * 200

fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.8))
drawn = axes[0].scatter(*x.T, c=kept, s=16, vmin=0, vmax=1.2)
axes[0].scatter(*y.T, s=6, color="C1", label="y")
axes[0].set(title="Mass that x keeps, at penalty 10", aspect="equal")
axes[0].legend()
fig.colorbar(drawn, ax=axes[0], label="of its share")
axes[1].semilogx(
    penalties, [value.transport for value in values], "o-", label="transport, unbalanced"
)
axes[1].axhline(balanced, color="0.5", ls=":", label="SW$_2^2$ of all samples")
axes[1].axhline(clean, color="C2", ls="--", label="SW$_2^2$ without the outliers")
axes[1].set(xlabel="penalty", ylabel="cost")
axes[1].set_title(f"Ten samples of 200 make up {1 - clean / balanced:.0%} of SW$_2^2$")
axes[1].legend()
plt.show()

assert kept[:10].max() < 0.1 < 0.5 < kept[10:].median()
