"""Connection to a Ray cluster, whose nodes must all have this version of the program."""

import contextlib
import importlib
import logging
import os
import re
import socket
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from alphac4.machine import install_advice
from alphac4.storage.records import first_line
from alphac4.version import __version__

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # length, type, flags and stream of a frame (RFC 9113, 6.5)
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HTTP2_SETTINGS
POLL_INTERVAL_S = 1.0  # for whether the cluster is there
LOST_TIMEOUT_S = 20.0  # before the cluster is given up; something that is restarted is back by then
RECONNECT_S = "600"  # after which Ray would end this process; `Connection.check` notices earlier, and raises
NODE_TIMEOUT_S = 60.0  # a node's first answer waits for a process to start


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine of a cluster."""

    identity: str  # Ray's
    cores: int
    gpus: int

    def offers(self, device: str) -> int:
        """Return its number of cores ("cpu"), or of GPUs with a core beside them ("cuda"), busy or not."""
        return self.cores if device == "cpu" else min(self.cores, self.gpus)


@final
class Connection:
    """This process as a driver of a cluster.

    Without its head, Ray answers no question and waits for minutes. So callers look at `missing` before a question, and
    wait for results by `get`.

    Args:
        ray: the module.
        ours: whether `connect` has joined the cluster, so that `close` leaves it.
        needed: addresses without which nothing works, by name.
    """

    def __init__(self, ray: Any, *, ours: bool, needed: Mapping[str, str]) -> None:
        self.ray = ray
        self._ours, self._needed = ours, dict(needed)
        self._looked = 0.0  # time.monotonic() of the last look
        self._missing_since: float | None = None

    def missing(self) -> str:
        """Return the name and address of something needed at which no process listens; empty if nothing is missing."""
        for name, address in self._needed.items():
            host, _, port = address.rpartition(":")
            try:
                if host and port.isdigit():  # a busy process may answer nothing for a while, but accepts connections
                    socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
            except OSError:
                return f"{name}, {address}"
        return ""

    def check(self) -> None:
        """Look for what is needed, at most once per second.

        Raises:
            RuntimeError: once something has been missing for `LOST_TIMEOUT_S`.
        """
        now = time.monotonic()
        if now - self._looked < POLL_INTERVAL_S:
            return
        self._looked, missing = now, self.missing()
        self._missing_since = self._missing_since or now if missing else None
        if self._missing_since is not None and now - self._missing_since >= LOST_TIMEOUT_S:
            raise RuntimeError(f"Lost {missing}. Restart the cluster, then rerun this command to resume.")

    def get(self, reference: Any) -> Any:
        """Return the value of a reference. Raises what `check` raises, and Ray's own errors."""
        while not self.ray.wait([reference], timeout=POLL_INTERVAL_S)[0]:
            self.check()
        return self.ray.get(reference)

    def nodes(self) -> list[Node]:
        """Return the nodes that are there now."""
        found = [node for node in self.ray.nodes() if node["Alive"]]
        sizes = [[int(node["Resources"].get(kind, 0)) for kind in ("CPU", "GPU")] for node in found]
        return [
            Node(identity=node["NodeID"], cores=cores, gpus=gpus)
            for node, (cores, gpus) in zip(found, sizes, strict=True)
        ]

    def count(self, device: str) -> int:
        """Return the number of cores ("cpu") or GPUs ("cuda") that all nodes offer now; see `Node.offers`."""
        return sum(node.offers(device) for node in self.nodes())

    def close(self) -> None:
        """Leave the cluster if it is there: whatever this process runs on it ends."""
        if self._ours and not self.missing():
            self.ray.shutdown()


def connect(address: str) -> Connection:
    """Join a cluster: "auto" for the one of this machine or job, or its head as "HOST:PORT".

    Raises:
        RuntimeError: if Ray is not installed, there is no such cluster, or a node has another version.
        ValueError: for an invalid address.
    """
    if address != "auto" and not re.fullmatch(r"[^/\s]+:\d+", address):
        raise ValueError(f'a cluster is "auto" or HOST:PORT of its head, not {address!r}')
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        place = address
        try:
            if address == "auto":
                place = find_cluster() or address
            if place != "auto":
                check_port(place)
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
        except Exception as error:  # Ray raises many kinds
            is_none = place == "auto" and isinstance(error, ConnectionError)  # Ray's text names its own commands
            reason = "none runs here; name its head, as HOST:PORT" if is_none else first_line(error)
            raise RuntimeError(f"no Ray cluster at {place}: {reason}") from error
    context = ray.get_runtime_context()
    needed = {"the head of the cluster": context.gcs_address}
    for node in ray.nodes():
        if node["NodeID"] == context.get_node_id():  # it holds what this process shares with the others
            needed["this machine's node of the cluster"] = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
    connection = Connection(ray, ours=ours, needed=needed)
    try:
        check_nodes(ray)
    except BaseException:
        connection.close()
        raise
    return connection


def import_ray() -> Any:
    """Return Ray's module, which then reports nothing about its use.

    Raises:
        RuntimeError: if it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", RECONNECT_S)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning to users otherwise
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError(f"a cluster needs Ray: {install_advice('cluster')}") from error
    return ray


def find_cluster() -> str:
    """Return the address that Ray takes for "auto"; empty where Ray looks for its processes itself.

    `ray.init` documents the variable ``RAY_ADDRESS`` and the file of the latest cluster started on this machine, which
    may have ended since.
    """
    if named := os.environ.get("RAY_ADDRESS"):
        return named
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    return file.read_text().strip() if file.is_file() else ""


def check_port(address: str) -> None:
    """Check that HOST:PORT speaks HTTP/2, as the head of a cluster does: Ray would try for minutes.

    Raises:
        OSError: if it does not.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S) as found:
        found.settimeout(CONNECT_TIMEOUT_S)
        found.sendall(HTTP2_PREFACE)
        answer = found.recv(len(HTTP2_SETTINGS))
    if answer[3:4] != HTTP2_SETTINGS[3:4]:
        raise ConnectionError("something else answers there")


def on_node(identity: str, *, soft: bool = False) -> object:
    """Return Ray's scheduling strategy for one node; if ``soft``, for another one once the node is lost."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    found: object = strategies.NodeAffinitySchedulingStrategy(node_id=identity, soft=soft)
    return found


def check_nodes(ray: Any) -> None:
    """Check that every node has this version of the program.

    Raises:
        RuntimeError: naming a node with another one, or with none.
    """

    def version() -> str:  # a local function, which travels to nodes without this program
        import importlib

        try:
            found: str = importlib.import_module("alphac4.version").__version__
        except ImportError:
            return ""
        return found

    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node["NodeID"]))(version)
            asked[task.remote()] = node["NodeManagerAddress"]
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=NODE_TIMEOUT_S)
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
