"""The way to a Ray cluster, and whether all its nodes run this program."""

import contextlib
import importlib
import logging
import os
import re
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

from alphac4.machine import install_advice
from alphac4.storage.records import first_line
from alphac4.version import __version__

T = TypeVar("T")

logger = logging.getLogger(__name__)

SECONDS_TO_CONNECT = 5.0
HTTP_2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # length, type, flags and stream of a frame (RFC 9113, 6.5)
HTTP_2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HTTP_2_SETTINGS
SECONDS_BETWEEN_LOOKS = 1.0  # at whether everything needed is there
SECONDS_OF_ABSENCE = 20.0  # before something needed is given up; one that is restarted is back by then
SECONDS_FOR_ANSWER = 60.0  # a node's first answer waits for a process to start


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine of a cluster, or what plays the part of one."""

    identity: str  # Ray's
    cores: int
    gpus: int

    def offers(self, device: str) -> int:
        """Its cores ("cpu"), or its GPUs that have a core beside them ("cuda"), whoever uses them now."""
        return self.cores if device == "cpu" else min(self.cores, self.gpus)


@final
class Connection:
    """This process as a driver of a cluster.

    Once the head has gone, Ray waits without end for whatever it is asked. So nobody asks it but through `get` and
    `ask`, which look meanwhile whether there is still somebody to answer, or in a thread that nobody waits for.

    Args:
        ray: the module.
        ours: whether `connect` has joined the cluster, so that `close` leaves it.
        needed: addresses without which nothing goes on, by name.
    """

    def __init__(self, ray: Any, *, ours: bool, needed: Mapping[str, str]) -> None:
        self.ray = ray
        self._ours, self._needed = ours, dict(needed)
        self._looked = 0.0  # time.monotonic() of the last look
        self._missing_since: float | None = None

    def check(self) -> None:
        """Look at most once a second whether the cluster is there.

        Raises:
            RuntimeError: once something needed has been away for `SECONDS_OF_ABSENCE`.
        """
        now = time.monotonic()
        if now - self._looked < SECONDS_BETWEEN_LOOKS:
            return
        self._looked, missing = now, self._missing()
        self._missing_since = None if missing is None else self._missing_since or now
        if self._missing_since is not None and now - self._missing_since >= SECONDS_OF_ABSENCE:
            raise RuntimeError(f"Lost {missing}. Restart the cluster, then rerun this command to resume.")

    def reachable(self) -> bool:
        """Whether Ray would answer now."""
        return self._missing() is None

    def get(self, reference: Any) -> Any:
        """The value of a reference.

        Raises:
            RuntimeError: see `check`.
            Exception: Ray's own, such as those of a function that failed.
        """
        while not self.ray.wait([reference], timeout=SECONDS_BETWEEN_LOOKS)[0]:
            self.check()
        return self.ray.get(reference)

    def ask(self, question: Callable[..., T], *arguments: object) -> T:
        """Call a function that asks the head, and return its result.

        Raises:
            RuntimeError: see `check`.
            Exception: whatever the function raises.
        """
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(question(*arguments))
            except BaseException as error:  # carried to the caller
                answer.set_exception(error)

        threading.Thread(target=call, name="cluster-question", daemon=True).start()
        while not wait([answer], timeout=SECONDS_BETWEEN_LOOKS).done:
            self.check()
        return answer.result()

    def nodes(self) -> list[Node]:
        """The nodes that are there now; see `ask`."""
        return [
            Node(
                identity=node["NodeID"],
                cores=int(node["Resources"].get("CPU", 0)),
                gpus=int(node["Resources"].get("GPU", 0)),
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]

    def count(self, device: str) -> int:
        """Number of cores ("cpu") or GPUs ("cuda") that all nodes offer now; see `Node.offers` and `ask`."""
        return sum(node.offers(device) for node in self.nodes())

    def close(self) -> None:
        """Leave the cluster, unless it has gone already: whatever this process runs there ends."""
        if self._ours and self.reachable():
            self.ray.shutdown()

    def _missing(self) -> str | None:
        """The name and address of something needed at which nobody listens."""
        for name, address in self._needed.items():
            host, _, port = address.rpartition(":")
            try:
                if host and port.isdigit():  # whoever is busy may not say anything for a while, but is there
                    socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
            except OSError:
                return f"{name}, {address}"
        return None


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
        place = address
        try:
            if address == "auto":
                place = find_cluster() or address
            if place != "auto":
                check_port(place)
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
        except Exception as error:  # Ray raises many kinds
            none = place == "auto" and isinstance(
                error, ConnectionError
            )  # Ray's words name options of its own commands
            reason = "none runs here; name its head, as HOST:PORT" if none else first_line(error)
            raise RuntimeError(f"no Ray cluster at {place}: {reason}") from error
    context = ray.get_runtime_context()
    needed = {"the head of the cluster": context.gcs_address}
    for node in ray.nodes():
        if node["NodeID"] == context.get_node_id():  # it holds what this process gives to the others
            needed["this machine's node of the cluster"] = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
    connection = Connection(ray, ours=ours, needed=needed)
    try:
        check_nodes(ray)
    except BaseException:
        connection.close()
        raise
    return connection


def import_ray() -> Any:
    """Ray, told to keep to itself what it would report about its use.

    Raises:
        RuntimeError: in one line, if it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray would end this process a minute after the head, in the middle of whatever it does; `Connection` says so.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "1000000")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning to users otherwise
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError(f"a cluster needs Ray: {install_advice('cluster')}") from error
    return ray


def find_cluster() -> str:
    """Return the address that Ray takes for "auto", as far as its documentation says; it may have ended since.

    `ray.init` documents both places: the variable ``RAY_ADDRESS``, and the file of the latest cluster that was started
    on this machine. Without either it looks for Ray's processes itself.
    """
    if named := os.environ.get("RAY_ADDRESS"):
        return named
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    return file.read_text().strip() if file.is_file() else ""


def check_port(address: str) -> None:
    """Look whether somebody at HOST:PORT speaks HTTP/2, as the head of a cluster does: Ray would try for minutes.

    Raises:
        OSError: if nobody does.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT) as found:
        found.settimeout(SECONDS_TO_CONNECT)
        found.sendall(HTTP_2_GREETING)
        answer = found.recv(len(HTTP_2_SETTINGS))
    if answer[3:4] != HTTP_2_SETTINGS[3:4]:
        raise ConnectionError("something else answers there")


def on_node(identity: str, *, soft: bool = False) -> object:
    """Ray's scheduling strategy for one node: no other if it is not ``soft``, otherwise while it is there."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    found: object = strategies.NodeAffinitySchedulingStrategy(node_id=identity, soft=soft)
    return found


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

    asked = {}
    for node in ray.nodes():
        if node["Alive"]:
            task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=on_node(node["NodeID"]))(version)
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
