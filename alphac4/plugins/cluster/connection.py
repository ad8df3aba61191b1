"""Connection to a Ray cluster. All nodes must have this version of the program."""

import contextlib
import importlib
import logging
import os
import socket
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from alphac4.machine import BINDING_VARIABLE, install_advice
from alphac4.storage.records import first_line
from alphac4.version import __version__

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # length, type, flags and stream of a frame (RFC 9113, 6.5)
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HTTP2_SETTINGS
POLL_INTERVAL_S = 1.0  # time between checks of the cluster's processes
LOST_TIMEOUT_S = 20.0  # time after which a missing process counts as lost; a restart takes less
RECONNECT_S = "600"  # time after which Ray would end this process; `Connection.check` raises earlier
NODE_TIMEOUT_S = 60.0  # time for the first answer of a node, which has to start a process


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine of a cluster."""

    identity: str  # Ray's node ID
    cores: int
    gpus: int

    def max_actors(self, device: str) -> int:
        """Return the number of its cores ("cpu"), or of its GPUs with a core each ("cuda"), busy or idle."""
        return self.cores if device == "cpu" else min(self.cores, self.gpus)


@final
class Connection:
    """This process as a driver of a cluster.

    If the cluster's head is lost, Ray's functions block for minutes. So callers check `missing` before they call Ray,
    and wait for results with `get`.
    """

    def __init__(self, ray: Any, *, ours: bool, needed: Mapping[str, str]) -> None:
        self.ray = ray
        self._ours, self._needed = ours, dict(needed)
        self._checked = 0.0  # time.monotonic() of the last check
        self._missing_since: float | None = None

    def missing(self) -> str:
        """Return name and address of a needed process that does not listen; "" if all do."""
        for name, address in self._needed.items():
            host, _, port = address.rpartition(":")
            try:
                if host and port.isdigit():  # a busy process accepts connections, even if it answers late
                    socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            except OSError:
                return f"{name}, {address}"
        return ""

    def check(self) -> None:
        """Raise RuntimeError if a needed process has been missing for `LOST_TIMEOUT_S`."""
        now = time.monotonic()
        if now - self._checked < POLL_INTERVAL_S:
            return
        self._checked, missing = now, self.missing()
        self._missing_since = self._missing_since or now if missing else None
        if self._missing_since is not None and now - self._missing_since >= LOST_TIMEOUT_S:
            raise RuntimeError(f"Lost {missing}. Restart the cluster, then rerun this command to resume.")

    def get(self, reference: Any) -> Any:
        """Return the value of a reference. Raises the errors of `check` and of Ray."""
        while not self.ray.wait([reference], timeout=POLL_INTERVAL_S)[0]:
            self.check()
        return self.ray.get(reference)

    def nodes(self) -> list[Node]:
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        sizes = [[int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU")] for node in alive]
        return [
            Node(identity=node["NodeID"], cores=cores, gpus=gpus)
            for node, (cores, gpus) in zip(alive, sizes, strict=True)
        ]

    def count(self, device: str) -> int:
        """Return the sum of `Node.slots` over all nodes."""
        return sum(node.max_actors(device) for node in self.nodes())

    def close(self) -> None:
        """Leave the cluster if `connect` joined it and it is reachable; this ends all that this process runs there."""
        if self._ours and not self.missing():
            self.ray.shutdown()


def connect(address: str) -> Connection:
    """Join a cluster at HOST:PORT of its head, or "auto" for the cluster of this machine or job."""
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        resolved = address
        unbound = {"env_vars": {BINDING_VARIABLE: "false"}}  # actors load PyTorch before they can call `adapt_process`
        try:
            if address == "auto":
                resolved = find_cluster() or address
            if resolved != "auto":
                check_port(resolved)
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=address, runtime_env=unbound, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray raises many types
            is_absent = resolved == "auto" and isinstance(error, ConnectionError)  # Ray's text names Ray's commands
            reason = "none runs here; name its head, as HOST:PORT" if is_absent else first_line(error)
            raise RuntimeError(f"no Ray cluster at {resolved}: {reason}") from error
    context = ray.get_runtime_context()
    needed = {"the head of the cluster": context.gcs_address}
    for node in ray.nodes():
        if node["NodeID"] == context.get_node_id():  # it stores the objects of this process
            needed["this machine's node of the cluster"] = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
    connection = Connection(ray, ours=ours, needed=needed)
    try:
        check_nodes(ray)
    except BaseException:
        connection.close()
        raise
    return connection


def import_ray() -> Any:
    """Import Ray, with its usage statistics disabled."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", RECONNECT_S)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # avoids a warning
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError(f"a cluster needs Ray: {install_advice('cluster')}") from error
    return ray


def find_cluster() -> str:
    """Return the address that Ray uses for "auto", or "" if Ray searches for processes itself.

    The documentation of `ray.init` names the variable ``RAY_ADDRESS`` and the file of the latest cluster started on
    this machine, which may have ended.
    """
    if address := os.environ.get("RAY_ADDRESS"):
        return address
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    return file.read_text().strip() if file.is_file() else ""


def check_port(address: str) -> None:
    """Raise an OSError unless HOST:PORT speaks HTTP/2, as the head of a cluster does. Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S) as connection:
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.sendall(HTTP2_PREFACE)
        answer = connection.recv(len(HTTP2_SETTINGS))
    if answer[3:4] != HTTP2_SETTINGS[3:4]:
        raise ConnectionError("another program answers there")


def on_node(identity: str, *, soft: bool = False) -> object:
    """Return Ray's scheduling strategy for one node; if ``soft``, other nodes replace it once it is lost."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    strategy: object = strategies.NodeAffinitySchedulingStrategy(node_id=identity, soft=soft)
    return strategy


def check_nodes(ray: Any) -> None:
    """Raise a RuntimeError that names a node with another version of this program, or without it."""

    def version() -> str:  # Ray sends a local function by value, also to nodes without this program
        import importlib

        try:
            installed: str = importlib.import_module("alphac4.version").__version__
        except ImportError:
            return ""
        return installed

    requests = {}
    for node in ray.nodes():
        if node["Alive"]:
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node["NodeID"]))(version)
            requests[task.remote()] = node["NodeManagerAddress"]
    answered, silent = ray.wait(list(requests), num_returns=len(requests), timeout=NODE_TIMEOUT_S)
    for reference in silent:
        logger.warning("node %s does not answer", requests[reference])
    for reference in answered:
        with contextlib.suppress(ray.exceptions.RayError):  # the node was lost meanwhile
            installed = ray.get(reference)
            if installed != __version__:
                has = f"alphac4 {installed}" if installed else "no alphac4"
                raise RuntimeError(
                    f"node {requests[reference]} has {has}, this program is alphac4 {__version__}: "
                    "install the same on every node"
                )
