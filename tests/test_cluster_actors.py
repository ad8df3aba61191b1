"""The cluster's part of a run without a cluster: actors play in this process, behind as much of Ray as is needed."""

import copy
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from alphac4.cli import main
from alphac4.compute.cluster.actors import CALLS_IN_FLIGHT, ClusterActors
from alphac4.compute.cluster.connection import Connection, Node
from alphac4.compute.cluster.pool import ClusterPool
from alphac4.compute.cluster.remote import ActorPlace, RemoteActor, Task
from alphac4.game.rules import STANDARD
from alphac4.nn.config import NetworkConfig
from alphac4.nn.network import PolicyValueNetwork
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.samples import Block

SLOTS = 4
LARGEST_BLOCK = 2 * SLOTS * STANDARD.cells  # positions


class TaskError(Exception):
    """An actor's own error."""

    cause = ValueError("a mistake of ours")


class LostError(Exception):
    """An actor that is not there any more."""


class FakeActor:
    """A handle, whose methods give calls that are carried out when somebody asks for the result."""

    def __init__(self, index: int) -> None:
        self.index, self.alive, self.real = index, True, RemoteActor()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: (self, lambda: getattr(self.real, name)(*arguments)))


class FakeRay:
    """As much of Ray as a cluster's actors need; its actors die when a test says so."""

    exceptions = SimpleNamespace(RayTaskError=TaskError, RayError=LostError)

    def __init__(self, cores: int) -> None:
        self.cores, self.fail = cores, False
        self.actors: list[FakeActor] = []
        self.lose_after_playing: set[int] = set()  # actors that die once they have played, before anybody hears of it
        self.on_loss: Callable[[], None] = lambda: None

    def remote(self, **_options: object) -> Callable[[type], Any]:
        """See Ray."""

        def make() -> FakeActor:
            self.actors.append(FakeActor(len(self.actors)))
            return self.actors[-1]

        return lambda _kind: SimpleNamespace(remote=make)

    def put(self, value: object) -> object:
        """See Ray."""
        return value

    def nodes(self) -> list[dict[str, Any]]:
        """See Ray. Once the head has gone there is no answer: a run must never wait for it itself."""
        assert threading.current_thread() is not threading.main_thread()
        return [{"NodeID": "0" * 56, "Alive": True, "Resources": {"CPU": float(self.cores)}}]

    def wait(self, calls: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        """See Ray."""
        assert num_returns == len(calls)
        assert timeout < 1
        return calls, []

    def get(self, call: tuple[FakeActor, Callable[[], Any]]) -> Any:
        """See Ray."""
        actor, work = call
        if self.fail:
            raise TaskError
        if not actor.alive:
            raise LostError
        result = work()
        if actor.index in self.lose_after_playing and not isinstance(result, ActorPlace):
            actor.alive = False
            self.on_loss()
            raise LostError
        return result

    def kill(self, actor: FakeActor) -> None:
        """See Ray."""
        actor.alive = False


@pytest.fixture(autouse=True)
def _ray_of_actors(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "here")
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")
    ray = SimpleNamespace(get=lambda network: network, get_runtime_context=lambda: context, util=util)
    for module in ("pool", "remote"):
        monkeypatch.setattr(f"alphac4.compute.cluster.{module}.import_ray", lambda: ray)


def make_network() -> PolicyValueNetwork:
    """The same small network every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()


def make(ray: Any, slots: int = SLOTS, needed: dict[str, str] | None = None) -> ClusterActors:
    config = SelfPlayConfig(games=4, full_simulations=4, fast_simulations=2)
    task = Task(geometry=STANDARD, config=config, slots=slots, backend="torch-fp32")
    connection = Connection(ray, ours=False, needed=needed or {})
    return ClusterActors(connection, task, make_network(), lambda index: np.random.default_rng([5, index]))


MakeActors = Callable[..., ClusterActors]


@pytest.fixture
def make_actors(_ray_of_actors: None) -> Iterator[MakeActors]:
    """All are closed in the end."""
    made = []

    def make_one(*arguments: Any, **options: Any) -> ClusterActors:
        made.append(make(*arguments, **options))
        return made[-1]

    yield make_one
    for actors in made:
        actors.close()


def play(actors: ClusterActors, positions: int, *, last: bool = False) -> list[Block]:
    """The blocks that a call of `play` hands over."""
    blocks: list[Block] = []
    actors.play(positions, lambda _seat, block: blocks.append(copy.deepcopy(block)), last=last)
    return blocks


def waiting(actors: ClusterActors) -> int:
    """Blocks that the next call of `play` begins with."""
    return actors._deliveries.qsize()


def positions_in(blocks: list[Block]) -> int:
    return sum(block.positions for block in blocks)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_actor_that_takes_over_begins_new_games(make_actors: MakeActors) -> None:
    """No game is there twice, as it has other random numbers than the lost one."""
    ray = FakeRay(1)
    actors = make_actors(ray)
    blocks = play(actors, 300)
    ray.lose_after_playing = {0, 1}
    blocks += play(actors, 600)
    games = [
        moves.tobytes() + values.tobytes()
        for block in blocks
        for moves, values in zip(block.games.moves, block.games.value, strict=True)
    ]
    assert len(set(games)) == len(games)
    assert actors.state() == {}
    for lost in (2, 0):  # told once
        report = actors.cluster_report
        assert report is not None
        assert report.lost == lost
        play(actors, 50)


def test_an_actor_that_is_lost_while_it_waits_is_replaced_before_it_is_asked_to_play(make_actors: MakeActors) -> None:
    """As on a node that goes while the run learns."""
    ray = FakeRay(1)
    actors = make_actors(ray)
    play(actors, 200)
    wait_for(lambda: actors._waiting >= 200 and not any(seat.calls for seat in actors._seats))
    ray.actors[0].alive = False
    wait_for(lambda: actors._lost == 1 and len(actors._places()) == 1)


def test_a_core_that_joins_is_used(make_actors: MakeActors) -> None:
    ray = FakeRay(2)
    actors = make_actors(ray)
    play(actors, 300)
    assert len(ray.actors) == len(actors) == 2
    ray.cores = 4
    wait_for(lambda: play(actors, 200) != [] and len(actors._places()) == 4)
    actors.close()
    assert not any(actor.alive for actor in ray.actors)


def test_play_ahead_is_bounded(make_actors: MakeActors) -> None:
    """At most as many positions wait as a call asks for, and two blocks of each actor."""
    actors = make_actors(FakeRay(3))
    play(actors, 200)
    wait_for(lambda: actors._waiting >= 200 and not any(seat.calls for seat in actors._seats))
    assert actors._waiting < 200 + 3 * CALLS_IN_FLIGHT * LARGEST_BLOCK
    assert 200 <= positions_in(play(actors, 200)) < 200 + LARGEST_BLOCK


def test_nobody_plays_ahead_of_the_last_call(make_actors: MakeActors) -> None:
    """The cores are free for whatever closes the run."""
    ray = FakeRay(3)
    actors = make_actors(ray)
    play(actors, 200)
    assert 200 <= positions_in(play(actors, 200, last=True)) < 200 + LARGEST_BLOCK
    wait_for(lambda: not any(actor.alive for actor in ray.actors))


def test_other_weights_are_taken_up(make_actors: MakeActors) -> None:
    """Blocks that were waiting when they came are one version behind."""
    actors = make_actors(FakeRay(1))
    for max_staleness in (0, 1):
        play(actors, 200)
        report = actors.cluster_report
        assert report is not None
        assert report.max_staleness == max_staleness
        wait_for(lambda: waiting(actors) > 0)
        actors.update(make_network())
    wait_for(lambda: (delivery := actors._take()) is not None and delivery.version == 2)


def test_a_mistake_of_an_actor_ends_the_run_in_one_line(make_actors: MakeActors) -> None:
    """It would come again on every other core."""
    ray = FakeRay(1)
    ray.fail = True
    with pytest.raises(RuntimeError, match="an actor of the cluster failed: a mistake of ours"):
        play(make_actors(ray), 100)


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, str]]:
    """Something that listens until a test closes it, and its address; nobody waits for it to come back."""
    monkeypatch.setattr("alphac4.compute.cluster.connection.SECONDS_OF_ABSENCE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


def test_a_head_that_has_gone_ends_the_run_in_one_line(
    head: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, address = head
    ray, never = FakeRay(1), threading.Event()
    actors = make(ray, needed={"the head of the cluster": address})
    play(actors, 100)
    monkeypatch.setattr(ray, "nodes", lambda: never.wait() or [])
    server.close()
    with pytest.raises(RuntimeError, match=rf"the head of the cluster, {address}, has gone.*the same command goes on"):
        play(actors, 10**9)
    actors.close()
    never.set()


def test_a_run_that_ends_as_the_head_goes_does_not_wait_for_it(
    head: tuple[socket.socket, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes the blocks may just have asked it for something."""
    server, address = head
    ray = FakeRay(1)
    actors = make(ray, needed={"the head": address})
    play(actors, 100)
    asked, never = threading.Event(), threading.Event()
    monkeypatch.setattr(ray, "nodes", lambda: asked.set() or never.wait() or [])
    assert asked.wait(60)
    server.close()
    actors.close()
    never.set()


def test_a_head_that_has_gone_ends_the_work_of_a_pool_in_one_line(head: tuple[socket.socket, str]) -> None:
    server, address = head
    gone = threading.Event()

    def answer_until_it_goes(references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return ([], references) if gone.wait(timeout / 100) else (references, [])

    ray = Mock(nodes=FakeRay(1).nodes, wait=answer_until_it_goes)
    ray.exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=OSError)
    pool = ClusterPool(Connection(ray, ours=False, needed={"the head of the cluster": address}))
    gone.set()
    work = pool.submit(int)
    server.close()
    error = work.exception(60)
    assert isinstance(error, RuntimeError)
    assert f"the head of the cluster, {address}, has gone: once" in str(error)
    assert "\n" not in str(error)
    pool.close()


def test_a_gpu_without_a_core_beside_it_plays_nothing() -> None:
    """As on a head that was started with `--num-cpus 0`: the others' cores play."""
    nodes = [Node(identity="head", cores=0, gpus=1), Node(identity="worker", cores=4, gpus=0)]
    assert [sum(node.offers(device) for node in nodes) for device in ("cpu", "cuda")] == [4, 0]
    assert Node(identity="other", cores=1, gpus=2).offers("cuda") == 1


def test_an_address_without_a_cluster_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where something else has the port that "auto" stands for and never says a word, and where Ray is missing."""
    pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")

    def refusal(address: str) -> str:
        assert main(["train", "--run", str(tmp_path), "--cluster", address]) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1
        return line

    assert "HOST:PORT" in refusal("nowhere")
    assert "no Ray cluster at 127.0.0.1:9: " in refusal("127.0.0.1:9")
    monkeypatch.setattr("alphac4.compute.cluster.connection.SECONDS_TO_CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        assert f":{port}: " in refusal("auto")
        monkeypatch.delenv("RAY_ADDRESS")
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where Ray documents the address of the latest cluster
        latest = tmp_path / "ray" / "ray_current_cluster"
        latest.parent.mkdir()
        latest.write_text(f"127.0.0.1:{port}")
        assert f":{port}: " in refusal("auto")
    latest.unlink()
    assert "none runs here; name its head, as HOST:PORT" in refusal("auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "a cluster needs Ray: ./scripts/setup.sh cluster" in refusal("auto")
