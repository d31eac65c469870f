"""What processes that train one network must do together: sum over shards, average numbers, agree on failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def local(tensor: Tensor) -> Tensor:
    """What this rank holds of a tensor that is sharded (FSDP); any other tensor itself."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else to_local()


def is_sharded(parameter: Tensor) -> bool:
    """Whether a parameter lies on a mesh of devices, as those of FSDP do."""
    return hasattr(parameter, "device_mesh")


class Shards:
    """Which parameters are sharded over ranks, and over which: a parameter may be sharded along several dimensions of
    its mesh, and be the same along others.

    Args:
        parameters: Those of a network, sharded or not.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._alike: dict[tuple[Any, ...], list[int]] = {}
        for i, parameter in enumerate(parameters):
            self._alike.setdefault(_groups_of(parameter), []).append(i)

    def each(self, parts: Tensor) -> Tensor:
        """Numbers, one for each parameter, those of shards added over ranks."""
        import torch.distributed as dist

        whole = parts.clone()
        for groups, which in self._alike.items():
            some = parts[which]
            for group in groups:
                dist.all_reduce(some, group=group)
            whole[which] = some
        return whole

    def sum(self, parts: Tensor) -> Tensor:
        """The sum of numbers, one for each parameter, those of shards added over ranks first."""
        return self.each(parts).sum()


def _groups_of(parameter: Tensor) -> tuple[Any, ...]:
    """The groups of ranks over which the shards of a parameter are spread."""
    if not is_sharded(parameter):
        return ()
    mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
    return tuple(mesh.get_group(k) for k, one in enumerate(placements) if not one.is_replicate())


def reshard(modules: Iterable[nn.Module]) -> None:
    """Let modules of FSDP forget the whole weights that they keep after a forward pass, so that the next one gathers
    them anew: nothing else tells it that shards were changed.
    """
    from torch import distributed as dist

    if not dist.is_available():
        return
    from torch.distributed.fsdp import FSDPModule

    for module in modules:
        if isinstance(module, FSDPModule):
            module.reshard()


def check_known(modules: Iterable[nn.Module]) -> None:
    """Check that parameters tell how they are shared: those of the older FSDP do not.

    Raises:
        ValueError: If one of the modules is a FullyShardedDataParallel.
    """
    from torch.distributed.fsdp import FullyShardedDataParallel

    if any(isinstance(module, FullyShardedDataParallel) for module in modules):
        raise ValueError(
            "the network is a FullyShardedDataParallel, whose parameters do not tell which shards they are: use "
            "torch.distributed.fsdp.fully_shard"
        )


class FailedElsewhereError(NotImplementedError):
    """What another process could not compute."""


class Together:
    """The processes that train a network together, or one alone.

    Args:
        group: The processes; None is this one alone.
    """

    def __init__(self, group: ProcessGroup | None) -> None:
        self.group = group

    def mean(self, numbers: Tensor) -> Tensor:
        """The mean of numbers over the processes, whose gradients are averaged, too."""
        return numbers if self.group is None else self._summed(numbers) / self._size

    def mean_or_failure(self, numbers: Tensor | None, size: int, device: torch.device) -> Tensor:
        """The mean of some numbers over the processes, unless one of them failed to compute them.

        Args:
            numbers: Of this process, (`size`,); None if it failed.
            size: How many there are.
            device: Where numbers live.

        Raises:
            FailedElsewhereError: On every process, if any of them failed.
        """
        if self.group is None:
            assert numbers is not None  # alone, a failure is an exception
            return numbers
        failed = torch.ones(1, device=device) if numbers is None else numbers.new_zeros(1)
        mine = torch.zeros(size, device=device) if numbers is None else numbers
        total = self._summed(torch.cat([mine, failed]))
        if total[-1] > 0:
            raise FailedElsewhereError("another process has none")
        return total[:-1] / self._size

    @property
    def _size(self) -> int:
        import torch.distributed as dist

        return dist.get_world_size(self.group)

    def _summed(self, numbers: Tensor) -> Tensor:
        import torch.distributed as dist

        total = numbers.detach().clone()
        dist.all_reduce(total, group=self.group)
        return total


def checked_group(
    group: ProcessGroup | Literal[False] | None, parameters: Sequence[Tensor]
) -> ProcessGroup | None:
    """The group of an optimizer; None for one that works alone.

    Raises:
        ValueError: If there are several processes and no group, or shards of parameters and `group=False`.
    """
    from torch import distributed as dist

    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if group is None and several:
        raise ValueError(
            f"{dist.get_world_size()} processes and no group: give group=torch.distributed.group.WORLD if they train "
            f"one network, or group=False if each trains its own"
        )
    if group is False and several and any(is_sharded(p) for p in parameters):
        raise ValueError(
            "group=False, but the parameters are sharded over processes, which train one network then: give "
            "group=torch.distributed.group.WORLD"
        )
    return None if group is False else group
