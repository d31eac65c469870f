"""One learning rate for every dimension: train a generator by a sliced distance, scale="displacement".

    python examples/train_generator.py --steps 500

Trains the same network on the same curved data laid into 16 and into 256 dimensions, by plain SGD with one rate,
for the classic loss and for the displacement scale. The classic gradient shrinks as the dimension grows, so that its
one rate is right in one place at most.
"""

from __future__ import annotations

import argparse

import torch

import slicewise as sw


def curved(n: int, frame: torch.Tensor) -> torch.Tensor:
    """Samples (n, d) of a curved surface, laid into R^d by an orthonormal frame (5, d)."""
    u = torch.randn(n, 2)
    return (
        torch.stack([u[:, 0], u[:, 1], torch.sin(2 * u[:, 0]), u.prod(dim=1), u[:, 1] ** 2], dim=1)
        @ frame
    )


def train(d: int, scale: str, rate: float, steps: int) -> float:
    """Exact W_2 to the data after training."""
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
    optimiser = torch.optim.SGD(generator.parameters(), lr=rate)
    for _ in range(steps):
        optimiser.zero_grad()
        loss(generator(torch.randn(256, 8)), curved(256, frame)).backward()
        optimiser.step()
    with torch.no_grad():
        return sw.wasserstein(generator(torch.randn(512, 8)), curved(512, frame)).item()


def main() -> None:
    """Both scales, two dimensions, one rate each."""
    parser = argparse.ArgumentParser(description="One learning rate for every dimension.")
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    print(f"{'scale':14}{'rate':>6}{'W2, d = 16':>12}{'W2, d = 256':>13}")
    for scale, rate in (("classic", 0.5), ("displacement", 0.2)):
        left = [train(d, scale, rate, given.steps) for d in (16, 256)]
        print(f"{scale:14}{rate:6}{left[0]:12.3f}{left[1]:13.3f}", flush=True)


if __name__ == "__main__":
    main()
