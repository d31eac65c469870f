"""
An autoencoder whose codes follow a known law
=============================================

The squared error of the reconstruction, plus the sliced distance of the codes to the standard normal law: a
sliced-Wasserstein autoencoder. The law is not sampled; the distance to it is exact. No rate is given.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

import slicewise as sw

torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32) / 16
encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2))
decoder = nn.Sequential(nn.Linear(2, 128), nn.ReLU(), nn.Linear(128, 64))
loss, law = sw.SlicedWasserstein(n_slices=30), sw.laws.Normal()
optimizer = sw.optim.Computed([*encoder.parameters(), *decoder.parameters()], total_steps=500)
for _ in range(500):
    batch = images[torch.randint(len(images), (256,))]

    def both(batch=batch):
        """Squared error, and how far the codes are from the law."""
        codes = encoder(batch)
        return (decoder(codes) - batch).square().sum(dim=1).mean() + 10 * loss(codes, law)

    optimizer.step(both)

with torch.no_grad():
    codes = encoder(images)
    drawn = decoder(law.sample(60, 2, generator=0).float())
left = sw.sliced_wasserstein(codes, law, n_slices=500, generator=0)

fig, axes = plt.subplots(1, 2, figsize=(9, 4))
for digit in range(10):
    axes[0].scatter(*codes[labels == digit].T, s=5, color=plt.cm.tab10(digit), label=str(digit))
axes[0].set(
    title=f"Codes: SW$_2$ {left:.2f} from the normal law",
    aspect="equal",
    xlim=(-4, 4),
    ylim=(-4, 4),
)
axes[0].legend(ncols=2, markerscale=2)
tiles = drawn.reshape(6, 10, 8, 8).permute(0, 2, 1, 3).reshape(48, 80)
axes[1].imshow(tiles, cmap="gray_r", vmin=0, vmax=1)
axes[1].set_title("Samples of the law, decoded")
axes[1].set_axis_off()
plt.show()

assert left < 0.25
