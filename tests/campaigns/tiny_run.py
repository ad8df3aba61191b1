"""Runs of a few seconds in forked children, which start with compiled code and can be killed."""

import dataclasses
import faulthandler
import functools
import hashlib
import logging
import math
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from alphac4.cli import main as alphac4
from alphac4.compute import cores
from alphac4.nn import evaluator
from alphac4.runs.folder import RunFolder
from alphac4.runs.reports import read_reports
from alphac4.runs.session import TrainingSession
from alphac4.runs.state import STATE_FILE, load_state
from alphac4.runs.tensorboard import Monitor
from alphac4.selfplay.replay import load_shard
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.training.config import TrainConfig, from_dict

ITERATIONS = 3
SETTINGS: dict[str, Any] = {
    "iterations": ITERATIONS,
    "positions_per_iteration": 50,
    "machine": {"backend": "torch-fp32", "device": "cpu", "keep_checkpoints": 1},
    "network": {"channels": 4, "blocks": 1},
    "selfplay": {"parallel_games": 4, "full_visits": 4, "fast_visits": 2, "full_search_prob": 0.5},
    "learning": {"batch_size": 16, "replay_ratio": 1.0, "optimizer": "adamw", "fast_search_weight": 0.0},
    "gate": {"pairs": 1, "simulations": 2},
    "baseline": {"interval": 0, "simulations": []},
    "evaluation": {"interval": 0},
}
# Other settings of search and learning, with which runs must resume as well.
EXPLORING: dict[str, Any] = {
    "selfplay": SETTINGS["selfplay"] | {"policy_target": "visits"},
    "learning": SETTINGS["learning"] | {"fast_search_weight": 0.5, "optimizer": "muon"},
}
# Fields of a report that depend on the clock, on interruptions, or on the content of an actor's cache.
VOLATILE_FIELDS = {
    *("seconds", "seconds_total", "games_total", "evaluations_total", "simulations", "evaluations"),
    *("cached_evaluations", "network_share", "tree_share", "time_shares", "memory_mb"),
}


def tiny_run(**changes: object) -> TrainConfig:
    return from_dict(SETTINGS | changes)


@functools.cache
def prepare() -> None:
    """Prepare this process permanently for safe forks, and compile the code that its children need."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr)
    torch.set_num_threads(1)
    torch.set_num_threads = lambda _threads: None  # threads of a pool do not exist in a forked child
    evaluator.check_not_forked = lambda: None  # which PyTorch without a pool does not need
    tqdm.monitor_interval = 0
    Monitor._figures = lambda _self, _report: {}  # type: ignore[method-assign]  # drawing takes two seconds
    cores.MIN_GAMES = 1  # lets several actors play these few games
    with tempfile.TemporaryDirectory() as folder:
        train(Path(folder) / "warm", tiny_run(iterations=1))


def train(folder: Path, config: TrainConfig | None = None) -> None:
    """Train to the end in this process."""
    with TrainingSession(RunFolder(folder, config or tiny_run())) as training:
        training.train()
        training.play_closing_matches()


def in_child(work: Callable[[], object], *, kill_after: float = math.inf, limit: float = 120.0) -> int:
    """Call ``work`` in a forked child; return its exit status, or the negative number of the signal that ended it.

    Its standard output is discarded; tracebacks of unexpected errors are printed.

    Raises:
        TimeoutError: if it took longer than ``limit`` seconds and was killed.
    """
    sys.stdout.flush()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            faulthandler.dump_traceback_later(0.9 * limit)  # if it hangs
            tqdm.set_lock(threading.RLock())  # a killed child would not release the shared lock
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - started
        if passed > min(kill_after, limit):
            os.kill(child, signal.SIGKILL)
        if passed > limit:
            os.waitpid(child, 0)
            raise TimeoutError(f"the child was killed after {limit} s")
        time.sleep(0.005)


def train_by_command(run: Path, settings: Path, first: Callable[[], object] = lambda: None) -> tuple[int, str]:
    """Run `alphac4 train` in a child; return its exit code and standard error."""
    log = settings.with_suffix(".log")

    def work() -> None:
        with log.open("w") as file:
            os.dup2(file.fileno(), 2)
        first()
        os._exit(alphac4(["train", "--run", str(run), "--settings", str(settings)]))

    return in_child(work), log.read_text()


def kill_at_event(folder: Path, event: int) -> list[int]:
    """Kill this process before its change number ``event`` of files in a folder; return a list with their count."""
    prefix, seen, flush = str(folder.resolve()), [0], os.fsync

    def count(path: object = prefix) -> None:
        if isinstance(path, str | bytes) and os.fsdecode(path).startswith(prefix):
            seen[0] += 1
            if seen[0] == event:
                os.kill(os.getpid(), signal.SIGKILL)

    def on_event(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                count(path)
        elif name in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate"):
            count(arguments[0])

    def fsync(descriptor: int) -> None:
        count()  # after the write, before the flush
        flush(descriptor)

    sys.addaudithook(on_event)
    os.fsync = fsync
    return seen


def outcome(folder: Path) -> dict[str, Any]:
    """Return the results of a finished run, without those that depend on the clock or on interruptions."""
    state = load_state(folder / STATE_FILE)
    checkpoints = {path.name: load_checkpoint(path) for path in sorted((folder / "checkpoints").iterdir())}
    return {
        "iteration": state.iteration,
        "best": state.best_iteration,
        "samples": state.samples,
        "state": digest(state.learner) + digest(state.actors),
        "networks": {
            name: (checkpoint.provenance["iteration"], digest(checkpoint.network.state_dict()))
            for name, checkpoint in checkpoints.items()
        },
        "reports": [stable_part(dataclasses.asdict(report)) for report in read_reports(folder / "reports.jsonl")],
        "replay": {path.name: digest(load_shard(path).arrays()) for path in (folder / "replay").iterdir()},
    }


def stable_part(report: Any) -> Any:
    """Return a report without `VOLATILE_FIELDS`."""
    if isinstance(report, dict):
        return {name: stable_part(part) for name, part in report.items() if name not in VOLATILE_FIELDS}
    return [stable_part(part) for part in report] if isinstance(report, list) else report


def digest(arrays: Mapping[str, Any]) -> str:
    """Return a SHA-256 of arrays or tensors and their names."""
    result = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        result.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return result.hexdigest()
