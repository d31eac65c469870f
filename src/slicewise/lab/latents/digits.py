"""Latents that need no file: handwritten digits, encoded by a small network that is trained in seconds."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from slicewise.lab.data import Array, Images, all_digits
from slicewise.lab.latents.sets import Latents

_LATENT, _HIDDEN, _STEPS, _BATCH, _RATE = 32, 256, 600, 64, 3e-3
# Noise on the latents, whose coordinates have variance one, so that points between digits decode to strokes.
_NOISE = 0.3
_HELD = 1_000
_PAIRS = (("3", "8"), ("0", "1"), ("4", "9"))


class _Network(NamedTuple):
    encoder: nn.Module
    decoder: nn.Module


@functools.cache
def digits() -> Latents:
    """Return 5,000 MNIST digits in 32 coordinates; a random 1,000, which the encoder has not seen, are held out."""
    source, images, labels = all_digits()
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], labels[order]
    held = np.arange(len(images)) >= len(images) - _HELD
    pixels = torch.from_numpy(images.reshape(len(images), -1)).float() / 255
    network = _trained(pixels[torch.from_numpy(~held)])
    with torch.no_grad():
        rows = network.encoder(pixels)
    made_of = (_LATENT, _HIDDEN, _STEPS, _BATCH, _RATE, _NOISE, Images(source, images).digest)
    return Latents(
        f"{source}, encoded",
        rows,
        held,
        {"digit": labels},
        {str(digit): labels == digit for digit in range(10)},
        _PAIRS,
        (
            f"an autoencoder of {_LATENT} coordinates, trained here on the {len(images) - _HELD:,} digits not held out",
        ),
        decoder=functools.partial(_decoded, network.decoder),
        made_of=repr(made_of),
    )


def _trained(pixels: Tensor) -> _Network:
    # Initial weights come from torch's global generator, whose state is restored; batches and noise from their own.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = _Network(
            nn.Sequential(
                nn.Linear(pixels.shape[1], _HIDDEN),
                nn.ReLU(),
                nn.Linear(_HIDDEN, _LATENT),
                nn.BatchNorm1d(_LATENT, affine=False),
            ),
            nn.Sequential(
                nn.Linear(_LATENT, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, pixels.shape[1])
            ),
        )
    generator = torch.Generator().manual_seed(0)
    parameters = [*network.encoder.parameters(), *network.decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=_STEPS)
    # Gradients are needed even if the caller has disabled them.
    with torch.inference_mode(False), torch.enable_grad():
        for _ in range(_STEPS):
            batch = pixels[torch.randint(len(pixels), (_BATCH,), generator=generator)]
            latents = network.encoder(batch)
            noise = torch.randn(latents.shape, generator=generator)
            found = network.decoder(latents + _NOISE * noise)
            loss = nn.functional.binary_cross_entropy_with_logits(found, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    for part in network:
        part.eval()
    return network


def _decoded(decoder: nn.Module, latents: Tensor) -> Array:
    with torch.no_grad():
        pixels = torch.sigmoid(decoder(latents))
    return (255 * pixels).round().to(torch.uint8).reshape(-1, 28, 28).numpy()
