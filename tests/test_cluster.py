import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from campaigns.cluster_kills import SETTINGS as RUN
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from alphac4.checkpoint import load_checkpoint
from alphac4.cli import main
from alphac4.cluster import connection
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.shards import load_shard, parse_shard_name
from alphac4.training.config import TrainConfig, from_dict
from alphac4.training.loop import TrainingLoop
from alphac4.training.reports import read_reports

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before Ray is imported
pytest.importorskip("ray", reason="needs pip install 'alphac4[cluster]'")
from ray.cluster_utils import Cluster

pytestmark = [pytest.mark.beside, pytest.mark.slow]

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
SETTINGS = {
    "health_check_period_ms": 500,  # a node is dead after some seconds, not after half a minute
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,
}
TINY = RUN | {"iterations": 3, "samples": 700}
LARGEST_BLOCK = 2 * 8 * 42  # positions


def tiny(**changes: object) -> TrainConfig:
    """A run of seconds."""
    return from_dict(TINY | changes)


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    """A cluster of three nodes on this machine."""
    found = Cluster(
        initialize_head=True, head_node_args={**NODE, "include_dashboard": False, "_system_config": SETTINGS}
    )
    for _ in range(2):
        found.add_node(**NODE)
    yield found
    found.shutdown()


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The same, with as many nodes again if the test before has killed one."""
    while len(started.list_all_nodes()) < 3:
        started.add_node(**NODE)
    started.wait_for_nodes()
    return started


class Records:
    """What a run is given to record, block by block, and something to do after some of them."""

    def __init__(self, loop: TrainingLoop, after: dict[int, Callable[[], object]] | None = None) -> None:
        self.games: list[str] = []  # a digest each: no two games of self-play have the same values
        self.positions = 0
        self.blocks = 0
        record, after = loop.folder.record, after or {}

        def recorded(block: Block, *name: int) -> None:
            record(block, *name)
            self.games += [
                hashlib.sha256(block.games.moves[row].tobytes() + block.games.value[row].tobytes()).hexdigest()
                for row in range(len(block.games.plies))
            ]
            self.positions += len(block.samples)
            self.blocks += 1
            after.get(self.blocks, lambda: None)()

        loop.folder.record = recorded  # type: ignore[method-assign]


def check_folder(run: Path, records: Records | None = None) -> None:
    """Each actor's shards are numbered without gaps; all positions handed over are there, and no game is twice."""
    shards = {parse_shard_name(path): load_shard(path) for path in (run / "replay").glob("*.safetensors")}
    for iteration, actor in {(name.iteration, name.actor) for name in shards if name}:
        numbers = sorted(n.number for n in shards if n and (n.iteration, n.actor) == (iteration, actor))
        assert numbers == list(range(len(numbers)))
    if records is not None:
        assert sum(map(len, shards.values())) == records.positions
        assert len(set(records.games)) == len(records.games)


def wait_for(condition: Callable[[], bool], seconds: float = 150) -> None:
    """Until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def crew_of(loop: TrainingLoop) -> Any:
    """The cluster's part of a run."""
    return loop.actors._crew  # type: ignore[attr-defined]


def test_a_run_trains_on_three_nodes_and_goes_on_on_one_machine(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """New positions keep their ratio to learned ones, blocks are hardly stale, and Ray keeps silent."""
    config = tmp_path / "tiny.json"
    config.write_text(str(TINY).replace("'", '"'))
    run = tmp_path / "run"
    command = ["train", "--run", str(run), "--settings", str(config)]
    assert main([*command, "--cluster", cluster.address]) == 0
    written = capfd.readouterr()
    assert "Trained 3 iterations" in written.out
    assert "ray" not in (written.out + written.err).replace("raylet", "ray").replace(str(tmp_path), "").lower()
    check_folder(run)
    reports = read_reports(run / "reports.jsonl")
    for number, report in enumerate(reports, start=1):
        found = report.selfplay.cluster
        assert found is not None
        assert found.lost == 0
        assert found.staleness <= found.most_stale <= 2
        assert 700 * number <= report.samples_total < 700 * number + LARGEST_BLOCK
    assert reports[-1].selfplay.cluster is not None
    assert (reports[-1].selfplay.cluster.nodes, reports[-1].selfplay.cluster.actors) == (3, 3)
    curves = EventAccumulator(str(run / "tensorboard"))
    curves.Reload()
    assert [event.step for event in curves.Scalars("cluster/staleness")] == [1, 2, 3]
    assert main([*command, "--iterations", "4"]) == 0
    assert load_checkpoint(run / "checkpoints" / "best.safetensors").provenance["iteration"] <= 4


def test_a_killed_actor_and_a_killed_node_lose_nothing_and_a_new_node_is_used(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Others go on with the games of the last block received: none is recorded twice, and the log says it."""
    with TrainingLoop.open(tmp_path, tiny(samples=1500), cluster=cluster.address) as loop:
        crew = crew_of(loop)
        newcomers: list[Any] = []

        def kill_actor() -> None:
            wait_for(lambda: len(crew.places()) == 3)
            os.kill(crew.places()[0].process, signal.SIGKILL)

        def kill_node() -> None:
            wait_for(lambda: crew.lost == 1 and len(crew.places()) == 3)
            cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)

        def add_node() -> None:
            wait_for(lambda: crew.lost >= 2)
            newcomers.append(cluster.add_node(**NODE))
            wait_for(lambda: newcomers[0].node_id in {place.node_id for place in crew.places()})

        records = Records(loop, {4: kill_actor, 8: kill_node, 12: add_node})
        with caplog.at_level(logging.WARNING):
            history = loop.run()
    assert records.blocks > 12
    assert len(history) == 3
    check_folder(tmp_path, records)
    lost = [record.getMessage() for record in caplog.records if "actors lost on node" in record.getMessage()]
    assert len(lost) == 2
    assert all(line.startswith("1 of 3 actors lost") for line in lost)
    assert sum(report.selfplay.cluster.lost for report in history if report.selfplay.cluster) >= 2


def test_a_killed_driver_goes_on_from_its_folder(cluster: Cluster, tmp_path: Path) -> None:
    """With kill -9 in the middle of an iteration: what was recorded stays as it was, and counts."""
    code = (
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path\n"
        "from test_cluster import Records, TrainingLoop, tiny\n"
        "loop = TrainingLoop.open(Path(sys.argv[1]), tiny(samples=1500), cluster=sys.argv[2])\n"
        "Records(loop, {5: lambda: os.kill(os.getpid(), signal.SIGKILL)})\n"
        "loop.run()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path), cluster.address]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = {path: path.read_bytes() for path in (tmp_path / "replay").iterdir()}
    assert len(before) == 5
    with TrainingLoop.open(tmp_path, tiny(samples=1500), cluster=cluster.address) as loop:
        records = Records(loop)
        history = loop.run()
    assert {path: path.read_bytes() for path in before} == before
    records.positions += sum(len(load_shard(path)) for path in before)
    check_folder(tmp_path, records)
    assert loop.state.samples == records.positions
    assert history[0].samples_total < 1500 + LARGEST_BLOCK


def test_self_play_goes_on_while_the_run_does_something_else(cluster: Cluster, tmp_path: Path) -> None:
    """Blocks wait for the next call, an iteration of them and no more; other weights are taken up meanwhile."""
    with TrainingLoop.open(tmp_path, tiny(samples=300), cluster=cluster.address) as loop:
        crew = crew_of(loop)
        loop._play(1)
        crew.update(loop.learner.candidate())
        wait_for(lambda: crew._waiting >= 300)
        assert all(len(seat.calls) <= 2 for seat in crew._seats)
        wait_for(lambda: not any(seat.calls for seat in crew._seats))
        assert crew._waiting < 300 + 3 * 2 * LARGEST_BLOCK
        wait_for(lambda: (delivery := crew.take(1)) is not None and delivery.version == 1)


def test_selfplay_uses_the_cluster(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `train` does; what was played is in the folder once."""
    words = ["--samples", "300", "--games", "8", "--full-simulations", "12", "--fast-simulations", "4"]
    command = ["selfplay", "--output", str(tmp_path), "--backend", "torch-fp32", "--cluster", cluster.address, *words]
    assert main(command) == 0
    assert "positions in" in capsys.readouterr().out
    shards = [load_shard(path) for path in (tmp_path / "replay").glob("*.safetensors")]
    assert 300 <= sum(map(len, shards)) < 300 + LARGEST_BLOCK
    games = (tmp_path / "games.txt").read_text().split()
    assert len(set(games)) > 0.9 * len(games)


def test_every_node_needs_the_same_version(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the node and both versions, before anything is made."""
    monkeypatch.setattr(connection, "__version__", "99.0")
    assert main(["train", "--run", str(tmp_path), "--cluster", cluster.address]) == 2
    line = capsys.readouterr().err
    assert "install the same on every node" in line
    assert "99.0" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("address", "message"), [("nowhere", "HOST:PORT"), ("127.0.0.1:9", "no Ray cluster at 127.0.0.1:9")]
)
def test_an_address_without_a_cluster_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, message: str
) -> None:
    """Something else than an address, and a port where nobody listens."""
    assert main(["train", "--run", str(tmp_path), "--cluster", address]) == 2
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1
