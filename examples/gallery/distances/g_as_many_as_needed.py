"""
As many slices as a tolerance needs
===================================

``n_slices="auto"`` draws slices until half of the 95 % confidence interval is within ``rtol`` of the value. Easy problems
stop early, and the interval says what is known.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
tolerances = [0.2, 0.1, 0.05, 0.02, 0.01]
problems = {
    "shift in d = 2": (torch.randn(300, 2), torch.randn(300, 2) + 1),
    "shift in d = 50": (torch.randn(300, 50), torch.randn(300, 50) + 1),
    "scale in d = 50": (torch.randn(300, 50), 2 * torch.randn(300, 50)),
}

fig, ax = plt.subplots(figsize=(7, 3.8))
used = {}
for name, (x, y) in problems.items():
    found = [sw.evaluate(x, y, n_slices="auto", rtol=rtol, generator=0) for rtol in tolerances]
    used[name] = [len(f.costs) for f in found]
    low, high = found[-1].interval(0.95)
    ax.loglog(tolerances, used[name], "o-", label=f"{name}: SW$_2$ in [{low:.3f}, {high:.3f}]")
ax.set(xlabel="relative tolerance", ylabel="slices drawn")
ax.invert_xaxis()
ax.set_title("How many slices are enough depends on the data, so let them decide")
ax.legend()
plt.show()

assert used["shift in d = 50"][-1] > 5 * used["scale in d = 50"][-1]
