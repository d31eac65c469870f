"""What every other room stands on: arguments, torch's modes, the dispatch to kernels, files.

`words` checks words and numbers, and knows the names a caller may have meant; `tensors` converts and checks arrays and
tensors, and detects compilation, transforms and autocast; `dispatch` is where kernels register and where the library
asks for them; `graphs` captures CUDA graphs; `files`, `checkpoint`, `progress` and `status` serve long runs; `renamed`
answers old names by new ones; `forks` notices that the process was forked; `doors` imports a name when it is first
asked for. This door does so, too: most of these files need no torch, and the command line begins with those.

Imports no other room. Used by all.
"""

from typing import TYPE_CHECKING

from slicewise.support.doors import open_on_demand

# Now, not on demand: it must see the fork.
from slicewise.support.forks import was_forked as was_forked

if TYPE_CHECKING:
    from slicewise.support.checkpoint import (
        CheckpointError,
        CheckpointFile,
        CheckpointWarning,
        fingerprint,
    )
    from slicewise.support.dispatch import (
        Copier,
        DeviceDraws,
        Kernels,
        LineLoops,
        MatchingLoops,
        current,
        kernels_for,
        line_loops,
        matching_loops,
        multiply,
        needs_gradient,
        one_thread,
        register,
        registered,
        share_pieces,
        sort_lines,
    )
    from slicewise.support.files import check_file_writable, check_writable, write_whole
    from slicewise.support.graphs import CapturedGraph, side_stream
    from slicewise.support.progress import progress_bar
    from slicewise.support.renamed import keep_old_paths, renamed_arguments
    from slicewise.support.status import NotArrivedWarning, Status, level_of_caller
    from slicewise.support.tensors import (
        Result,
        are_weights,
        as_tensor,
        broadcast,
        check_basis,
        check_broadcast,
        check_finite,
        check_generator,
        check_order,
        check_samples,
        check_set,
        check_slices,
        check_weight_sum,
        check_weights,
        full_precision,
        given_back,
        is_transformed,
        own_device,
        takes_arrays,
        values_readable,
    )
    from slicewise.support.words import (
        RENAMED,
        check_choice,
        check_count,
        check_flow_argument,
        check_number,
        check_option,
        comes_from_elsewhere,
        did_you_mean,
        meant,
    )
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "checkpoint": "CheckpointError CheckpointFile CheckpointWarning fingerprint",
            "dispatch": (
                "Copier DeviceDraws Kernels LineLoops MatchingLoops current kernels_for line_loops matching_loops "
                "multiply needs_gradient one_thread register registered share_pieces sort_lines"
            ),
            "files": "check_file_writable check_writable write_whole",
            "graphs": "CapturedGraph side_stream",
            "progress": "progress_bar",
            "renamed": "keep_old_paths renamed_arguments",
            "status": "NotArrivedWarning Status level_of_caller",
            "tensors": (
                "Result are_weights as_tensor broadcast check_basis check_broadcast check_finite "
                "check_generator check_order check_samples check_set check_slices "
                "check_weight_sum check_weights full_precision given_back is_transformed own_device takes_arrays "
                "values_readable"
            ),
            "words": (
                "RENAMED check_choice check_count check_flow_argument check_number check_option "
                "comes_from_elsewhere did_you_mean meant"
            ),
        },
    )
