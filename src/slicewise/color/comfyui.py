"""A node for ComfyUI: the colors of one image on another.

ComfyUI finds nodes in folders of `custom_nodes`. Make one with an `__init__.py` of a single line::

    from slicewise.color.comfyui import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

Nothing of ComfyUI is imported.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from slicewise.color.color_transfer import LOOKS, ColorTransfer


class SlicewiseMatchColors:
    """Give a batch of images (B, H, W, 3 or 4), float in [0, 1], the colors of the first reference.

    A batch shares one map, so that the frames of a film do not flicker.
    """

    CATEGORY = "image/color"
    FUNCTION = "match"
    RETURN_TYPES = ("IMAGE",)
    RETURN_NAMES = ("image",)
    DESCRIPTION = "Give an image the colors of a reference, without seams or grain."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, dict[str, Any]]:
        """Describe the inputs to ComfyUI."""
        return {
            "required": {
                "image": ("IMAGE",),
                "reference": ("IMAGE",),
                "look": (list(LOOKS),),
                "strength": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.05}),
                "keep_luminance": ("BOOLEAN", {"default": False}),
                "seed": ("INT", {"default": 0, "min": 0, "max": 2**32 - 1}),
            },
            "optional": {"mask": ("MASK",)},
        }

    def match(
        self,
        image: Tensor,
        reference: Tensor,
        look: str,
        strength: float,
        keep_luminance: bool,
        seed: int,
        mask: Tensor | None = None,
    ) -> tuple[Tensor]:
        """Return the recolored batch; `mask` (1 or B, H, W) says how much of each pixel changes."""
        # Nodes before this one may leave values slightly outside of [0, 1].
        frames = list(image.clamp(0, 1))
        shares = None if mask is None else list(mask.clamp(0, 1).expand(len(frames), -1, -1))
        fitted = ColorTransfer(look=look, generator=seed).fit(
            frames, reference[0].clamp(0, 1), mask=None if shares is None else shares[0]
        )
        moved = [
            fitted.transform(
                frame,
                strength=strength,
                keep_luminance=keep_luminance,
                mask=None if shares is None else shares[i],
            )
            for i, frame in enumerate(frames)
        ]
        return (torch.stack(moved),)


NODE_CLASS_MAPPINGS = {"SlicewiseMatchColors": SlicewiseMatchColors}
NODE_DISPLAY_NAME_MAPPINGS = {"SlicewiseMatchColors": "Match Colors (slicewise)"}
