"""The way to a Ray cluster, and whether all its nodes run this program."""

import contextlib
import importlib
import logging
import os
import re
import socket
import warnings
from dataclasses import dataclass
from typing import Any

from alphac4.version import __version__

logger = logging.getLogger(__name__)

SECONDS_TO_CONNECT = 5.0
SECONDS_FOR_ANSWER = 60.0  # a node's first answer waits for a process to start


@dataclass(frozen=True, kw_only=True)
class Connection:
    """This process as a driver of a cluster."""

    ray: Any  # the module
    ours: bool  # whether `connect` has made it

    def close(self) -> None:
        """Leave the cluster; whatever this process runs there ends."""
        if self.ours:
            self.ray.shutdown()


def connect(address: str) -> Connection:
    """Join a cluster: "auto" for the one that this machine or this job belongs to, or its head as "HOST:PORT".

    Raises:
        RuntimeError: in one line, if Ray is not installed, there is no such cluster, or a node has another version.
        ValueError: in one line, for anything else than an address.
    """
    if address != "auto" and not re.fullmatch(r"[^/\s]+:\d+", address):
        raise ValueError(f'a cluster is "auto" or HOST:PORT of its head, not {address!r}')
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        try:
            check_port(os.environ.get("RAY_ADDRESS", address) if address == "auto" else address)
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
        except Exception as error:  # Ray raises many kinds
            raise RuntimeError(f"no Ray cluster at {address}: {first_line(error)}") from error
    connection = Connection(ray=ray, ours=ours)
    try:
        check_nodes(ray)
    except BaseException:
        connection.close()
        raise
    return connection


def check_port(address: str) -> None:
    """Look whether somebody listens at HOST:PORT: Ray would try for minutes. For "auto" it knows where to look.

    Raises:
        OSError: if nobody does.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()


def import_ray() -> Any:
    """Ray, told to keep to itself what it would report about its use.

    Raises:
        RuntimeError: in one line, if it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning to users otherwise
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError("a cluster needs Ray: pip install 'alphac4[cluster]'") from error
    # Ray has no setting that keeps the cluster's own errors, twenty lines each, from a driver's terminal; `Crew` tells
    # of those that matter, and Ray's logs have them all.
    importlib.import_module("ray._private.worker").print_to_stdstream = lambda *_arguments, **_named: None  # type: ignore[attr-defined]
    return ray


def check_nodes(ray: Any) -> None:
    """Ask every node for its version of this program.

    Raises:
        RuntimeError: in one line that names a node with another one, or with none.
    """

    def version() -> str:  # within a function, or the node would look for it in the program that it may not have
        import importlib

        try:
            found: str = importlib.import_module("alphac4.version").__version__
        except ImportError:
            return ""
        return found

    affinity = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            place = affinity(node_id=node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=place)(version)
            asked[task.remote()] = node["NodeManagerAddress"]
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=SECONDS_FOR_ANSWER)
    for reference in silent:
        logger.warning("node %s does not answer", asked[reference])
    for reference in answered:
        with contextlib.suppress(ray.exceptions.RayError):  # it has gone in the meantime
            found = ray.get(reference)
            if found != __version__:
                raise RuntimeError(
                    f"node {asked[reference]} has {f'alphac4 {found}' if found else 'no alphac4'}, this program is "
                    f"alphac4 {__version__}: install the same on every node"
                )


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
