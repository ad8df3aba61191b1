"""Kill -9 on a cluster of three nodes: actors, workers, nodes, drivers and heads, at random moments.

Nodes join again, drivers and heads are started again, and the same command goes on from the folder until its run is
finished. Then every position that was ever recorded must be there once.

``PYTHONPATH=tests python -m campaigns.cluster_kills --count 100``
"""

import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.files import read_lines
from alphac4.selfplay.shards import Samples, load_shard
from alphac4.training.reports import IterationReport
from alphac4.training.run_state import STATE_FILE, load_state
from campaigns.command import run_campaign

ITERATIONS = 5
SETTINGS = {
    "iterations": ITERATIONS,
    "samples": 1000,
    "backend": "torch-fp32",
    "device": "cpu",
    "network": {"channels": 8, "blocks": 1},
    "selfplay": {"games": 8, "full_simulations": 12, "fast_simulations": 4},
    "learning": {"batch_size": 64},
    "gate": {"pairs": 3, "simulations": 4, "classic_every": 0, "classic_rollouts": [20], "closing_pairs": 1},
    "evaluation": {"every": 0},
}  # fmt: skip
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_log_monitor": False}
QUICK_TO_NOTICE = {
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,
}
KINDS = {"actor": 0.45, "worker": 0.1, "node": 0.2, "driver": 0.17, "head": 0.08}  # how often which is killed
SECONDS_BETWEEN_KILLS = 4.0  # at most
ATTEMPTS = 10  # at starting a node
SECONDS_WITHOUT_PROGRESS = 900.0  # then something waits for something that never comes
SECONDS_FOR_DRIVER = 180.0  # to end by itself once its head has gone


@dataclass(kw_only=True)
class Tally:
    """What was killed, and what was found afterwards."""

    kills: Counter[str] = field(default_factory=Counter)
    with_nodes: int = 0  # drivers that died with the node by which they belonged to the cluster
    runs: int = 0
    shards: int = 0
    positions: int = 0
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Parse, attack, print one line."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    return run_campaign(attack, describe, about=__doc__, count=100)


def describe(tally: Tally) -> str:
    """What was found, in a line."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in tally.kills.items())
    return (
        f"cluster_kills: {tally.kills.total()} kills ({kinds}; {tally.with_nodes} drivers died with "
        f"their node) of {tally.runs} runs: {tally.positions:,} positions in {tally.shards} shards"
    )


def attack(folder: Path, count: int, seed: int) -> Tally:
    """Kill until there were ``count`` kills, and let every run come to its end."""
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    rng, tally = np.random.default_rng(seed), Tally()
    while tally.kills.total() < count:
        run = folder / f"run-{tally.runs}"
        with contextlib.closing(Attack(run, folder / "settings.json", rng, tally, count)) as attacked:
            problem = attacked.to_the_end()
        tally.runs += 1
        if problem := problem or _damage(run, attacked.seen, tally):
            tally.failures.append(f"{run.name}: {problem}")
        print(f"{run.name}: {problem or 'all is there once'}", file=sys.stderr, flush=True)
    return tally


class Attack:
    """One run on a cluster, and what kills its parts."""

    def __init__(self, run: Path, settings: Path, rng: np.random.Generator, tally: Tally, count: int) -> None:
        self.run, self.settings, self.rng, self.tally, self.count = run, settings, rng, tally, count
        self.log = run.with_suffix(".log")
        self.seen: dict[str, str] = {}  # each shard's content when it was first there
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()
        self.lost_node = False  # since the driver was started
        self.next_node: float | None = None  # time.monotonic() when one joins again

    def to_the_end(self) -> str:
        """Kill until the run is finished; what went wrong, if anything did."""
        progress = next_kill = time.monotonic()
        at_start, kind, patient = 0, None, False
        while True:
            time.sleep(0.1)
            now = time.monotonic()
            if self._look() or len(self.seen) < at_start:
                progress = now
            status = self.driver.poll()
            if status == 0:
                self._look()
                return ""
            if status is not None and self.lost_node:  # it was the one by which the driver belongs to the cluster
                self.tally.with_nodes += 1
                self.lost_node = False
                self.driver = self._start_driver()
                at_start, progress = len(self.seen), now
                continue
            if status is not None:
                return f"the driver ended with {status}: {self.log.read_text()[-2000:]}"
            if now - progress > SECONDS_WITHOUT_PROGRESS:
                return f"nothing happens any more: {self.log.read_text()[-2000:]}"
            if self.next_node is not None and now >= self.next_node:
                with contextlib.suppress(Exception):  # see `_start_cluster`; the others go on, and it is tried again
                    self.cluster.add_node(**NODE)
                    self.next_node = None
            if now < next_kill or self.tally.kills.total() >= self.count:
                continue
            if kind is None:
                kind = str(self.rng.choice(list(KINDS), p=list(KINDS.values())))
                patient = kind in ("driver", "head") and self.rng.random() < 0.7
            if patient and len(self.seen) == at_start:
                continue  # let the driver get somewhere before the next one, more often than not
            if self._kill(kind):
                self.tally.kills[kind] += 1
                print(f"{self.tally.kills.total()} kills, the last a {kind}", file=sys.stderr, flush=True)
                if kind in ("driver", "head"):
                    at_start, progress = len(self.seen), time.monotonic()
                kind, next_kill = None, time.monotonic() + self.rng.uniform(0, SECONDS_BETWEEN_KILLS)

    def close(self) -> None:
        """End everything that this attack has started."""
        if self.driver.poll() is None:
            self.driver.kill()
            self.driver.wait()
        self.cluster.shutdown()

    def _kill(self, kind: str) -> bool:
        """Whether there was something to kill; if not, it is tried again until there is."""
        if kind in ("actor", "worker"):
            names = {"actor": "ray::RemoteActor", "worker": "ray::"}
            found = [process for process, name in self._workers() if name.startswith(names[kind])]
            return bool(found) and _kill_process(int(self.rng.choice(found)))
        if kind == "node":
            if self.next_node is not None or not self.cluster.worker_nodes:
                return False
            self.cluster.remove_node(self.rng.choice(list(self.cluster.worker_nodes)), allow_graceful=False)
            self.lost_node = True
            self.next_node = time.monotonic() + self.rng.uniform(0, SECONDS_BETWEEN_KILLS)
            return True
        if kind == "driver":
            self.driver.kill()
            self.driver.wait()
            self.driver = self._start_driver()
            return True
        return self._kill_head()

    def _kill_head(self) -> bool:
        """With its raylet or without, and with the driver or leaving that to end by itself."""
        processes = self.cluster.head_node.all_processes
        for name in ("gcs_server", "raylet")[: 1 + self.rng.integers(2)]:
            _kill_process(processes[name][0].process.pid)
        if self.rng.random() < 0.5:
            self.driver.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.wait(SECONDS_FOR_DRIVER)
        if self.driver.poll() is None:
            self.tally.failures.append(f"{self.run.name}: a driver without a head goes on")
            self.driver.kill()
        if self.driver.wait() not in (0, 1, 2, -signal.SIGKILL):
            self.tally.failures.append(f"{self.run.name}: a driver without a head ended with {self.driver.returncode}")
        self.cluster.shutdown()
        self.next_node = None
        self.cluster = self._start_cluster()
        self.driver = self._start_driver()
        return True

    def _workers(self) -> Iterator[tuple[int, str]]:
        """The processes that the nodes' daemons have started, by their names."""
        nodes = {
            entry.process.pid
            for node in self.cluster.list_all_nodes()
            for entry in node.all_processes.get("raylet", [])
        }
        for path in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in nodes:
                    yield int(path.name), (path / "cmdline").read_text().replace("\0", " ").strip()

    def _start_cluster(self) -> Any:
        from ray.cluster_utils import Cluster

        head = {**NODE, "include_dashboard": False, "no_monitor": True, "_system_config": QUICK_TO_NOTICE}
        for attempt in range(ATTEMPTS):
            cluster = Cluster()
            try:
                for node in (head, NODE, NODE):
                    cluster.add_node(**node)
            except Exception:  # on a busy machine a node may not come up in the half minute that Ray allows
                cluster.shutdown()
                if attempt == ATTEMPTS - 1:
                    raise
            else:
                return cluster
        raise AssertionError

    def _start_driver(self) -> subprocess.Popen[bytes]:
        self.lost_node = False
        command = ["train", "--run", str(self.run), "--settings", str(self.settings)]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "alphac4", *command, "--cluster", self.cluster.address], stdout=log, stderr=log
            )

    def _look(self) -> bool:
        """Note the shards that have come; whether there were any."""
        before = len(self.seen)
        for path in (self.run / "replay").glob("*.safetensors"):
            if path.name not in self.seen:
                self.seen[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return len(self.seen) > before


def _kill_process(process: int) -> bool:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _damage(run: Path, seen: dict[str, str], tally: Tally) -> str:
    """What is wrong with the folder of a finished run; empty if nothing is."""
    shards = {path.name: path for path in (run / "replay").iterdir()}
    if lost := sorted(set(seen) - set(shards)):
        return f"shards are lost: {lost}"
    if changed := [
        name for name, path in shards.items() if hashlib.sha256(path.read_bytes()).hexdigest() != seen[name]
    ]:
        return f"shards were written twice: {changed}"
    names = sorted(tuple(map(int, name.removesuffix(".safetensors").split("-"))) for name in shards)
    for (iteration, seat), group in itertools.groupby(names, key=lambda name: name[:2]):
        if (numbers := [number for *_, number in group]) != list(range(len(numbers))):
            return f"iteration {iteration}, seat {seat}: shards {numbers}"
    samples = [load_shard(path) for path in shards.values()]  # refuses what does not fit its digest
    games = Counter(game for found in samples for game in _games(found))
    if doubled := sum(count > 1 for count in games.values()):
        return f"{doubled} of {len(games)} games are there twice"
    state, positions = load_state(run / STATE_FILE), sum(map(len, samples))
    reports = [IterationReport.from_json(line) for line in read_lines(run / "reports.jsonl") if line.startswith('{"it')]
    tally.shards, tally.positions = tally.shards + len(shards), tally.positions + positions
    if state.iteration != ITERATIONS or [report.iteration for report in reports] != list(range(1, ITERATIONS + 1)):
        return f"it has ended after {[report.iteration for report in reports]}"
    if not state.samples == reports[-1].samples_total == positions:
        return f"{positions} positions are there, {state.samples} were counted"
    if reports[-1].games_total < len(games):
        return f"it has paid for {reports[-1].games_total} games, and {len(games)} are there"
    return ""


def _games(samples: Samples) -> Iterator[str]:
    """A digest of each game in a shard: positions one after another that lead to the same end."""
    ends = np.stack([samples.final_occupied, samples.final_own, samples.final_occupied ^ samples.final_own])
    stones = np.array([int(occupied).bit_count() for occupied in samples.occupied])
    same_end = (ends[0, 1:] == ends[0, :-1]) & ((ends[1, 1:] == ends[1, :-1]) | (ends[1, 1:] == ends[2, :-1]))
    cuts = np.flatnonzero(~(same_end & (np.diff(stones) > 0))) + 1
    for rows in np.split(np.arange(len(stones)), cuts):
        digest = hashlib.sha256()
        for name, array in sorted(samples.arrays().items()):
            digest.update(name.encode() + array[rows].tobytes())
        yield digest.hexdigest()


if __name__ == "__main__":
    raise SystemExit(main())
