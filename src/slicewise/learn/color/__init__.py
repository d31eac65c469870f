"""The colours of one image on another."""

from slicewise.learn.color.fitted import ColorTransfer, transfer

__all__ = ["ColorTransfer", "transfer"]
