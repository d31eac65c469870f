"""One loss over the samples of several processes, on `torch.distributed` alone.

`collectives` sends and counts; `handshake` compares what the processes were given; `joint_problem` makes one problem of
their shares; `matching` and `populations` are what a problem needs of several processes; `exchange` chooses what travels.

Imports `support`, `transport`, `problem`, `variants`. Used by `distance.loss` when it is given a process group.
"""

from slicewise.distributed.collectives import Ranks
from slicewise.distributed.exchange import Exchange
from slicewise.distributed.joint_problem import Terms, meet, terms_for
from slicewise.distributed.populations import handed_out, summed

__all__ = [
    "Exchange",
    "Ranks",
    "Terms",
    "handed_out",
    "meet",
    "summed",
    "terms_for",
]
