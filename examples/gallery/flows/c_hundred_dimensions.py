"""
A flow in 100 dimensions can be as short as in the plane
========================================================

The knot lies in a plane of a 100-dimensional space. A step there contracts slowly, since slices see little of the plane.
``flow`` first rotates the data into the dimensions that they span, which changes neither distances nor the result.
"""

import warnings

import matplotlib.pyplot as plt

import slicewise as sw
from slicewise.lab.data import toy

pair = toy("knot", n=150, d=100, seed=0)
alone = sw.Stopping(assign=False, w2=1e-3)  # sliced steps to the end, to compare them
steps = range(0, 301, 10)
settings = {
    "seeds": 0,
    "n_slices": 50,
    "max_steps": 300,
    "stopping": alone,
    "recording": sw.Recording(w2_at=steps),
}
reduced = sw.flow(pair.x, pair.y, **settings)
with warnings.catch_warnings(action="ignore", category=sw.NotArrivedWarning):
    whole = sw.flow(pair.x, pair.y, reduce=False, **settings)

fig, ax = plt.subplots(figsize=(7, 3.8))
ax.semilogy(
    steps,
    reduced.history.w2,
    label=f"in the {reduced.dimensions} dimensions of the data: {reduced.status}",
)
ax.semilogy(steps, whole.history.w2, label=f"in all 100 dimensions: {whole.status}")
ax.set(xlabel="step of 50 slices", ylabel="exact W$_2$")
ax.set_title(
    f"In its plane the knot arrives after {reduced.n_steps} steps; around it, not within {whole.n_steps}"
)
ax.legend()
plt.show()

assert reduced.converged
assert reduced.dimensions == 2
assert whole.w2 > 10 * reduced.w2
