"""The way to a Ray cluster, and whether all its nodes run this program."""

import contextlib
import importlib
import logging
import os
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

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


@dataclass(frozen=True, kw_only=True)
class Connection:
    """This process as a driver of a cluster."""

    ray: Any  # the module
    ours: bool  # whether `connect` has made it
    needed: Mapping[str, str] = field(default_factory=dict)  # addresses without which nothing goes on, by name

    def close(self) -> None:
        """Leave the cluster, unless it has gone already: whatever this process runs there ends."""
        if self.ours and self.missing() is None:  # whoever asks Ray for anything otherwise waits without end
            self.ray.shutdown()

    def missing(self) -> str | None:
        """The name and address of something needed at which nobody listens any more."""
        for name, address in self.needed.items():
            host, _, port = address.rpartition(":")
            try:
                if host and port.isdigit():  # whoever is busy may not say anything for a while, but is there
                    socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT).close()
            except OSError:
                return f"{name}, {address},"
        return None

    def get(self, reference: Any) -> Any:
        """What a reference stands for; Ray itself would wait without end once the head has gone.

        Raises:
            RuntimeError: in one line, once something needed has been away for some time.
            Exception: Ray's own, such as those of a function that failed.
        """
        self._wait(lambda: self.ray.wait([reference], timeout=SECONDS_BETWEEN_LOOKS)[0])
        return self.ray.get(reference)

    def _wait(self, look: Callable[[], object]) -> None:
        """Look, which takes a while, until there is something; RuntimeError as in `get`."""
        seen = time.monotonic()
        while not look():
            missing = self.missing()
            if missing is None:
                seen = time.monotonic()
            elif time.monotonic() - seen > SECONDS_OF_ABSENCE:
                raise RuntimeError(f"{missing} has gone")

    def ready(self, references: Sequence[Any], seconds: float) -> list[Any]:
        """Those of the references that stand for something after some time, or sooner if it is all of them.

        Raises:
            RuntimeError: see `get`.
        """
        found: list[Any] = []
        end = time.monotonic() + seconds

        def look() -> bool:
            nonlocal found
            found, waiting = self.ray.wait(list(references), num_returns=len(references), timeout=SECONDS_BETWEEN_LOOKS)
            return not waiting or time.monotonic() >= end

        self._wait(look)
        return found

    def nodes(self) -> list[Node]:
        """The nodes that are there now. Once the head has gone there is no answer ever: see `ask`."""
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
        """What all nodes offer for a device; see `Node.offers`, and `ask`."""
        return sum(node.offers(device) for node in self.nodes())

    def ask(self, question: Callable[..., T], *arguments: object) -> T:
        """What a function returns that asks the head.

        Raises:
            RuntimeError: in one line, once something needed has been away for some time.
            Exception: whatever the function raises.
        """
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(question(*arguments))
            except BaseException as error:  # carried to the caller
                answer.set_exception(error)

        threading.Thread(target=call, name="cluster-question", daemon=True).start()
        self._wait(lambda: wait([answer], timeout=SECONDS_BETWEEN_LOOKS).done)
        return answer.result()

    def wait_until_gone(self, ended: threading.Event) -> str | None:
        """What is `missing`, once it has been for some time; None if it is ``ended`` before."""
        seen = time.monotonic()
        while not ended.wait(SECONDS_BETWEEN_LOOKS):
            missing = self.missing()
            if missing is None:
                seen = time.monotonic()
            elif time.monotonic() - seen > SECONDS_OF_ABSENCE:
                return missing
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
                place = find_cluster()
            check_port(place)
            with warnings.catch_warnings(action="ignore"):
                ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
        except Exception as error:  # Ray raises many kinds
            raise RuntimeError(f"no Ray cluster at {place}: {first_line(error)}") from error
    context = ray.get_runtime_context()
    needed = {"the head of the cluster": context.gcs_address}
    for node in ray.nodes():
        if node["NodeID"] == context.get_node_id():  # it holds what this process gives to the others
            needed["this machine's node of the cluster"] = f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"
    connection = Connection(ray=ray, ours=ours, needed=needed)
    try:
        check_nodes(ray)
    except BaseException:
        connection.close()
        raise
    return connection


def find_cluster() -> str:
    """The cluster that this machine or this job belongs to; it may have ended since its address was written down.

    Raises:
        ConnectionError: if there is none.
    """
    found: str = importlib.import_module("ray._private.services").canonicalize_bootstrap_address("auto")
    return found


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


def import_ray() -> Any:
    """Ray, told to keep to itself what it would report about its use.

    Raises:
        RuntimeError: in one line, if it is not installed.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray would end this process a minute after the head, in the middle of whatever it does; `Crew` says so instead.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "1000000")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # a warning to users otherwise
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError("a cluster needs Ray: pip install 'alphac4[cluster]'") from error
    # Ray has no setting that keeps the cluster's own errors, twenty lines each, from a driver's terminal; `Crew` tells
    # of those that matter, and Ray's logs have them all.
    importlib.import_module("ray._private.worker").print_to_stdstream = lambda *_arguments, **_named: None  # type: ignore[attr-defined]
    return ray


def on_node(identity: str) -> object:
    """Ray's scheduling strategy for one node and no other."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    found: object = strategies.NodeAffinitySchedulingStrategy(node_id=identity, soft=False)
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


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
