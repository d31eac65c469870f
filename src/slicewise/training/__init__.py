"""Networks trained by a sliced distance.

`train` is the call; `networks` has a generator, a translator and stacks of them; `settings` holds the options, `data`
deals minibatches, `step` makes one step, `loop` all of them, `optimizers` those of a stack; `replay` makes steps a CUDA
graph, `checkpoint` lets a training be killed and resumed.

Imports `flows` and the rooms before it. Used by `lab`.
"""

from slicewise.judging import Judge, Judgement, judge
from slicewise.training.networks import Generator, Layers, Stack, Translator
from slicewise.training.optimizers import StackedOptimiser
from slicewise.training.settings import Precision
from slicewise.training.training import Training, train

__all__ = [
    "Generator",
    "Judge",
    "Judgement",
    "Layers",
    "Precision",
    "Stack",
    "StackedOptimiser",
    "Training",
    "Translator",
    "judge",
    "train",
]
