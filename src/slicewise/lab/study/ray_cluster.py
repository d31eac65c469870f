"""A Ray cluster: reaching it, what its nodes have, and calls made there."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from slicewise.lab.errors import UserError

# How often a task is made again when its process or its node is lost.
_RETRIES = 3
_PATIENCE = 20  # seconds, to find out whether an address is a cluster's
_CONNECT = "import sys, ray; ray.init(sys.argv[1], logging_level='ERROR', log_to_driver=False)"


class Cluster:
    """The one at `address`; without one, that of this machine, which is started if there is none.

    A call takes `cpus` cores and, on a GPU, `gpus` of one.
    """

    def __init__(self, address: str | None, cpus: float, gpus: float, *, quiet: bool) -> None:
        try:
            import ray
            import ray.exceptions
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        except ImportError as missing:
            raise UserError("this needs Ray: pip install 'slicewise[ray]'") from missing
        self.ray: Any = ray  # of its many kinds of calls few are annotated
        self.cpus, self.gpus = cpus, gpus
        self.Lost: type[Exception] = ray.exceptions.RayError
        self.NodeLost = (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError)
        self._tasks: dict[tuple[Any, ...], Any] = {}
        self._on_node: Any = NodeAffinitySchedulingStrategy
        # A caller's own connection is used, and left.
        self._ours = not ray.is_initialized()
        if self._ours:
            self._connect(address, quiet)

    def _connect(self, address: str | None, quiet: bool) -> None:
        named = address or os.environ.get("RAY_ADDRESS") or "auto"
        if named not in ("auto", "local"):
            _check_answers(named)
        try:
            self.ray.init(
                address=address,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=not quiet,
            )
        except Exception as wrong:  # Ray raises many kinds
            raise UserError(
                f"--address {named}: {str(wrong).strip(' .')}; `ray start --head` starts a cluster, and --address local one for "
                f"this command alone"
            ) from wrong
        # What Ray says while it starts is of no concern here; what it warns of later is.
        logging.getLogger("ray").setLevel(logging.ERROR if quiet else logging.WARNING)

    def alive(self) -> list[dict[str, Any]]:
        """Its nodes, as Ray describes them."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def able(self, device: str) -> list[dict[str, Any]]:
        """Nodes that have what a call takes, the largest first: the same nodes, the same order."""
        kind = "GPU" if device == "cuda" else "CPU"
        able = [
            node
            for node in self.alive()
            if node["Resources"].get("CPU", 0) >= self.cpus
            and (kind == "CPU" or node["Resources"].get("GPU", 0) >= 1)
        ]
        return sorted(
            able, key=lambda node: (-node["Resources"][kind], node["NodeManagerHostname"])
        )

    def submit(self, name: str, device: str, call: Callable[..., Any], *given: Any) -> Any:
        """A reference to what a call will give, wherever there is room; it is told its number of threads."""
        task = self._task(call, device, self.cpus, self.gpus)
        return task.options(name=name).remote(*given, _threads(self.cpus))

    def at(self, node: dict[str, Any], device: str, call: Callable[..., Any], *given: Any) -> Any:
        """What a call gives on this node, with all its cores or a whole GPU to itself."""
        cpus = self.cpus if device == "cuda" else node["Resources"]["CPU"]
        place = self._on_node(node["NodeID"], soft=False)
        task = self._task(call, device, cpus, 1.0).options(scheduling_strategy=place)
        reference = task.remote(*given, _threads(cpus))
        try:
            return self.ray.get(reference)
        except BaseException:
            self.cancel([reference])
            raise

    def _task(self, call: Callable[..., Any], device: str, cpus: float, gpus: float) -> Any:
        """Made once for each kind: making one takes Ray longer than a small cell takes us."""
        kind = (call, device == "cuda", cpus, gpus)
        if kind not in self._tasks:
            self._tasks[kind] = self.ray.remote(
                num_cpus=cpus,
                num_gpus=gpus if device == "cuda" else 0,
                max_retries=_RETRIES,
                # A process that has begun on one GPU cannot go to another, and keeps memory there.
                max_calls=1 if device == "cuda" else 0,
            )(call)
        return self._tasks[kind]

    def cancel(self, references: Iterable[Any]) -> None:
        """End what is not done; without a connection that has happened already."""
        if not (asked := list(references)) or not self.ray.is_initialized():
            return
        # What is done is left alone: Ray 2.60 aborts this process if the reply is still being taken in.
        _, going = self.ray.wait(asked, num_returns=len(asked), timeout=0, fetch_local=False)
        for reference in going:
            self.ray.cancel(reference, force=True)

    def close(self) -> None:
        """Leave it; one that was started for us ends."""
        if self._ours:
            self.ray.shutdown()


def _threads(cpus: float) -> int:
    return max(1, int(cpus))


def _check_answers(address: str) -> None:
    """Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or "://" in host or not port.isdecimal() or int(port) > 65535:
        raise UserError(
            f"--address {address}: give host:port of the head as `ray start --head` prints it, auto or local"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except OSError as wrong:
        raise UserError(
            f"--address {address}: nobody answers there ({wrong.strerror or wrong}); is the cluster up, and is "
            f"this the address that `ray start --head` printed?"
        ) from wrong
    # Somebody else may be listening there. What else goes wrong comes out when we connect ourselves.
    try:
        subprocess.run(
            [sys.executable, "-c", _CONNECT, address], capture_output=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as late:
        if b"AuthToken" in (late.stderr or b""):
            raise UserError(
                f"--address {address}: this cluster asks for its token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN "
                f"to what `ray get-auth-token` prints on its head"
            ) from None
        raise UserError(
            f"--address {address}: what answers there is no Ray cluster (its port is 6379 if nothing else was "
            f"said); give the address that `ray start --head` printed"
        ) from None
