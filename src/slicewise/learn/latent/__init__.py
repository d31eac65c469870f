"""Networks trained by a sliced distance: noise to samples, samples of one kind to samples of another."""

from slicewise.learn.latent.networks import Generator, Stack, Translator
from slicewise.learn.latent.training import Training, train

__all__ = ["Generator", "Stack", "Training", "Translator", "train"]
