"""Train a generator with one learning rate for every dimension: the loss with scale="displacement".

    python examples/train_generator.py --steps 500

Trains the same network on the same curved data, embedded in 16 and in 256 dimensions, by plain SGD with one rate: once
with the classic scale and once with the displacement scale. The classic gradient shrinks as the dimension grows, so that
one rate fits at most one of the two dimensions.
"""

from __future__ import annotations

import argparse

import torch

import slicewise as sw


def curved(n: int, frame: torch.Tensor) -> torch.Tensor:
    """Draw samples (n, d) of a curved surface, embedded in R^d by an orthonormal frame (5, d)."""
    u = torch.randn(n, 2)
    return (
        torch.stack([u[:, 0], u[:, 1], torch.sin(2 * u[:, 0]), u.prod(dim=1), u[:, 1] ** 2], dim=1)
        @ frame
    )


def train(d: int, scale: str, rate: float, steps: int) -> float:
    """Train a network; return the exact W_2 between its samples and the data."""
    torch.manual_seed(0)
    frame = torch.linalg.qr(torch.randn(d, 5)).Q.mT
    generator = torch.nn.Sequential(
        torch.nn.Linear(8, 128),
        torch.nn.Tanh(),
        torch.nn.Linear(128, 128),
        torch.nn.Tanh(),
        torch.nn.Linear(128, d),
    )
    loss = sw.SlicedWasserstein("sw", n_slices=50, scale=scale)
    optimizer = torch.optim.SGD(generator.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(generator(torch.randn(256, 8)), curved(256, frame)).backward()
        optimizer.step()
    with torch.no_grad():
        return sw.wasserstein(generator(torch.randn(512, 8)), curved(512, frame)).item()


def main() -> None:
    """Train with both scales in two dimensions, with one rate each."""
    parser = argparse.ArgumentParser(description="One learning rate for every dimension.")
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    print(f"{'scale':14}{'rate':>6}{'W2, d = 16':>12}{'W2, d = 256':>13}")
    for scale, rate in (("classic", 0.5), ("displacement", 0.2)):
        w2 = [train(d, scale, rate, given.steps) for d in (16, 256)]
        print(f"{scale:14}{rate:6}{w2[0]:12.3f}{w2[1]:13.3f}", flush=True)


if __name__ == "__main__":
    main()
