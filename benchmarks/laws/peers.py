"""The regularizers of other libraries, from a folder with their sources; what they import beside torch is stood in for.

The folder holds checkouts of `lightly` (github.com/lightly-ai/lightly) and `stable-pretraining`
(github.com/rbalestr-lab/stable-pretraining). One that is absent is left out. Only the modules with the losses are read.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

# name in a report: how it is made for L slices, on several processes or one; and the shape it wants
Peer = Callable[[int, bool], Callable[[Any], Any]]


def _package(name: str, folder: Path | None = None, **contents: Any) -> None:
    """Register a package whose own __init__ is not run."""
    module = ModuleType(name)
    module.__path__ = [] if folder is None else [str(folder)]
    for key, value in contents.items():
        setattr(module, key, value)
    sys.modules.setdefault(name, module)


def peers(folder: Path | None) -> dict[str, Peer]:
    """Those that are there."""
    found: dict[str, Peer] = {}
    if folder is None:
        return found
    lightly = folder / "lightly" / "lightly"
    if (lightly / "loss" / "lejepa_loss.py").exists():
        _package("lightly", lightly)
        for room in ("loss", "utils"):
            _package(f"lightly.{room}", lightly / room)
        lejepa: Any = importlib.import_module("lightly.loss.lejepa_loss")
        visreg: Any = importlib.import_module("lightly.loss.visreg_loss")
        found["lightly SIGReg"] = lambda n_slices, many: lejepa.SIGReg(
            num_vectors=n_slices, gather_distributed=many
        )

        def regularizer(n_slices: int, many: bool) -> Callable[[Any], Any]:
            terms = (visreg.visreg_center_loss, visreg.visreg_scale_loss)

            def of(x: Any) -> Any:  # the regularization alone, of one view
                if not many:
                    return sum(term(x) for term in terms) + visreg.visreg_shape_loss(x, n_slices)
                loss = visreg.VISRegLoss(
                    lambda_param=1.0, num_slices=n_slices, gather_distributed=True
                )
                return loss(local_proj=x.unsqueeze(0), global_proj=x.unsqueeze(0))

            return of

        found["lightly VISReg"] = regularizer
    stable = folder / "stable-pretraining" / "stable_pretraining"
    if (stable / "methods" / "lejepa.py").exists():
        _package("timm")
        _package("transformers")
        _package("transformers.utils", ModelOutput=object)
        _package("stable_pretraining", stable, Module=nn.Module)
        _package("stable_pretraining.methods", stable / "methods")
        _package("stable_pretraining.backbone", MLP=nn.Module)
        sigreg: Any = importlib.import_module("stable_pretraining.methods.lejepa")
        shape: Any = importlib.import_module("stable_pretraining.methods.visreg")
        found["stable-pretraining SIGReg"] = lambda n_slices, many: sigreg.SlicedEppsPulley(
            n_slices
        )

        def of_views(n_slices: int, many: bool) -> Callable[[Any], Any]:
            loss = shape.VISRegLoss(num_projections=n_slices)
            return lambda x: loss(x.unsqueeze(0))

        found["stable-pretraining VISReg"] = of_views
    return found
