"""Cluster actors without a cluster: they play in this process, with a fake of Ray."""

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from alphac4.game.rules import STANDARD
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.plugins.cluster.actors import ActorSettings, ClusterActors, RemoteActor, Weights, make_actors
from alphac4.plugins.cluster.connection import Connection, Node, check_nodes
from alphac4.plugins.cluster.pool import RayPool, fetch
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block
from alphac4.version import __version__

# A test that expects no cluster would join that of another worker, because Ray searches the machine's processes.
pytestmark = pytest.mark.xdist_group("cluster")

SLOTS = 4
LARGEST_BLOCK = 2 * SLOTS * STANDARD.cells  # positions


class TaskError(Exception):
    cause = ValueError("a bug")


class LostError(Exception):
    """Raised for a lost actor."""


class FakeRay:
    """The part of Ray that cluster actors use. Calls run when their result is requested."""

    exceptions = SimpleNamespace(RayTaskError=TaskError, RayError=LostError)

    def __init__(self, cores: int) -> None:
        self.cores, self.fail, self.actors = cores, False, 0

    def remote(self, **_options: object) -> Callable[[type], Any]:

        def make(*arguments: Any) -> Any:
            self.actors += 1
            actor = RemoteActor(*arguments)
            control = {
                name: Mock(options=lambda name=name, **_options: Mock(remote=getattr(actor, name)))
                for name in ("update", "end")
            }
            return Mock(**control, play=Mock(remote=lambda weights: lambda: actor.play(weights)))

        return lambda _kind: SimpleNamespace(remote=make)

    def put(self, value: object) -> object:
        return value

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "0" * 56, "Alive": True, "Resources": {"CPU": float(self.cores)}}]

    def wait(self, calls: list[Any], timeout: float, num_returns: int = 1) -> tuple[list[Any], list[Any]]:
        assert num_returns == len(calls)
        assert timeout <= 2
        return calls, []

    def get(self, call: Callable[[], Any]) -> Any:
        if self.fail:
            raise TaskError
        return call()

    def kill(self, _actor: object) -> None:
        self.actors -= 1


@pytest.fixture(autouse=True)
def ray_of_actors(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The runtime context of actors."""
    context = SimpleNamespace(was_current_actor_reconstructed=False)
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    ray = SimpleNamespace(get=lambda network: network, get_runtime_context=lambda: context, util=util)
    for module in ("pool", "actors"):
        monkeypatch.setattr(f"alphac4.plugins.cluster.{module}.import_ray", lambda: ray)
    return context


def make_network() -> PolicyValueNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()


TASK = ActorSettings(
    board=STANDARD,
    config=SelfPlayConfig(parallel_games=4, full_visits=4, fast_visits=2),
    slots=SLOTS,
    backend="torch-fp32",
)


def test_a_node_without_the_runs_backend_plays_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)  # as if it were not installed
    task = replace(TASK, backend="openvino-fp32")
    assert not make_actors(task, make_network(), np.random.default_rng(0)).backend.startswith("openvino")


def make(ray: Any, needed: dict[str, str] | None = None) -> ClusterActors:
    connection = Connection(ray, ours=False, needed=needed or {})
    return ClusterActors(connection, TASK, make_network(), lambda index: np.random.default_rng([5, index]))


def play(actors: ClusterActors, positions: int, *, last: bool = False) -> list[Block]:
    blocks: list[Block] = []
    actors.play(positions, lambda _actor, block: blocks.append(block), last=last)
    return blocks


def test_a_restarted_actor_plays_different_games(
    ray_of_actors: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray creates it with the arguments of the lost one."""
    monkeypatch.setattr("alphac4.selfplay.actor.MAX_BLOCK_INTERVAL_S", float("inf"))
    weights = Weights(version=0, network=partial(fetch, make_network()))
    games = []
    for ray_of_actors.was_current_actor_reconstructed in (False, False, True):
        actor = RemoteActor(TASK, np.random.default_rng(0))
        games.append(actor.play(weights).block.games.value.tobytes())
    assert games[0] == games[1] != games[2]


def test_cores_that_join_later_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alphac4.plugins.cluster.actors.COUNT_INTERVAL_S", 0.0)
    ray = FakeRay(2)
    actors = make(ray)
    play(actors, 300)
    assert ray.actors == len(actors) == 2
    ray.cores = 4
    play(actors, 3000)
    assert actors.statistics["cluster/actors"] == ray.actors == 4
    actors.close()
    assert ray.actors == 0


@pytest.mark.parametrize("last", [False, True])
def test_actors_play_the_positions_of_the_next_call_ahead(last: bool) -> None:
    """After the last call they play nothing, so that the cores are free for the closing matches."""
    ray = FakeRay(3)
    actors = make(ray)
    blocks = play(actors, 2000, last=last)
    positions = sum(block.sample_count for block in blocks)
    assert 2000 <= positions < 2000 + LARGEST_BLOCK
    requested = len(actors._calls) * positions / len(blocks)
    if last:
        assert (requested, ray.actors) == (0, 0)
    else:
        assert 0.6 * 2000 < requested < 2000 + 3 * LARGEST_BLOCK


def test_the_next_blocks_use_the_updated_weights() -> None:
    """Blocks that were requested before the update use them as well. Only finished blocks have the old version."""
    actors = make(FakeRay(1))
    play(actors, 200)
    actors.update(make_network())
    play(actors, 400)
    assert actors.statistics["cluster/max_promotions_behind"] == 0


def test_staleness_is_the_mean_number_of_versions_over_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Actors that have not yet got the update play the requested blocks with the old weights."""
    monkeypatch.setattr(RemoteActor, "update", lambda *_: None)
    ray = FakeRay(1)
    actors = make(ray)
    play(actors, 200)
    assert actors.statistics["cluster/staleness"] == 0
    actors.update(make_network())
    behind, get = list[int](), ray.get

    def recorded(call: Callable[[], Any]) -> Any:
        received = get(call)
        behind.extend([1 - received.version] * received.block.sample_count)
        return received

    monkeypatch.setattr(ray, "get", recorded)
    blocks = play(actors, 1000)
    assert actors.statistics["cluster/max_promotions_behind"] == 1
    staleness = actors.statistics["cluster/staleness"]
    assert staleness == pytest.approx(sum(behind) / len(behind))
    assert 0 < staleness < 1
    assert len(behind) == sum(block.sample_count for block in blocks)


@pytest.mark.parametrize(("has", "message"), [("0.0.1", "alphac4 0.0.1"), ("", "no alphac4"), ("same", "")])
def test_a_node_with_another_version_is_rejected(has: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the second of two nodes has it."""
    monkeypatch.setattr("alphac4.plugins.cluster.connection.on_node", lambda identity: identity)

    def remote(scheduling_strategy: str, **_options: object) -> Callable[[Callable[[], str]], Any]:
        is_other = scheduling_strategy == "second" and has != "same"
        return lambda function: Mock(remote=lambda: lambda: has if is_other else function())

    nodes = [
        {"NodeID": "first", "Alive": True, "NodeManagerAddress": "10.0.0.1"},
        {"NodeID": "second", "Alive": True, "NodeManagerAddress": "10.0.0.2"},
        {"NodeID": "lost", "Alive": False, "NodeManagerAddress": "10.0.0.3"},
    ]
    ray = Mock(remote=remote, nodes=lambda: nodes, exceptions=FakeRay.exceptions)
    ray.wait, ray.get = (lambda calls, **_options: (calls, [])), lambda call: call()
    if not message:
        check_nodes(ray)
        return
    expected = f"node 10.0.0.2 has {message}, this program is alphac4 {__version__}: install the same on every node"
    with pytest.raises(RuntimeError, match=f"^{re.escape(expected)}$"):
        check_nodes(ray)


def test_an_error_in_an_actor_ends_the_run_with_a_message() -> None:
    ray = FakeRay(1)
    ray.fail = True
    with pytest.raises(RuntimeError, match="an actor of the cluster failed: a bug"):
        play(make(ray), 100)


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens until a test closes it, and its address. A lost head is reported immediately."""
    monkeypatch.setattr("alphac4.plugins.cluster.connection.LOST_TIMEOUT_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


def test_a_lost_head_ends_the_run_with_a_message(
    head: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, address = head
    ray, never = FakeRay(1), threading.Event()
    actors = make(ray, needed={"the head of the cluster": address})
    play(actors, 100)
    monkeypatch.setattr(ray, "nodes", lambda: never.wait() or [])  # without its head, Ray blocks
    server.close()
    with pytest.raises(RuntimeError, match=f"Lost the head of the cluster, {address}. Restart the cluster"):
        play(actors, 10**9)
    actors.close()
    never.set()


def test_a_lost_head_ends_the_calls_of_a_pool_with_a_message(head: tuple[socket.socket, str]) -> None:
    server, address = head
    is_lost = threading.Event()

    def wait(references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return ([], references) if is_lost.wait(timeout / 100) else (references, [])

    ray = Mock(nodes=FakeRay(1).nodes, wait=wait)
    ray.exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=OSError)
    pool = RayPool(Connection(ray, ours=False, needed={"the head of the cluster": address}))
    is_lost.set()
    future = pool.submit(int)
    server.close()
    error = future.exception(60)
    assert isinstance(error, RuntimeError)
    assert f"Lost the head of the cluster, {address}." in str(error)
    assert "\n" not in str(error)
    pool.close()


def test_a_gpu_on_a_node_without_cores_is_not_used() -> None:
    """Such a node is a head that was started with `--num-cpus 0`."""
    nodes = [Node(identity="head", cores=0, gpus=1), Node(identity="worker", cores=4, gpus=0)]
    assert [sum(node.max_actors(device) for node in nodes) for device in ("cpu", "cuda")] == [4, 0]
    assert Node(identity="other", cores=1, gpus=2).max_actors("cuda") == 1


def test_an_address_without_a_cluster_is_rejected_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error_line: Callable[..., str]
) -> None:
    """Ports of other, silent programs and a missing Ray are included."""
    pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
    command = f"train --run {tmp_path} --machine.device"
    assert "HOST:PORT" in error_line(command, "ray:nowhere")
    assert "only plays the games of train" in error_line("evaluate random --device ray:auto")
    assert "no Ray cluster at 127.0.0.1:9: " in error_line(command, "ray:127.0.0.1:9")
    monkeypatch.setattr("alphac4.plugins.cluster.connection.CONNECT_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        assert f":{port}: " in error_line(command, "ray:auto")
        monkeypatch.delenv("RAY_ADDRESS")
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # Ray stores the address of the latest cluster there
        latest = tmp_path / "ray" / "ray_current_cluster"
        latest.parent.mkdir()
        latest.write_text(f"127.0.0.1:{port}")
        assert f":{port}: " in error_line(command, "ray:auto")
    latest.unlink()
    assert "none runs here; name its head, as HOST:PORT" in error_line(command, "ray:auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "a cluster needs Ray: ./scripts/setup.sh cluster" in error_line(command, "ray:auto")
