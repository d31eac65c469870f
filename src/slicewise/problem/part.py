"""How parts print themselves."""

from __future__ import annotations

import dataclasses

from torch import Tensor


class Part:
    """Prints a dataclass as the call that makes it, defaults left out: a recipe one can read."""

    def __repr__(self) -> str:
        words = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            default = field.metadata.get("stands_for", field.default)
            if isinstance(value, Tensor):
                words.append(f"{field.name}=<tensor {tuple(value.shape)}>")
            elif default is dataclasses.MISSING:
                words.append(repr(value))
            elif value is not default and value != default:
                words.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(words)})"
