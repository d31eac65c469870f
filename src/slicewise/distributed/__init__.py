"""One loss over the samples of several processes, on `torch.distributed` alone."""

from slicewise.distributed.collectives import Ranks
from slicewise.distributed.meeting import Terms, meet, terms_for
from slicewise.distributed.routes import Exchange

__all__ = ["Exchange", "Ranks", "Terms", "meet", "terms_for"]
