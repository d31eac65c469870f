"""What processes send each other: four collectives, counted, whose failures say what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks:
    """The processes of a group, as one of them sees it.

    `sent` counts the bytes this one has sent to others: what it hands over for them in an all-to-all, an
    all-gather or as the root of a broadcast, and 2 (R − 1)/R of a tensor that is added up (a ring's share).
    """

    def __init__(self, group: dist.ProcessGroup) -> None:
        if not dist.is_initialized():
            raise ValueError(
                "group is given, but torch.distributed is not initialised: call "
                "torch.distributed.init_process_group first (torchrun sets its variables), or leave group out"
            )
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("this process is no member of group: give a group that it belongs to")
        self.sent = 0

    def check_there(self) -> None:
        """Check that the group still exists.

        Raises:
            ValueError: it was destroyed.
        """
        if not dist.is_initialized() or self.group not in dist.distributed_c10d._world.pg_map:
            raise ValueError(
                "the group of this loss was destroyed (torch.distributed.destroy_process_group): make the loss anew with a "
                "group that exists"
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Ranks:
        return self  # a copy of a module talks to the same processes

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a loss with group= belongs to its process group and cannot be pickled: save its state_dict()"
        )

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of everyone's."""
        return self._reduced(tensor, dist.ReduceOp.SUM)

    def largest(self, tensor: Tensor) -> Tensor:
        """The largest of everyone's, entry by entry."""
        return self._reduced(tensor, dist.ReduceOp.MAX)

    def from_first(self, tensor: Tensor) -> Tensor:
        """The tensor as rank 0 of the group has it; shape and dtype are the same everywhere."""
        there = self._staged(tensor).clone()
        root = dist.get_global_rank(self.group, 0)
        self._run("a broadcast", lambda: dist.broadcast(there, root, group=self.group))
        if self.rank == 0:
            self.sent += (self.size - 1) * _bytes(there)
        return there.to(tensor.device)

    def everyones(self, tensor: Tensor) -> list[Tensor]:
        """The tensor of each rank, all of one shape."""
        here = self._staged(tensor)
        found = [torch.empty_like(here) for _ in range(self.size)]
        self._run("an all-gather", lambda: dist.all_gather(found, here, group=self.group))
        self.sent += (self.size - 1) * _bytes(here)
        return [t.to(tensor.device) for t in found]

    def exchange(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Part s, flat, goes to rank s; back comes what each rank had for this one, `sizes` of it."""
        send = self._staged(torch.cat([part.reshape(-1) for part in parts]))
        found = torch.empty(sum(sizes), dtype=send.dtype, device=send.device)
        counts = [part.numel() for part in parts]
        self._run(
            "an all-to-all",
            lambda: dist.all_to_all_single(found, send, list(sizes), counts, group=self.group),
        )
        self.sent += (sum(counts) - counts[self.rank]) * send.element_size()
        return list(found.to(parts[0].device).split(list(sizes)))

    def gathered(self, tensor: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
        """The tensor of each rank, whose shapes differ and are known."""
        everyone = self.exchange([tensor] * self.size, [math.prod(shape) for shape in shapes])
        return [part.view(shape) for part, shape in zip(everyone, shapes, strict=True)]

    def check_device(self, device: torch.device) -> None:
        """Can tensors on this device be sent by the group's backend?"""
        served = self._backends()
        if device.type not in served:
            raise ValueError(
                f"the samples are on {device}, which the group's backend does not serve "
                f"({', '.join(f'{kind} by {name}' for kind, name in served.items())}): move the samples, or "
                f"initialise the group with a backend for them, e.g. 'cpu:gloo,cuda:nccl'"
            )

    def usual_device(self) -> torch.device:
        """Where to put what goes the same way for every rank: on the host, if the backend serves it."""
        served = self._backends()
        return torch.device("cpu" if "cpu" in served else next(iter(served)))

    def _reduced(self, tensor: Tensor, how: Any) -> Tensor:
        there = self._staged(tensor).clone(memory_format=torch.contiguous_format)
        self._run("a sum", lambda: dist.all_reduce(there, how, group=self.group))
        self.sent += 2 * (self.size - 1) * _bytes(there) // self.size
        return there.to(tensor.device)

    def _staged(self, tensor: Tensor) -> Tensor:
        # gloo takes tensors of a device for some collectives only: through the host it takes them all.
        by_gloo = tensor.device.type != "cpu" and self._backends()[tensor.device.type] == "gloo"
        return (tensor.cpu() if by_gloo else tensor).detach().contiguous()

    def _backends(self) -> dict[str, str]:
        """Device type -> the backend that serves it."""
        pairs = str(dist.get_backend_config(self.group)).split(",")
        return dict(pair.split(":") for pair in pairs if ":" in pair)

    def _run(self, what: str, call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as trouble:
            reason = str(trouble).split("\n")[0]
            raise RuntimeError(
                f"rank {self.rank} of {self.size}: {what} between the processes of the loss failed. Another "
                f"process died, raised an error of its own (look at its output) or fell behind by more than the "
                f"timeout of init_process_group. The backend says: {reason}"
            ) from trouble


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
