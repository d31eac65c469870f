"""Regularizers that push embeddings toward the standard normal law, as modules of one interface.

`regularizers` has `SlicedNormal` (sliced W_2 to the law itself), `SIGReg` (characteristic functions on slices) and
`VISReg` (center, scale and shape); `characteristic` computes the statistic of SIGReg, `together` value and gradient at
once, captured as a CUDA graph on a device.

Imports `support`, `sampling`, `transport`, `laws`, `distributed`, `distance`. Used by programs that train networks.
"""

from slicewise.nn.regularizers import Regularizer, SIGReg, SlicedNormal, VISReg

__all__ = ["Regularizer", "SIGReg", "SlicedNormal", "VISReg"]
