"""Sliced Wasserstein as a `torchmetrics.Metric`: exact, or in bounded memory. Needs the extra `metric`."""

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
