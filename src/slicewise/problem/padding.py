"""Sample sets of unequal sizes as one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slicewise.support import as_tensor


def pad(samples: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Make one batch of sample sets of unequal sizes.

    Set b has equal weights 1/n_b on its own samples and weight zero on its padding, which every variant ignores: values
    and gradients are those of the sets taken one at a time.

    Args:
        samples: B sets (n_b, d), tensors or NumPy arrays, of one dtype on one device.

    Returns:
        Samples (B, n, d), n the largest n_b, and sample weights (B, n): give them as `x` and `x_weights`.

    Raises:
        ValueError: for sets that do not fit together.

    >>> x, weights = pad([torch.ones(2, 3), torch.ones(1, 3)])
    >>> x.shape, weights
    (torch.Size([2, 2, 3]), tensor([[0.5000, 0.5000],
            [1.0000, 0.0000]]))
    """
    given: object = samples  # a tensor is a sequence, too, of its rows
    if isinstance(given, Tensor):
        raise ValueError(
            f"samples is one tensor of shape {tuple(given.shape)}: give a list of (n, d) tensors; sets of one "
            f"size are a batch as they are, torch.stack(sets)"
        )
    samples = list(samples)
    if samples and all(isinstance(s, (np.ndarray, list)) for s in samples):
        padded, weights = pad([as_tensor(s) for s in samples])
        return padded.numpy(), weights.numpy()  # type: ignore[return-value]
    kinds = {(s.dtype, s.device) if isinstance(s, Tensor) else type(s).__name__ for s in samples}
    if len(kinds) > 1 or not all(isinstance(s, Tensor) for s in samples):
        raise ValueError(
            f"samples are of {' and '.join(sorted(map(str, kinds)))}: give tensors of one dtype on one device, "
            f"e.g. torch.as_tensor(array)"
        )
    shapes = [tuple(s.shape) for s in samples]
    if not shapes or any(len(s) != 2 or s[0] == 0 or s[1] != shapes[0][1] for s in shapes):
        raise ValueError(
            f"samples has shapes {shapes}: give a list of non-empty (n, d) tensors of one dimension d"
        )
    x = torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)
    sizes = torch.tensor([s.shape[0] for s in samples], device=x.device)
    present = torch.arange(x.shape[1], device=x.device) < sizes[:, None]
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision would not sum to one
    return x, present.to(dtype) / sizes[:, None].to(dtype)
