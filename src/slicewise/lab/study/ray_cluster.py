"""A Ray cluster: connecting to it, the resources of its nodes, and calls made there."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from slicewise.lab.errors import UserError

# How often a task is repeated if its process or its node is lost.
_RETRIES = 3
_PATIENCE = 20  # seconds to find out whether an address is that of a cluster
_CONNECT = "import sys, ray; ray.init(sys.argv[1], logging_level='ERROR', log_to_driver=False)"


class Cluster:
    """A connection to a Ray cluster.

    Args:
        address: of the head; None is the cluster of this machine, which is started if there is none.
        cpus: cores that a call takes.
        gpus: the share of a GPU that a call takes, on a GPU.
        quiet: whether the output of Ray is suppressed.

    Raises:
        UserError: Ray is not installed, or there is no cluster at the address.
    """

    def __init__(self, address: str | None, cpus: float, gpus: float, *, quiet: bool) -> None:
        try:
            import ray
            import ray.exceptions
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        except ImportError as missing:
            raise UserError("this needs Ray: pip install 'slicewise[ray]'") from missing
        self.ray: Any = ray  # hardly annotated
        self.cpus, self.gpus = cpus, gpus
        self.Lost: type[Exception] = ray.exceptions.RayError
        self.NodeLost = (ray.exceptions.NodeDiedError, ray.exceptions.TaskUnschedulableError)
        self._tasks: dict[tuple[Any, ...], Any] = {}
        self._on_node: Any = NodeAffinitySchedulingStrategy
        # A connection that the caller has made is used, and not closed.
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
        # Messages of the start are suppressed, later warnings are not.
        logging.getLogger("ray").setLevel(logging.ERROR if quiet else logging.WARNING)

    def alive(self) -> list[dict[str, Any]]:
        """Return the nodes that are alive, as Ray describes them."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def able(self, device: str) -> list[dict[str, Any]]:
        """Return the nodes with the resources of a call, the largest first, in a reproducible order."""
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
        """Start a call on any node with room, and return a reference to its result; its number of threads is its last argument."""
        task = self._task(call, device, self.cpus, self.gpus)
        return task.options(name=name).remote(*given, _threads(self.cpus))

    def at(self, node: dict[str, Any], device: str, call: Callable[..., Any], *given: Any) -> Any:
        """Return the result of a call on this node, with all its cores or a whole GPU."""
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
        """Return a remote function, cached because making one takes longer than a small cell."""
        kind = (call, device == "cuda", cpus, gpus)
        if kind not in self._tasks:
            self._tasks[kind] = self.ray.remote(
                num_cpus=cpus,
                num_gpus=gpus if device == "cuda" else 0,
                max_retries=_RETRIES,
                # A process stays on its first GPU and keeps memory there, so it is used once.
                max_calls=1 if device == "cuda" else 0,
            )(call)
        return self._tasks[kind]

    def cancel(self, references: Iterable[Any]) -> None:
        """Cancel calls that are not done."""
        if not (asked := list(references)) or not self.ray.is_initialized():
            return
        # Calls that are done are left alone: Ray 2.60 aborts this process if their result is still being received.
        _, going = self.ray.wait(asked, num_returns=len(asked), timeout=0, fetch_local=False)
        for reference in going:
            self.ray.cancel(reference, force=True)

    def close(self) -> None:
        """Disconnect; a cluster that was started by this object ends."""
        if self._ours:
            self.ray.shutdown()


def _threads(cpus: float) -> int:
    return max(1, int(cpus))


def _check_answers(address: str) -> None:
    """Raise a UserError if no cluster is at an address; Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or "://" in host or not port.isdecimal() or int(port) > 65535:
        raise UserError(
            f"--address {address}: give host:port of the head as `ray start --head` prints it, auto or local"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()
    except OSError as wrong:
        raise UserError(
            f"--address {address}: there is no answer ({wrong.strerror or wrong}); is the cluster running, and is "
            f"this the address that `ray start --head` printed?"
        ) from wrong
    # Another program may be listening there. Other errors are reported when we connect ourselves.
    try:
        subprocess.run(
            [sys.executable, "-c", _CONNECT, address], capture_output=True, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired as late:
        if b"AuthToken" in (late.stderr or b""):
            raise UserError(
                f"--address {address}: this cluster needs a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN "
                f"to what `ray get-auth-token` prints on its head"
            ) from None
        raise UserError(
            f"--address {address}: what answers there is no Ray cluster (the default port is 6379); "
            f"give the address that `ray start --head` printed"
        ) from None
