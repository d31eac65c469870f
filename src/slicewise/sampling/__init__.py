"""Random numbers, and directions made of them.

`generators` draws from torch's generators, `philox` from counters (a function of seed, step and place), `run_seeds`
gives each run of a batch its own stream, `tickets` each call on a device its own numbers; `sphere` draws directions from the laws that slicing uses, `point_sets` are
directions that are spread evenly.

Imports `support`. Used by every room that draws.
"""

from slicewise.sampling.generators import Generators, Randomness, as_generators, one_generator
from slicewise.sampling.philox import DRAWS
from slicewise.sampling.point_sets import Points
from slicewise.sampling.run_seeds import RunSeeds, Stream, draw_seeds
from slicewise.sampling.sphere import normalize, orthonormal, rotation, uniform
from slicewise.sampling.tickets import (
    ByTicket,
    Ticket,
    by_next_ticket,
    can_take_tickets,
    on_device,
    take_ticket,
)
