"""What processes tell each other before anything else, so that a mistake is an error and not a wait."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, field

import torch

from slicewise.distributed.collectives import Ranks

# Longer texts are cut, and end in a check sum.
_TEXT = 300
_BYTES = 1536
_ESCAPED = re.compile(r'["\\\x00-\x1f]')  # these would take more room than one byte


@dataclass
class Header:
    """One rank's view of the call. All but the last part must be the same on every rank."""

    # In the order in which a difference is best reported.
    d: int = 0
    dtype: str = ""
    device: str = ""
    variant: str = ""  # the recipe in words, L among them
    settings: str = ""  # the other arguments of the loss
    grad: bool = True  # is gradient mode on?
    x_batch: list[int] = field(default_factory=list)
    y_batch: list[int] = field(default_factory=list)
    slices: list[int] | None = None  # the shape of given ones
    x_weights: list[str] | None = None  # dtype and batch of given ones
    y_weights: list[str] | None = None
    # What may differ.
    n: int = 0
    m: int = 0
    asks: list[bool] = field(default_factory=list)  # gradients to x, y, slices and sample weights
    content: list[float] = field(default_factory=list)  # sums that tell replicas from shares
    trouble: str = ""  # why this rank cannot take part


_MAY_DIFFER = {"n", "m", "asks", "content", "trouble"}
_ADVICE = {
    "d": "samples of one dimension",
    "dtype": "samples of one dtype, e.g. x.float()",
    "device": "samples on one kind of device",
    "variant": "the same variant, n_slices and options",
    "settings": "the same arguments of SlicedWasserstein",
    "grad": "a call inside torch.no_grad, or outside of it",
    "x_batch": "the same leading (batch) dimensions of x",
    "y_batch": "the same leading (batch) dimensions of y",
    "slices": "slices of one shape, or none; those of rank 0 count",
    "x_weights": "x_weights of one dtype and batch, or none",
    "y_weights": "y_weights of one dtype and batch, or none",
}


def exchange_headers(ranks: Ranks, mine: Header, device: torch.device) -> list[Header]:
    """Everyone's header, after checks that fail on every rank or on none."""
    text = json.dumps({k: _cut(v) for k, v in asdict(mine).items()}).encode()
    page = torch.zeros(_BYTES, dtype=torch.uint8)
    page[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    pages = ranks.everyones(page.to(device))
    headers = [Header(**json.loads(bytes(p.cpu().tolist()).rstrip(b"\0"))) for p in pages]
    for rank, header in enumerate(headers):
        if header.trouble and not mine.trouble:
            raise ValueError(f"rank {rank} could not take part in the loss: {header.trouble}")
    if not any(header.trouble for header in headers):
        _compare(headers)
    return headers


def exchange_errors(ranks: Ranks, mine: str) -> list[str]:
    """Everyone's error, in a line; empty where there is none."""
    page = torch.zeros(_TEXT + 16, dtype=torch.uint8)
    text = str(_cut(mine)).encode()[: len(page)]
    if text:
        page[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    pages = ranks.everyones(page.to(ranks.usual_device()))
    return [bytes(p.cpu().tolist()).rstrip(b"\0").decode() for p in pages]


def _compare(headers: list[Header]) -> None:
    first = asdict(headers[0])
    for rank, header in enumerate(headers):
        for name, value in asdict(header).items():
            if name not in _MAY_DIFFER and value != first[name]:
                raise ValueError(
                    f"ranks disagree on {name}: rank 0 has {first[name]}, rank {rank} has {value}; give every "
                    f"rank {_ADVICE[name]}"
                )


def _cut(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = _ESCAPED.sub("'", value.encode("ascii", "replace").decode())
    if len(plain) <= _TEXT:
        return plain
    return f"{plain[:_TEXT]}... ({zlib.crc32(plain.encode()):08x})"
