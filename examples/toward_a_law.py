"""Push codes and embeddings toward a normal law that is known: an autoencoder, and self-supervised learning.

    python examples/toward_a_law.py --steps 400 --out toward-a-law.png

On scikit-learn's digits (1,797 images of 8 × 8 pixels). The autoencoder's codes are compared with the normal law itself,
no prior is sampled. The self-supervised encoder sees two distorted views of each image; its embeddings are pulled together
and regularized toward the normal law by `SlicedNormal`, by `SIGReg`, or by a plain penalty on mean and covariance. A
linear probe then reads the digits from its features. No learning rate is given anywhere (`sw.optim.Computed`). Each
regularizer has the best of three weights on a validation set; the accuracy is that on images nobody chose by. It takes
some minutes on one core and needs `pip install 'slicewise[lab]'`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import slicewise as sw

BATCH, FEATURES, EMBEDDING = 256, 128, 16
WEIGHTS = (0.1, 0.5, 0.9)
Regularizer = Callable[[Tensor], Tensor]


def hidden(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """A linear layer, normalized over the batch."""
    return nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()


def train(
    network: nn.Module, loss_of_batch: Callable[[], Callable[[], Tensor]], steps: int
) -> float:
    """Train without a rate; return the mean loss of the last tenth of the steps."""
    optimizer = sw.optim.Computed(network.parameters(), total_steps=steps)
    losses = [float(optimizer.step(loss_of_batch())) for _ in range(steps)]
    network.eval()
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


def train_autoencoder(images: Tensor, steps: int) -> tuple[nn.Module, nn.Module]:
    """Codes in the plane whose law is the standard normal one, and a decoder of them."""
    torch.manual_seed(0)
    encoder = nn.Sequential(*hidden(64, 128), *hidden(128, 128), nn.Linear(128, 2))
    decoder = nn.Sequential(*hidden(2, 128), *hidden(128, 128), nn.Linear(128, 64))
    prior, distance = sw.laws.Normal(), sw.SlicedWasserstein("sw", n_slices=50)

    def batch() -> Callable[[], Tensor]:
        real = images[torch.randperm(len(images))[:BATCH]]

        def loss() -> Tensor:
            codes = encoder(real)
            return nn.functional.mse_loss(decoder(codes), real) + distance(codes, prior)

        return loss

    train(nn.ModuleList([encoder, decoder]), batch, steps)
    return encoder, decoder


def covariance_penalty(x: Tensor) -> Tensor:
    """The squared distance of mean and covariance from those of the normal law, per dimension."""
    mean = x.mean(dim=0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    off = covariance - torch.eye(x.shape[1])
    return (mean.square().sum() + off.square().sum()) / x.shape[1]


def nothing(x: Tensor) -> Tensor:
    """No regularizer at all."""
    return 0.0 * x.sum()


def regularizers() -> dict[str, Regularizer]:
    """By name, all from scratch."""
    return {
        "SlicedNormal": sw.nn.SlicedNormal(64),
        "SIGReg": sw.nn.SIGReg(64),
        "mean and covariance": covariance_penalty,
        "none": nothing,
    }


def distorted(images: Tensor) -> Tensor:
    """Images (B, 64), each turned by up to 20°, scaled by up to 15 % and moved by up to a pixel, with some noise."""
    n = len(images)
    turn = (torch.rand(n) * 2 - 1) * math.radians(20)
    size = 1 + (torch.rand(n) * 2 - 1) * 0.15
    matrix = torch.zeros(n, 2, 3)
    matrix[:, 0, 0] = matrix[:, 1, 1] = turn.cos() / size
    matrix[:, 0, 1], matrix[:, 1, 0] = -turn.sin() / size, turn.sin() / size
    matrix[:, :, 2] = (torch.rand(n, 2) * 2 - 1) / 4
    grid = nn.functional.affine_grid(matrix, [n, 1, 8, 8], align_corners=False)
    moved = nn.functional.grid_sample(images.reshape(n, 1, 8, 8), grid, align_corners=False)
    return moved.flatten(1) + 0.1 * torch.randn(n, 64)


class Encoder(nn.Module):
    """Features of images, which a probe reads, and embeddings of them, which the loss is about."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(*hidden(64, 256), *hidden(256, FEATURES))
        self.head = nn.Sequential(*hidden(FEATURES, 128), nn.Linear(128, EMBEDDING))

    def forward(self, images: Tensor) -> Tensor:
        """Return embeddings (B, 16) of images (B, 64)."""
        return self.head(self.backbone(images))


def train_encoder(
    images: Tensor, regularizer: Regularizer, weight: float, steps: int, seed: int
) -> Encoder:
    """Two views of an image near each other, all embeddings near the normal law."""
    torch.manual_seed(seed)
    encoder = Encoder()

    def batch() -> Callable[[], Tensor]:
        real = images[torch.randperm(len(images))[:BATCH]]
        views = torch.cat([distorted(real), distorted(real)])

        def loss() -> Tensor:
            embeddings = encoder(views)
            one, other = embeddings.chunk(2)
            apart = (one - other).square().mean() / 4  # from their mean
            return (1 - weight) * apart + weight * (regularizer(one) + regularizer(other)) / 2

        return loss

    train(encoder, batch, steps)
    return encoder


@torch.no_grad()
def probe(encoder: Encoder | None, parts: list[tuple[Tensor, Tensor]]) -> list[float]:
    """The accuracy of a linear classifier of features, on each part after the first, which it is fitted to."""
    features = [x if encoder is None else encoder.backbone(x) for x, _ in parts]
    middle, width = features[0].mean(dim=0), features[0].std(dim=0) + 1e-6
    rows = [((x - middle) / width).numpy() for x in features]
    model = LogisticRegression(max_iter=2000, C=0.1).fit(rows[0], parts[0][1].numpy())
    return [float(model.score(x, y.numpy())) for x, (_, y) in zip(rows[1:], parts[1:], strict=True)]


def draw(codes: Tensor, labels: Tensor, apart: float, accuracies: dict[str, list[float]], out: Path) -> None:  # fmt: skip
    """Codes beside the law they follow, and what probes read."""
    from slicewise.lab.images import BLUE, CLASSES, PAGE_WIDTH, blank, in_style, save_png

    out.parent.mkdir(parents=True, exist_ok=True)
    with in_style():
        figure = blank(PAGE_WIDTH, 3.9)
        left, right = figure.subplots(1, 2)
        angle = torch.linspace(0, 2 * torch.pi, 100)
        for sigmas in (1, 2, 3):
            circle = sigmas * torch.stack([angle.cos(), angle.sin()])
            left.plot(*circle.numpy(), color="0.5", lw=0.8, zorder=3)
        for digit in range(10):
            left.scatter(*codes[labels == digit].T.numpy(), s=5, color=CLASSES[digit])
        left.set(aspect="equal", xlim=(-3.6, 3.6), ylim=(-3.6, 3.6))
        left.set(xlabel="first coordinate\n(colors: digits; circles: 1, 2, 3 σ)", ylabel="second")
        left.set_title(f"Codes of an autoencoder\nare SW₂ {apart:.2f} from the normal law")
        means = {name: 100 * sum(some) / len(some) for name, some in accuracies.items()}
        for place, (name, mean) in enumerate(means.items()):
            right.plot(mean, place, "D", ms=7, color=BLUE if "Sliced" in name else "0.6", zorder=2)
            seeds = [100 * one for one in accuracies[name]]
            right.plot(seeds, [place] * len(seeds), ".", color="black", ms=5, zorder=3)
        right.set_yticks(range(len(means)), [name.replace(" and ", " and\n") for name in means])
        right.set_ylim(len(means) - 0.5, -0.5)
        right.set_xlabel("accuracy of a linear probe, %\n(diamonds: means; dots: seeds)")
        right.grid(axis="x")
        best = max(means, key=lambda name: means[name])
        beside = "pixels, no encoder" if best == "SlicedNormal" else "SlicedNormal"
        right.set_title(f"Highest mean: {best.replace(' and ', ' + ')},\n{means[best]:.1f} % ({beside}: {means[beside]:.1f} %)")  # fmt: skip
        save_png(figure, out)


def main() -> None:
    """Train, probe, print, draw."""
    parser = argparse.ArgumentParser(description="Codes and embeddings toward a law that is known.")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("toward-a-law.png"), help="the picture")
    given = parser.parse_args()
    digits = load_digits()
    images = torch.tensor(digits.data / 16, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    encoder, decoder = train_autoencoder(images, given.steps)
    with torch.no_grad():
        codes = encoder(images)
        left = nn.functional.mse_loss(decoder(codes), images) / images.var(dim=0).mean()
        apart = sw.sliced_wasserstein(codes, sw.laws.Normal(), n_slices=1000, generator=0)
    print(
        f"autoencoder: {left:.3f} of the variance is left, codes are SW_2 {apart:.4f} from the law"
    )
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    parts = [(images[some], labels[some]) for some in order.split([997, 300, 500])]
    accuracies: dict[str, list[float]] = {}
    for name in regularizers():
        accuracies[name] = []
        for seed in range(given.seeds):
            found = []
            for weight in WEIGHTS if name != "none" else WEIGHTS[:1]:
                trained = train_encoder(
                    parts[0][0], regularizers()[name], weight, given.steps, seed
                )
                found.append((*probe(trained, parts), weight))
            _, accuracy, weight = max(found)
            accuracies[name].append(accuracy)
            print(f"{name}, seed {seed}: {100 * accuracy:.1f} % by a linear probe, weight {weight}")
    accuracies["pixels, no encoder"] = probe(None, parts)[1:]
    print(f"pixels, no encoder: {100 * accuracies['pixels, no encoder'][0]:.1f} %")
    draw(codes, labels, float(apart), accuracies, given.out)
    print(f"picture: {given.out}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # networks this small gain nothing from more
    main()
