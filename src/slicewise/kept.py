"""What a part has learned, kept in the buffers of a module."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from slicewise.learned import State
from slicewise.problem import Problem

_STATE = "slicer_"  # begins the names of the buffers that hold what was learned; a lift's as well as a slicer's


class KeepsLearner(nn.Module):
    """A module whose buffers hold what a slicer or a lift has learned: moved and saved with it."""

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, _STATE + name)

    def _state(self) -> State:
        buffers = self.named_buffers(recurse=False)
        return {k.removeprefix(_STATE): b for k, b in buffers if k.startswith(_STATE)}

    def _state_for(self, problem: Problem) -> State | None:
        """What was learned, if it fits these samples."""
        state = self._state()
        if not state:
            return None
        learned, wanted = tuple(state["bias"].shape), (*problem.batch, problem.d)
        if learned != wanted:
            warnings.warn(
                f"what was learned was for (*batch, d) = {learned}, these samples have {wanted}: it "
                f"starts anew; keep one module for each shape to keep what they learn",
                stacklevel=3,
            )
            return None
        return {k: t.to(problem.x) if t.is_floating_point() else t for k, t in state.items()}

    def _keep(self, state: State) -> None:
        for name, tensor in state.items():
            self.register_buffer(_STATE + name, tensor.detach())

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **more: Any
    ) -> None:
        # The buffers take their shapes from the data, so a fresh module has none to load into.
        for key, tensor in state_dict.items():
            if key.startswith(prefix + _STATE):
                self.register_buffer(key.removeprefix(prefix), torch.empty_like(tensor))
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)
