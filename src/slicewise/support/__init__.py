"""What every other room stands on: arguments, torch's modes, the dispatch to kernels, files.

`arguments` converts and checks what callers give, and knows the names they may have meant; `torch_modes` detects
compilation, transforms and autocast; `dispatch` is where kernels register and where the library asks for them; `graphs`
captures CUDA graphs; `files`, `checkpoint`, `progress` and `status` serve long runs; `renamed` answers old names by new
ones.

Imports no other room. Used by all.
"""

from slicewise.support.arguments import (
    RENAMED,
    Result,
    as_tensor,
    check_basis,
    check_broadcast,
    check_choice,
    check_count,
    check_finite,
    check_flow_argument,
    check_generator,
    check_number,
    check_option,
    check_order,
    check_samples,
    check_set,
    check_slices,
    check_weight_sum,
    check_weights,
    comes_from_elsewhere,
    did_you_mean,
    meant,
    takes_arrays,
    values_readable,
)
from slicewise.support.checkpoint import CheckpointFile, fingerprint
from slicewise.support.dispatch import (
    DeviceDraws,
    Kernels,
    MatchingLoops,
    current,
    kernels_for,
    matching_loops,
    multiply,
    needs_gradient,
    one_thread,
    register,
    registered,
    sort_lines,
)
from slicewise.support.files import check_writable, write_whole
from slicewise.support.graphs import CapturedGraph, side_stream
from slicewise.support.progress import progress_bar
from slicewise.support.renamed import keep_old_paths, renamed_arguments
from slicewise.support.status import (
    NotArrivedWarning,
    Status,
    level_of_caller,
)
from slicewise.support.torch_modes import broadcast, full_precision, is_transformed
