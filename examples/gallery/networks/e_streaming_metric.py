"""
A metric over any number of samples, in fixed memory
====================================================

To judge a generator one compares many samples. The streaming metric keeps a sketch of their projections instead of the
samples, and states by how much its value can differ from the exact one.
"""

import matplotlib.pyplot as plt
import torch

import slicewise as sw
from slicewise.metric import StreamingSlicedWassersteinMetric

torch.manual_seed(0)
metric = StreamingSlicedWassersteinMetric(n_slices=20, capacity=256)
kept_x, kept_y, rows = [], [], []
for batch in range(1, 41):
    x, y = torch.randn(1000, 4), torch.randn(1000, 4) + 0.3
    metric.update(x, y)
    kept_x.append(x)
    kept_y.append(y)
    if batch in (1, 2, 5, 10, 20, 40):
        exact = sw.sliced_wasserstein(
            torch.cat(kept_x), torch.cat(kept_y), n_slices=20, generator=0
        )
        rows.append(
            (1000 * batch, float(metric.compute()), float(exact), float(metric.error_bound))
        )

n, streamed, exact, bound = map(torch.tensor, zip(*rows, strict=True))
fig, ax = plt.subplots(figsize=(7, 3.8))
ax.fill_between(n, streamed - bound, streamed + bound, alpha=0.2, label="stated error bound")
ax.semilogx(n, streamed, "o-", label="streamed")
ax.semilogx(n, exact, "x", ms=9, color="k", label="exact, all samples kept")
ax.set(xlabel="samples a side", ylabel="SW$_2$")
ax.set_title(
    f"The sketch is off by at most {(streamed - exact).abs().max():.0e}, far inside its bound"
)
ax.legend()
plt.show()

assert ((streamed - exact).abs() <= bound).all()
