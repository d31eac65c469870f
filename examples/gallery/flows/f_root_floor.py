"""
The root cannot settle, its square can
======================================

Minimizing SW₂ by a constant rate never converges: its gradient has the same length however near the target is, so that
particles oscillate at a distance in proportion to the rate. SW₂² has no such floor. ``slicewise.steps.root_floor``
predicts it.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw

torch.manual_seed(0)
n, d = 100, 10
y = torch.randn(n, d, dtype=torch.float64)
x = y + 0.05 * torch.randn(n, d, dtype=torch.float64)
steps = range(0, 401, 10)
record = sw.Recording(w2_at=steps)
rates = torch.tensor([0.3, 1.0, 3.0], dtype=torch.float64)
root = sw.flow(x, y, lr=rates, objective="root", seeds=0, max_steps=400, recording=record)
power = sw.flow(
    x, y, lr=n * sw.steps.best_step(50, d) / 2, seeds=0, max_steps=400, recording=record
)

fig, ax = plt.subplots(figsize=(7, 3.8))
for i, rate in enumerate(rates):
    floor = sw.steps.root_floor(float(rate), n, 50, d)
    ax.semilogy(
        steps, root.history.w2[:, i], color=f"C{i}", label=f"root, rate {rate:g}: floor {floor:.1e}"
    )
    ax.axhline(floor, color=f"C{i}", ls=":", lw=1)
ax.semilogy(
    steps, power.history.w2.clamp(min=1e-9), color="k", label="power, at the step that theory gives"
)
ax.set(xlabel="step", ylabel="exact W$_2$", ylim=(1e-9, None))
ax.set_title("On the root a constant rate ends at its floor")
ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
plt.show()

last = root.history.w2[-10:].mean(0)
predicted = torch.tensor([sw.steps.root_floor(float(rate), n, 50, d) for rate in rates])
assert ((last / predicted - 1).abs() < 0.1).all()
assert power.history.w2[-1] < predicted.min() / 1000
