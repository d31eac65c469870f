"""Sliced Wasserstein as a `torchmetrics.Metric`: exact, or in bounded memory. Needs the extra `metric`.

`exact` keeps all samples; `streaming` keeps none, but a `sketch` of their projections.

Imports `distance` and the rooms before it. Used by nobody here; `slicewise.metric` is public.
"""

from __future__ import annotations

try:
    import torchmetrics as torchmetrics
except ImportError as missing:
    raise ImportError(
        "slicewise.metric needs torchmetrics: pip install 'slicewise[metric]'"
    ) from missing

from slicewise.metric.exact import SlicedWassersteinMetric
from slicewise.metric.streaming import StreamingSlicedWassersteinMetric

__all__ = ["SlicedWassersteinMetric", "StreamingSlicedWassersteinMetric"]
