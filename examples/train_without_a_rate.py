"""Train an image generator and an autoencoder with no learning rate anywhere, by `slicewise.optim.Computed`.

    python examples/train_without_a_rate.py --steps 1000 --out no-rate.png

Trains three networks on scikit-learn's digits (1,797 images of 8 × 8 pixels): a convolutional generator on pixels in
[0, 1], the same generator on pixels in [0, 255], and an autoencoder whose codes follow a normal distribution in the plane.
All of them have batch normalization, and all are trained by the same line of code: the scale of outputs and the length of
every step are computed.
Writes one picture of the results and of the step lengths. It takes about a minute on two cores and needs
`pip install 'slicewise[lab]'`, for the digits and the picture.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import slicewise as sw

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOISE = 16  # dimensions of the generator's noise
BATCH = 256
SHOWN, ACROSS = 60, 10  # images in a gallery, and in each of its lines


class Generator(nn.Module):
    """Images of 8 × 8 pixels, as rows of 64, from noise: a linear layer and two transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NOISE, 64 * 2 * 2, bias=False),
            nn.BatchNorm1d(64 * 2 * 2),
            nn.ReLU(),
            nn.Unflatten(1, (64, 2, 2)),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
            nn.Flatten(),
        )

    def forward(self, noise: Tensor) -> Tensor:
        """Return images (B, 64) from noise (B, 16)."""
        return self.layers(noise)


class Autoencoder(nn.Module):
    """Codes in the plane from images, and images from codes."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(*_hidden(64, 128), *_hidden(128, 128), nn.Linear(128, 2))
        self.decode = nn.Sequential(*_hidden(2, 128), *_hidden(128, 128), nn.Linear(128, 64))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return codes (B, 2) and reconstructions (B, 64)."""
        codes = self.encode(images)
        return codes, self.decode(codes)


def _hidden(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()


@dataclass
class Trained:
    """A trained network, and the loss and the computed length of each of its steps."""

    network: nn.Module
    losses: list[float]
    lengths: list[float]


def train(
    network: nn.Module, loss_of_batch: Callable[[], Callable[[], Tensor]], steps: int
) -> Trained:
    """Train a network without a rate.

    Args:
        network: trained in place.
        loss_of_batch: draws a batch and returns its loss as a function, which may be called several times.
        steps: number of steps.
    """
    optimizer = sw.optim.Computed(network.parameters(), total_steps=steps)
    found = Trained(network, [], [])
    for _ in range(steps):
        found.losses.append(optimizer.step(loss_of_batch()).item())
        found.lengths.append(float(optimizer.length))
    network.eval()
    return found


def train_generator(images: Tensor, steps: int) -> Trained:
    """Train a generator on images (N, 64), whatever the unit of their pixels."""
    torch.manual_seed(0)
    generator, distance = Generator(), sw.SlicedWasserstein("sw", n_slices=100)

    def batch() -> Callable[[], Tensor]:
        noise, real = torch.randn(BATCH, NOISE), images[torch.randperm(len(images))[:BATCH]]
        return lambda: distance(generator(noise), real)

    return train(generator, batch, steps)


def train_autoencoder(images: Tensor, steps: int) -> Trained:
    """Train an autoencoder on images (N, 64): squared error, and the distance of its codes to a normal distribution."""
    torch.manual_seed(0)
    autoencoder, distance = Autoencoder(), sw.SlicedWasserstein("sw", n_slices=50)

    def batch() -> Callable[[], Tensor]:
        real, prior = images[torch.randperm(len(images))[:BATCH]], torch.randn(BATCH, 2)

        def loss() -> Tensor:
            codes, again = autoencoder(real)
            return nn.functional.mse_loss(again, real) + distance(codes, prior)

        return loss

    return train(autoencoder, batch, steps)


@torch.no_grad()
def measured(generator: nn.Module, images: Tensor) -> float:
    """Return SW_2 between as many samples of a generator as there are images, in units of the images' spread."""
    made = generator(torch.randn(len(images), NOISE, generator=torch.Generator().manual_seed(1)))
    distance = sw.sliced_wasserstein(made, images, n_slices=1000, generator=0)
    return float(distance / images.std(dim=0).norm())


@dataclass
class Found:
    """The trained networks, and how near they are.

    Args:
        generators: the two generators, by the largest value of a pixel.
        distances: SW_2 of their samples to the digits, in units of the spread of the digits.
        autoencoder: trained on pixels in [0, 1].
        error: the share of the variance that it leaves.
        apart: SW_2 of its codes to as many normal samples.
    """

    generators: Mapping[int, Trained]
    distances: Mapping[int, float]
    autoencoder: Trained
    error: float
    apart: float


def draw(images: Tensor, labels: Tensor, found: Found, out: Path) -> None:
    """Draw data, samples, reconstructions, codes and step lengths.

    Args:
        images: the digits (N, 64), pixels in [0, 1].
        labels: which digits they are, (N,).
        found: what was trained.
        out: the file of the picture.
    """
    from slicewise.lab.images import PAGE_WIDTH, blank, in_style, save_png

    with torch.no_grad():
        noise = torch.randn(SHOWN, NOISE, generator=torch.Generator().manual_seed(2))
        samples = {most: one.network(noise) / most for most, one in found.generators.items()}
        codes, again = found.autoencoder.network(images)
    half = SHOWN // 2
    lines = [part.reshape(-1, 1, ACROSS, 64) for part in (images[:half], again[:half])]
    galleries = {"The data: digits of 8 × 8 pixels": images[:SHOWN]}
    for most, made in samples.items():
        words = f"Generator, {_pixels(most)}: SW₂ is\n{found.distances[most]:.3f} of the spread of the data"
        galleries[words] = made
    words = f"Autoencoder: {100 * found.error:.0f} % of the variance is left\n(digits, below each its reconstruction)"
    galleries[words] = torch.cat(lines, dim=1).reshape(-1, 64)
    out.parent.mkdir(parents=True, exist_ok=True)
    with in_style():
        figure = blank(PAGE_WIDTH, 8.6)
        panels = list(figure.subplots(3, 2, height_ratios=(1, 1, 1.35)).flat)
        for panel, (title, rows) in zip(panels, galleries.items(), strict=False):
            panel.imshow(_tiles(rows).numpy(), cmap="gray_r", vmin=0, vmax=1)
            panel.set_title(title)
            panel.set_axis_off()
        _draw_codes(panels[4], codes, labels, found.apart)
        _draw_lengths(panels[5], found)
        save_png(figure, out)


def _draw_codes(panel: Axes, codes: Tensor, labels: Tensor, apart: float) -> None:
    from slicewise.lab.images import CLASSES

    angle = torch.linspace(0, 2 * torch.pi, 100)
    circle = torch.stack([angle.cos(), angle.sin()])
    for sigmas in (1, 2, 3):
        panel.plot(*(sigmas * circle).numpy(), color="0.5", lw=0.8, zorder=3)
    panel.scatter(*codes.T.numpy(), c=[CLASSES[digit] for digit in labels.tolist()], s=5)
    edge = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1}
    for digit in range(10):
        at = codes[labels == digit].median(dim=0).values.tolist()
        panel.text(*at, str(digit), fontsize=11, weight="bold", ha="center", va="center", zorder=4, bbox=edge)  # fmt: skip
    panel.set(aspect="equal", xlim=(-3.6, 3.6), ylim=(-3.6, 3.6))
    panel.set(xlabel="first coordinate (circles: 1, 2, 3 σ of the prior)", ylabel="second")
    panel.set_title(f"Its codes are SW₂ {apart:.3f} from\nas many normal samples")


def _draw_lengths(panel: Axes, found: Found) -> None:
    curves = {f"generator, {_pixels(most)}": one for most, one in found.generators.items()}
    curves["autoencoder"] = found.autoencoder
    for name, one in curves.items():
        # A step on a batch that asks for none has length 0, which a logarithmic axis leaves out.
        shown = [length or math.nan for length in one.lengths]
        panel.plot(range(1, len(shown) + 1), shown, lw=1.2, label=name)
    small, large = (sum(one.lengths) for one in found.generators.values())
    panel.set(yscale="log", xlabel="step", ylabel="length, as a share of the weights")
    panel.set_title(
        f"Steps for pixels in [0, 255] change\n{large / small:.2g} times as much of the weights"
    )
    panel.grid()
    panel.legend(loc="lower left")


def _pixels(most: int) -> str:
    return f"pixels in [0, {most}]"


def _tiles(rows: Tensor) -> Tensor:
    """Arrange images (n, 64) in lines of ten, with a gap between them."""
    padded = nn.functional.pad(rows.reshape(-1, ACROSS, 8, 8), (1, 1, 1, 1))
    return padded.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)


def main() -> None:
    """Train the three networks, print how near they are, and draw the picture."""
    parser = argparse.ArgumentParser(description="A generator and an autoencoder without a learning rate.")  # fmt: skip
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("no-rate.png"), help="the picture")
    given = parser.parse_args()
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    generators = {most: train_generator(most * images, given.steps) for most in (1, 255)}
    distances = {most: measured(one.network, most * images) for most, one in generators.items()}
    for most, left in distances.items():
        print(f"generator, {_pixels(most)}: SW_2 {left:.4f} of the spread of the data")
    autoencoder = train_autoencoder(images, given.steps)
    with torch.no_grad():
        codes, again = autoencoder.network(images)
        error = float(nn.functional.mse_loss(again, images) / images.var(dim=0).mean())
        prior = torch.randn(len(codes), 2, generator=torch.Generator().manual_seed(3))
        apart = float(sw.sliced_wasserstein(codes, prior, n_slices=1000, generator=0))
    print(f"autoencoder: {error:.3f} of the variance is left, codes are SW_2 {apart:.3f} from the prior")  # fmt: skip
    found = Found(generators, distances, autoencoder, error, apart)
    draw(images, torch.tensor(digits.target), found, given.out)
    print(f"picture: {given.out}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # networks this small gain nothing from more
    main()
