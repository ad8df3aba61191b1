import copy
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from alphac4.cluster.connection import Connection
from alphac4.cluster.crew import CALLS_IN_FLIGHT, Crew, GamesUnderWay
from alphac4.cluster.metrics import GAUGES
from alphac4.cluster.worker import Place, ReplayingActor, Task, Weights
from alphac4.compute.cluster import ClusterActors
from alphac4.game.rules import STANDARD
from alphac4.nn import NetworkConfig, PolicyValueNetwork
from alphac4.nn.evaluator import Evaluator
from alphac4.selfplay.actor import Actor
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.config import SelfPlayConfig
from alphac4.selfplay.game_arrays import SEARCHING

CONFIG = SelfPlayConfig(games=4, full_simulations=4, fast_simulations=2)
SLOTS = 4
LARGEST_BLOCK = 2 * SLOTS * STANDARD.cells  # positions


class TaskError(Exception):
    """An actor's own error."""

    cause = ValueError("a mistake of ours")


class LostError(Exception):
    """An actor that is not there any more."""


class RealActor:
    """Plays as a remote actor does, in this process."""

    def __init__(self, index: int) -> None:
        self.index = index

    def prepare(self, task: Task, _weights: object, rng: np.random.Generator, under_way: Any) -> Place:
        """As `RemoteActor.prepare`."""
        evaluator = Evaluator(make_network(), batch_size=SLOTS, device="cpu", backend="torch-fp32")
        actor = Actor(task.geometry, task.config, evaluator, task.slots, rng)
        if under_way is not None:
            actor.restore(under_way)
        self.blocks = actor.play(2**40, lambda: False)
        return Place(node="127.0.0.1", node_id=str(self.index), process=self.index)

    def live(self) -> None:
        """As `RemoteActor.live`."""

    def play(self, weights: Any) -> tuple[int, Block]:
        """As `RemoteActor.play`, without other weights."""
        return weights.version, next(self.blocks)


class FakeActor:
    """A handle, whose methods give calls that are carried out when somebody asks for the result."""

    def __init__(self, index: int) -> None:
        self.alive, self.real = True, RealActor(index)

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            return SimpleCall(self, lambda: getattr(self.real, name)(*arguments))

        return SimpleNamespace(remote=call)


class SimpleCall:
    """A call of an actor."""

    def __init__(self, actor: FakeActor, work: Callable[[], Any]) -> None:
        self.actor, self.work = actor, work


class FakeRay:
    """As much of Ray as a crew needs; its actors die when a test says so."""

    exceptions = SimpleNamespace(RayTaskError=TaskError, RayError=LostError)

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.actors: list[FakeActor] = []
        self.lose_after_playing: set[int] = set()  # actors that die once they have played, before anybody hears of it
        self.on_loss: Callable[[], None] = lambda: None
        self.fail = False

    def remote(self, **_options: object) -> Callable[[type], Any]:
        """Make a class remote."""

        def make() -> FakeActor:
            self.actors.append(FakeActor(len(self.actors)))
            return self.actors[-1]

        return lambda _kind: SimpleNamespace(remote=make)

    def put(self, value: object) -> object:
        """Share an object."""
        return value

    def nodes(self) -> list[dict[str, Any]]:
        """One with all the cores."""
        return [{"NodeID": "0" * 56, "Alive": True, "Resources": {"CPU": float(self.cores)}}]

    def wait(self, calls: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        """Everything is always ready."""
        assert num_returns == len(calls)
        assert timeout < 1
        return calls, []

    def get(self, call: Any) -> Any:
        """Carry the call out."""
        if self.fail:
            raise TaskError
        if not call.actor.alive:
            raise LostError
        result = call.work()
        if call.actor.real.index in self.lose_after_playing and not isinstance(result, Place):
            call.actor.alive = False
            self.on_loss()
            raise LostError
        return result

    def kill(self, actor: FakeActor) -> None:
        """Let an actor die."""
        actor.alive = False


def make_network() -> PolicyValueNetwork:
    """The same small network every time."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return PolicyValueNetwork(NetworkConfig(channels=8, blocks=1)).eval()


MakeActors = Callable[..., ClusterActors]


@pytest.fixture
def make_actors() -> Iterator[MakeActors]:
    """Actors on a cluster that is none; all are closed in the end."""
    made = []

    def make(ray: FakeRay, slots: int = SLOTS) -> ClusterActors:
        task = Task(geometry=STANDARD, config=CONFIG, slots=slots, backend="torch-fp32")
        connection = Connection(ray=ray, ours=False)
        crew = Crew(connection, task, make_network(), lambda index: np.random.default_rng([5, index]))
        made.append(ClusterActors(crew, slots, "torch-fp32"))
        return made[-1]

    yield make
    for actors in made:
        actors.close()


def play(actors: ClusterActors, positions: int) -> list[tuple[int, Block]]:
    """What a call of `play` hands over."""
    blocks: list[tuple[int, Block]] = []
    actors.play(positions, threading.Event(), lambda seat, block: blocks.append((seat, copy.deepcopy(block))))
    return blocks


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def begun_games(under_way: GamesUnderWay) -> list[tuple[bytes, bytes]]:
    """Moves and values of the games that have come some way, as far as they have."""
    plies = under_way["games.plies"]
    return [
        (
            under_way["games.moves"][slot, : plies[slot]].tobytes(),
            under_way["games.value"][slot, : plies[slot]].tobytes(),
        )
        for slot in np.flatnonzero((plies >= 6) & (under_way["games.stage"] == SEARCHING))
    ]


def check_ended_once(begun: list[tuple[bytes, bytes]], blocks: list[Block]) -> None:
    """Each of those games has ended in one of the blocks, and no game is in them twice."""
    games = [
        (block.games.moves[game].tobytes(), block.games.value[game].tobytes())
        for block in blocks
        for game in range(len(block.games.plies))
    ]
    assert len(set(games)) == len(games)
    assert begun
    for moves, values in begun:
        assert sum(m.startswith(moves) and v.startswith(values) for m, v in games) == 1


def test_an_actor_that_takes_over_ends_the_games_of_the_last_block_received(make_actors: MakeActors) -> None:
    """What was played after that block is played again: no game is missing, or there twice."""
    ray = FakeRay(1)
    actors = make_actors(ray)
    begun: list[tuple[bytes, bytes]] = []
    ray.on_loss = lambda: begun.extend(begun_games(actors._crew.games[0]))
    blocks = [block for _, block in play(actors, 100)]
    ray.lose_after_playing = {0, 1}
    blocks += [block for _, block in play(actors, 600)]
    assert actors._crew.lost == 2
    check_ended_once(begun, blocks)


def test_lost_actors_are_reported_whenever_they_were_lost(make_actors: MakeActors) -> None:
    """Also between two calls, and once."""
    actors = make_actors(FakeRay(1))
    reported = []
    for lost in (0, 1, 2, 0):
        actors._crew.lost += lost
        play(actors, 50)
        report = actors.cluster_report()
        assert report is not None
        reported.append(report.lost)
    assert reported == [0, 1, 2, 0]


def test_a_core_that_joins_is_used(make_actors: MakeActors) -> None:
    """Every one gets an actor."""
    ray = FakeRay(2)
    actors = make_actors(ray)
    assert {seat for seat, _ in play(actors, 300)} <= {0, 1}
    ray.cores = 4
    seats: set[int] = set()
    for _ in range(50):
        seats |= {seat for seat, _ in play(actors, 200)}
        if seats == {0, 1, 2, 3}:
            break
    assert seats == {0, 1, 2, 3}
    actors.close()
    assert not any(actor.alive for actor in ray.actors)


def test_play_ahead_is_bounded(make_actors: MakeActors) -> None:
    """What waits is what a call asks for, and two blocks of each actor; the next call begins with it."""
    actors = make_actors(FakeRay(3))
    crew = actors._crew
    play(actors, 200)
    wait_for(lambda: crew._waiting >= 200)
    wait_for(lambda: not any(seat.calls for seat in crew._seats))
    time.sleep(0.5)
    assert not any(seat.calls for seat in crew._seats)
    assert crew._waiting < 200 + 3 * CALLS_IN_FLIGHT * LARGEST_BLOCK
    recorded = sum(len(block.samples) for _, block in play(actors, 200))
    assert 200 <= recorded < 200 + LARGEST_BLOCK
    report = actors.cluster_report()
    assert report is not None
    assert report.waiting > 0


def test_what_a_block_has_too_much_the_next_iteration_has_less(make_actors: MakeActors) -> None:
    """So that learned positions keep their ratio to new ones; an iteration that is resumed asks for what is left."""
    actors = make_actors(FakeRay(1))
    assert actors.remaining(500, {}) == 500
    assert actors.remaining(500, {0: 100, 7: 150}) == 250
    assert actors.remaining(500, {0: 600}) == 0
    surplus = sum(len(block.samples) for _, block in play(actors, 500)) - 500
    assert actors.remaining(500, {}) == max(1, 500 - surplus)


def test_blocks_tell_how_stale_they_are(make_actors: MakeActors) -> None:
    """Those that were waiting when other weights came are one version behind."""
    actors = make_actors(FakeRay(1))
    play(actors, 200)
    first = actors.cluster_report()
    assert first is not None
    assert (first.staleness, first.most_stale) == (0, 0)
    wait_for(lambda: actors._crew.waiting > 0)
    actors.update(make_network())
    play(actors, 200)
    second = actors.cluster_report()
    assert second is not None
    assert second.most_stale == 1
    assert 0 < second.staleness <= 1


def test_the_state_is_that_of_the_blocks_handed_over(make_actors: MakeActors) -> None:
    """Whoever begins with it ends the games that the caller has not seen end, whatever was played ahead."""
    actors = make_actors(FakeRay(1))
    blocks = [block for _, block in play(actors, 200)]
    wait_for(lambda: actors._crew.waiting > 0)
    state = actors.state()
    begun = begun_games({name.removeprefix("0."): array for name, array in state.items()})
    resumed = make_actors(FakeRay(1))
    resumed.restore(state)
    check_ended_once(begun, blocks + [block for _, block in play(resumed, 600)])
    with pytest.raises(ValueError, match="do not fit"):
        make_actors(FakeRay(1), SLOTS - 1).restore(state)


def test_a_mistake_of_an_actor_ends_the_run_in_one_line(make_actors: MakeActors) -> None:
    """It would come again on every other core."""
    ray = FakeRay(1)
    actors = make_actors(ray)
    ray.fail = True
    with pytest.raises(RuntimeError, match="an actor of the cluster failed: a mistake of ours"):
        play(actors, 100)


def test_an_idle_actor_that_is_lost_is_replaced(make_actors: MakeActors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while enough is waiting, and nobody asks for more."""
    monkeypatch.setattr("alphac4.cluster.crew.SECONDS_BETWEEN_COUNTS", 0.1)
    ray = FakeRay(1)
    actors = make_actors(ray)
    play(actors, 200)
    crew = actors._crew
    wait_for(lambda: crew._waiting >= 200 and not any(seat.calls for seat in crew._seats))
    waiting = crew.waiting
    ray.actors[0].alive = False
    wait_for(lambda: crew.lost == 1 and len(crew.places()) == 1)
    assert crew.waiting == waiting


def test_blocks_that_wait_count_as_spent_until_they_are_handed_over(make_actors: MakeActors) -> None:
    """A run that ends before it records them has paid for them all the same."""
    actors = make_actors(FakeRay(1))
    play(actors, 200)
    crew = actors._crew
    wait_for(lambda: crew._waiting >= 200 and not any(seat.calls for seat in crew._seats))
    spent = actors.spent_ahead()
    crew.rest()  # or it would play on while they are taken
    seen = [delivery.block for _ in range(crew.waiting) if (delivery := crew.take(1)) is not None]
    assert spent["games"] == sum(len(block.games.plies) for block in seen) > 0
    assert spent["evaluations"] == sum(block.work.evaluations for block in seen) > 0
    assert not any(actors.spent_ahead().values())


def test_gauges_show_what_the_crew_does() -> None:
    """Those that Ray's dashboard has, and no others."""
    ray, shown = FakeRay(2), dict[str, float]()
    task = Task(geometry=STANDARD, config=CONFIG, slots=SLOTS, backend="torch-fp32")
    connection = Connection(ray=ray, ours=False)
    crew = Crew(connection, task, make_network(), np.random.default_rng, show=shown.__setitem__)
    crew.play_ahead(100)
    wait_for(lambda: shown.get("actors") == 2 and shown["positions_waiting"] >= 100)
    assert crew.take(1) is not None
    assert {f"alphac4_{name}" for name in shown} == set(GAUGES)
    assert (shown["staleness"], shown["actors_lost"]) == (0, 0)
    crew.close()


def test_nobody_plays_ahead_of_the_last_call(make_actors: MakeActors) -> None:
    """The cores are free for whatever closes the run."""
    ray = FakeRay(3)
    actors = make_actors(ray)
    play(actors, 200)
    actors.end_with_next()
    recorded = sum(len(block.samples) for _, block in play(actors, 200))
    assert 200 <= recorded < 200 + LARGEST_BLOCK
    wait_for(lambda: not any(actor.alive for actor in ray.actors))
    assert len(ray.actors) == 3


@pytest.mark.parametrize("name", ["the head of the cluster", "this machine's node of the cluster"])
def test_what_nobody_can_do_without_ends_the_run_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nobody listens there any more; nobody waits for it without end."""
    monkeypatch.setattr("alphac4.cluster.connection.SECONDS_OF_ABSENCE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as lasting, socket.create_server(("127.0.0.1", 0)) as leaving:
        lasting_address, leaving_address = (f"127.0.0.1:{server.getsockname()[1]}" for server in (lasting, leaving))
        connection = Connection(ray=FakeRay(1), ours=False, needed={"another": lasting_address, name: leaving_address})
        assert connection.missing() is None
        task = Task(geometry=STANDARD, config=CONFIG, slots=SLOTS, backend="torch-fp32")
        crew = Crew(connection, task, make_network(), np.random.default_rng)
        crew.play_ahead(100)
        assert crew.take(60) is not None
        leaving.close()
        crew.play_ahead(10**9)
        with pytest.raises(RuntimeError, match=rf"{name}, {leaving_address}, has gone.*the same command goes on"):
            all(iter(lambda: crew.take(60), None))
        crew.close()
        for thread in threading.enumerate():
            if thread.name == "cluster":
                thread.join(60)


def test_a_run_never_waits_for_the_head_itself(make_actors: MakeActors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once that has gone there is no answer, and nobody would say so."""
    ray = FakeRay(2)
    actors = make_actors(ray)

    def nodes() -> list[dict[str, Any]]:
        assert threading.current_thread() is not threading.main_thread()
        return FakeRay(3).nodes()

    monkeypatch.setattr(ray, "nodes", nodes)
    play(actors, 200)
    assert len(actors) == 3


def test_a_run_that_ends_as_the_head_goes_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the blocks may just have asked it for something."""
    monkeypatch.setattr("alphac4.cluster.connection.SECONDS_OF_ABSENCE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address, ray = f"127.0.0.1:{head.getsockname()[1]}", FakeRay(1)
        connection = Connection(ray=ray, ours=False, needed={"the head": address})
        task = Task(geometry=STANDARD, config=CONFIG, slots=SLOTS, backend="torch-fp32")
        crew = Crew(connection, task, make_network(), np.random.default_rng)
        asked, never = threading.Event(), threading.Event()
        monkeypatch.setattr(ray, "nodes", lambda: asked.set() or never.wait() or [])
        crew.play_ahead(100)
        assert asked.wait(60)
        head.close()
        crew.close()
        never.set()


def test_a_replaying_actor_hands_over_one_block_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever measures what a driver can take in chooses the rate."""
    context = SimpleNamespace(get_node_id=lambda: "here")
    ray = SimpleNamespace(
        get=lambda network: network,
        get_runtime_context=lambda: context,
        util=SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"),
    )
    pauses: list[float] = []
    monkeypatch.setattr("alphac4.cluster.worker.import_ray", lambda: ray)
    actor = ReplayingActor()
    task = Task(geometry=STANDARD, config=CONFIG, slots=SLOTS, backend="torch-fp32", rate=0.01)
    actor.prepare(task, Weights(version=0, reference=[make_network()]), np.random.default_rng(0), None)
    monkeypatch.setattr("alphac4.cluster.worker.time", SimpleNamespace(sleep=pauses.append, monotonic=lambda: 1000.0))
    actor._next = 1000.0
    played = [actor.play(Weights(version=7, reference=[])) for _ in range(3)]
    assert {version for version, _ in played} == {7}
    assert len({id(block) for _, block in played}) == 1
    each = len(played[0][1].samples) / 0.01  # seconds
    assert pauses == pytest.approx([0, each, 2 * each])
