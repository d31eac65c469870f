"""Networks trained by a sliced distance.

`training` has the call `train` and its result; `networks` a generator, a translator and stacks of them; `settings`
holds the options, `data` draws minibatches, `step` makes one step, `loop` all of them, `optimizers` has the optimizer
of a stack; `replay` captures steps as CUDA graphs, `checkpoint` saves and restores a training.

Imports `flows` and the rooms before it. Used by `lab`.
"""

from slicewise.training.networks import Generator, Layers, Stack, Translator
from slicewise.training.optimizers import StackedOptimizer
from slicewise.training.settings import Precision
from slicewise.training.training import Training, train

__all__ = [
    "Generator",
    "Layers",
    "Precision",
    "Stack",
    "StackedOptimizer",
    "Training",
    "Translator",
    "train",
]
