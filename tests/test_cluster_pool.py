import copy
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from campaigns.cluster_kills import SETTINGS as RUN

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is imported
pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
from ray.cluster_utils import Cluster

from alphac4.checkpoint import Checkpoint, save_checkpoint
from alphac4.cli import main
from alphac4.cluster.connection import Connection, connect
from alphac4.cluster.pool import Desk
from alphac4.compute import Backends
from alphac4.compute.cluster import ClusterPool, local_cluster, make_pool
from alphac4.compute.cores import Cores
from alphac4.game.rules import STANDARD
from alphac4.nn import PolicyValueNetwork
from alphac4.training.config import EvaluationConfig, GateConfig, from_dict
from alphac4.training.judging import Judge
from alphac4.training.loop import TrainingLoop
from alphac4.training.matches import Contender, Matches
from alphac4.training.randomness import RunRandom
from alphac4.training.sides import Side

pytestmark = [pytest.mark.beside, pytest.mark.slow]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of three nodes on this machine, whose head does not work."""
    with local_cluster([0, 1, 1]) as found:
        yield found


@pytest.fixture
def pool(address: str) -> Iterator[ClusterPool]:
    """Its processes."""
    found = make_pool(address)
    yield found
    found.close()


@pytest.fixture
def checkpoint(tmp_path: Path, network: PolicyValueNetwork) -> str:
    """A checkpoint."""
    save_checkpoint(tmp_path / "mine.safetensors", Checkpoint(network=network))
    return str(tmp_path / "mine.safetensors")


def both(arguments: list[str], address: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What a command prints on this machine and on the cluster."""
    written = []
    for more in ((), ("--cluster", address)):
        assert main([*arguments, "--backend", "torch-fp32", *more]) in (0, 1)
        written.append(capsys.readouterr().out)
    return written[0], written[1]


def test_a_walk_finds_the_same_on_a_cluster(address: str, checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The network's file travels; the cluster's processes solve, too."""
    walk = ["prove", f"{checkpoint}@16", "--start", "44444122", "--plies", "12", "--beyond-errors"]
    here, there = both(walk, address, capsys)
    assert there == here
    assert " errs in " in there


def test_an_arena_plays_the_same_games_on_a_cluster(
    address: str, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever process plays them; a record begun here goes on there."""
    arena = ["arena", f"{checkpoint}@8", "negamax:2", "random", "--games", "60", "--json"]
    here, there = both(arena, address, capsys)
    assert there == here
    record = tmp_path / "games.jsonl"
    assert main([*arena, "--backend", "torch-fp32", "--output", str(record)]) == 0
    lines = record.read_text().splitlines()
    record.write_text("\n".join(lines[:3]) + "\n")
    assert main([*arena, "--backend", "torch-fp32", "--output", str(record), "--cluster", address]) == 0
    assert sorted(record.read_text().splitlines()) == sorted(lines)


def test_strength_is_the_same_on_a_cluster(address: str, checkpoint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the network, raw and searching, of its untrained twin, and of a player with a limit of its own."""
    evaluate = ["evaluate", checkpoint, "--simulations", "0,8", "--count", "40", "--reference", f"{checkpoint}@20"]
    here, there = both([*evaluate, "--json", "-"], address, capsys)
    expected, found = dict(numbers(json.loads(here))), dict(numbers(json.loads(there)))
    assert len(found) > 100
    assert found == pytest.approx(expected, abs=1e-6)  # batches differ, and so do last digits


def numbers(report: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """The figures of a report in JSON by where they stand, times left out."""
    if isinstance(report, dict | list):
        for name, part in report.items() if isinstance(report, dict) else enumerate(report):
            yield from numbers(part, f"{path}/{name}")
    elif isinstance(report, int | float) and not path.endswith("/seconds"):
        yield path, report


def test_a_runs_matches_are_the_same_on_a_cluster(pool: ClusterPool, network: PolicyValueNetwork) -> None:
    """The gate's games and the judge's verdict, of one network after another; classic MCTS draws other numbers."""
    compute = Cores(backends=Backends(evaluators="torch-fp32"), threads=2)
    gate = GateConfig(pairs=4, simulations=12, classic_pairs=2, classic_rollouts=(30,), classic_every=1)
    other = copy.deepcopy(network)
    torch.nn.init.zeros_(other.policy.weight)
    found = []
    for there in (None, pool):
        sides = [Side(compute, network, STANDARD, gate.puct) for _ in range(2)]
        matches = Matches(sides, gate, STANDARD, RunRandom(seed=5), lambda: None, there)
        judge = Judge(compute, sides[1], STANDARD, EvaluationConfig(positions=10, simulations=8), there)
        contenders = [Contender(network=each, iteration=index) for index, each in enumerate((network, other))]
        reports = [matches.gate(*contenders), matches.gate(*reversed(contenders))]
        found.append(
            ([replace(report, seconds=0.0) for report in reports], judge.judge(other, 1), judge.judge(network, 1))
        )
        (classic,) = matches.regular(contenders[0], 1)
        assert classic.wins + classic.draws + classic.losses == 4
        assert (classic.player, classic.opponent) == ("iteration 0", "uct:30")
    assert found[0][0] == found[1][0]
    for expected, verdict in zip(found[0][1:], found[1][1:], strict=True):
        assert dict(numbers(asdict(verdict))) == pytest.approx(dict(numbers(asdict(expected))), abs=1e-6)


def test_a_run_on_a_large_cluster_plays_its_matches_there(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large is one with far more cores than the driver's machine."""
    run = {"iterations": 1, "samples": 300, "evaluation": {"every": 1, "positions": 5, "simulations": 4}}
    monkeypatch.setattr("alphac4.compute.cluster.WORTH_A_POOL", 0.5)
    calls = []
    call = ClusterPool.call
    monkeypatch.setattr(ClusterPool, "call", lambda *arguments: calls.append(arguments[2]) or call(*arguments))
    with TrainingLoop.open(tmp_path / "run", from_dict(RUN | run), cluster=address) as loop:
        (report,) = loop.run()
        assert {function.__name__ for function in calls} == {"_choose", "_search"}  # of matches, and for the judge
        assert report.gate.wins + report.gate.draws + report.gate.losses == 6
        assert report.evaluation is not None
        assert len(loop.close([report])) == 1


def test_work_of_a_process_that_dies_is_done_by_another(pool: ClusterPool, caplog: pytest.LogCaptureFixture) -> None:
    """One line says so."""

    def slow_square(number: int) -> int:
        time.sleep(0.5)
        return number**2

    old = [pool.call(index, os.getpid) for index in range(pool.cores)]
    assert len(set(old)) == 2
    answers: list[Future[int]] = [pool.submit(slow_square, number) for number in range(6)]
    with caplog.at_level(logging.WARNING):
        os.kill(old[0], signal.SIGKILL)
        assert [answer.result(timeout=120) for answer in answers] == [number**2 for number in range(6)]
    assert "its work is done again" in caplog.text
    new = [pool.call(index, os.getpid) for index in range(pool.cores)]
    assert len(set(new)) == 2
    assert new != old


def test_work_of_a_node_that_goes_is_done_by_another(caplog: pytest.LogCaptureFixture) -> None:
    """Although no other core is free: the pool has them all."""
    node = {"object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(**node, num_cpus=1) for _ in range(2)]
        cluster.wait_for_nodes()
        pool = make_pool(cluster.address)
        try:
            assert pool.cores == 2
            assert pool.call(0, int, "1") == pool.call(1, int, "1") == 1
            with caplog.at_level(logging.WARNING):
                cluster.remove_node(nodes[0])
                assert [pool.call(index, int, "7") for index in range(2)] == [7, 7]
            assert caplog.text.count("its work is done again") == 1
        finally:
            pool.close()
    finally:
        cluster.shutdown()


def test_cores_that_others_have_are_not_waited_for(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once a few seconds have passed without another process."""
    monkeypatch.setattr("alphac4.cluster.pool.SECONDS_UNTIL_TOLD", 3.0)
    connection = connect(address)
    busy = connection.ray.remote(num_cpus=1)(Desk).remote()
    try:
        connection.get(busy.call.remote(int))
        pool = ClusterPool(connection, leaves=False)
        assert pool.cores == 1
        assert "1 of the cluster's 2 cores are free" in caplog.text
        assert pool.submit(int, "3").result(timeout=60) == 3
        pool.close()
    finally:
        connection.close()


def test_work_that_kills_every_process_is_given_up(pool: ClusterPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, and other work goes on."""
    monkeypatch.setattr("alphac4.cluster.pool.MOST_DEATHS", 2)
    with pytest.raises(
        RuntimeError, match="2 processes of the cluster were lost at the same work, the last by "
    ) as caught:
        pool.call(0, os._exit, 1)
    assert "\n" not in str(caught.value)
    assert pool.call(0, int, "5") == 5


def test_what_a_function_raises_reaches_the_caller(pool: ClusterPool) -> None:
    """As it is, and the process goes on."""
    with pytest.raises(ValueError, match="invalid literal"):
        pool.call(0, int, "no number")
    assert pool.submit(int, "12").result(timeout=60) == 12


def test_a_cluster_that_has_gone_ends_the_work_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it without end."""
    monkeypatch.setattr("alphac4.cluster.connection.SECONDS_OF_ABSENCE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        connection = Connection(ray=SilentRay(), ours=False, needed={"the head of the cluster": address})
        threading.Timer(0.3, head.close).start()
        pool = ClusterPool(connection)
        with pytest.raises(RuntimeError, match=f"the head of the cluster, {address}, has gone: once") as caught:
            pool.call(0, int)
        assert "\n" not in str(caught.value)
        pool.close()


def test_processes_are_this_machines(capsys: pytest.CaptureFixture[str]) -> None:
    """On a cluster its cores decide; before anything is tried."""
    assert main(["arena", "random", "negamax:1", "--processes", "2", "--cluster", "127.0.0.1:1"]) == 2
    assert "--processes are those of this machine" in capsys.readouterr().err


class SilentAnswer:
    """Stands for nothing, ever."""

    def future(self) -> Future[object]:
        """See Ray."""
        return Future()


class SilentRay:
    """A Ray with one node, whose processes begin and never answer again."""

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=OSError)

    def remote(self, **_options: object) -> Any:
        """See Ray."""
        call = SimpleNamespace(remote=lambda *_arguments: SilentAnswer())
        desk = SimpleNamespace(remote=lambda: SimpleNamespace(call=call))
        return lambda _kind: SimpleNamespace(options=lambda **_options: desk)

    def wait(self, references: list[object], **_options: object) -> tuple[list[object], list[object]]:
        """See Ray."""
        return references, []

    def nodes(self) -> list[dict[str, Any]]:
        """One, with one core."""
        return [{"NodeID": "0" * 56, "Alive": True, "Resources": {"CPU": 1.0}}]
