"""Networks trained in a latent space by a sliced distance: generation, translation, and how they are judged."""

from slicewise.learn.latent.judging import Judge, Judgement, judge
from slicewise.learn.latent.networks import Generator, Stack, Translator
from slicewise.learn.latent.training import Training, train

__all__ = ["Generator", "Judge", "Judgement", "Stack", "Training", "Translator", "judge", "train"]
