"""
The right learning rate moves with the dimension
================================================

Plain gradient descent on SW₂² needs a learning rate. In the plane three variants arrive at similar rates. The
same target rotated into 50 dimensions moves SW's range by more than an order of magnitude, RPSW's less and MaxSW's hardly
at all: with one rate for all, MaxSW would look best in 50 dimensions for no other reason. The computed step needs no rate.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw
from slicewise.lab.data import toy
from slicewise.lab.images import STYLES

rates = torch.logspace(-1, 4, 21, dtype=torch.float64)
best = {}

fig, axes = plt.subplots(1, 2, figsize=(9.5, 4.4), sharey=True)
for ax, d in zip(axes, (2, 50), strict=True):
    pair = toy("swiss", n=60, d=d, seed=0)
    for name in ("sw", "maxsw", "rpsw"):
        end = sw.Recording(w2_at=[200])
        swept = sw.flow(pair.x, pair.y, name, lr=rates, seeds=0, max_steps=200, recording=end)
        left = torch.where(
            swept.diverged, torch.nan, swept.history.w2[0]
        )  # (21,): a run for each rate
        best[name, d] = rates[left.nan_to_num(torch.inf).argmin()]
        style = STYLES[name]
        label = f"{name}: best at {best[name, d]:.0f}"
        ax.loglog(
            rates, left.clamp(min=1e-6), style.mark + "-", ms=4, color=style.color, label=label
        )
    computed = sw.flow(pair.x, pair.y, seeds=0)
    ax.axhline(
        1e-6, color="k", ls="--", label=f"no rate: {computed.status}, {computed.n_steps} steps"
    )
    ax.set(xlabel="learning rate", title=f"Swiss roll in {d} dimensions")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    assert computed.converged
axes[0].set_ylabel("exact W$_2$ left after 200 steps")
fig.suptitle(
    f"From 2 to 50 dimensions SW's best rate grows {best['sw', 50] / best['sw', 2]:.0f}-fold, MaxSW's hardly moves"
)
plt.show()

assert best["sw", 50] > 10 * best["sw", 2]
assert 1 / 3 < best["maxsw", 50] / best["maxsw", 2] < 3
