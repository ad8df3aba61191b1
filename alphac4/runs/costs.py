"""Costs of a run, including interrupted attempts, and the provenance of its networks."""

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from alphac4.nn.network import Network
from alphac4.runs.state import Costs, RunState
from alphac4.storage.checkpoints import checkpoint_file, load_checkpoint
from alphac4.storage.files import read_bytes, write_atomically
from alphac4.storage.networks import check_network
from alphac4.storage.records import parse_json, read_record, to_json_line
from alphac4.training.config import TrainConfig
from alphac4.training.loop import Callback, Progress

logger = logging.getLogger(__name__)

WRITE_INTERVAL_S = 2.0  # a kill loses the costs of about this time, or of more in phases without progress

_COPIED_PROVENANCE = ("run", "iteration", "seconds", "games", "evaluations", "started_from", "with_start", "functions")


class CostCounter(Callback):
    """Callback that counts a run's costs in a small file, written more often than the state, so a kill loses little."""

    def __init__(self, path: Path, committed: Costs) -> None:
        self._path, self._costs = path, committed
        try:
            stored = read_record(Costs, parse_json(read_bytes(path)))
            self._costs = Costs(**{name: max(value, getattr(stored, name)) for name, value in vars(committed).items()})
        except FileNotFoundError:
            pass
        except ValueError as error:
            logger.warning("%s: %s; costs continue from those of the last finished iteration", path, error)
        self._started = self._written = time.perf_counter()

    def now(self) -> Costs:
        return self._costs + Costs(seconds=time.perf_counter() - self._started)

    def on_progress(self, progress: Progress) -> None:
        """Count self-play, and write the file if `WRITE_INTERVAL_S` have passed."""
        self._costs += Costs(games=progress.games, evaluations=progress.evaluations)
        if time.perf_counter() - self._written > WRITE_INTERVAL_S:
            self.write()

    def write(self) -> None:
        self._written = time.perf_counter()
        write_atomically(self._path, f"{to_json_line(asdict(self.now()))}\n".encode())


def load_initial_network(config: TrainConfig) -> tuple[Network, dict[str, Any]] | None:
    """Return the network of the setting ``start_from`` with its provenance; None for random weights."""
    name = config.start_from
    if not name:
        return None
    check_network(name)
    checkpoint = load_checkpoint(Path(name))
    try:
        if checkpoint.board != config.board.make():
            raise ValueError("the network is for another board than the run's")
        config.network_config().check_can_initialize_from(checkpoint.network.config)
        provenance = {key: checkpoint.provenance[key] for key in _COPIED_PROVENANCE if key in checkpoint.provenance}
        total_costs(provenance)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    digest = hashlib.sha256(read_bytes(checkpoint_file(Path(name)))).hexdigest()
    return checkpoint.network, {"checkpoint": name, "sha256": digest, **provenance}


def make_provenance(run: str, iteration: int, costs: Costs, state: RunState, config: TrainConfig) -> dict[str, Any]:
    """Return the provenance of a run's network.

    ``seconds``, ``games`` and ``evaluations`` are the run's costs so far, including interrupted attempts. For a run
    that started from another network, ``started_from`` has that network's file, digest and provenance, and
    ``with_start`` the sum of both costs. ``functions`` are the names of the user's functions, if there are any.
    """
    provenance: dict[str, Any] = {"run": run, "iteration": iteration, **_rounded(costs), "config": asdict(config)}
    if state.changes:
        provenance["changes"] = state.changes
    if state.extensions:
        provenance["functions"] = state.extensions
    if state.started_from:
        provenance["started_from"] = dict(state.started_from)
        provenance["with_start"] = _rounded(costs + total_costs(state.started_from))
    return provenance


def total_costs(provenance: Mapping[str, Any]) -> Costs:
    """Return the costs of a network, including those of the network that its run started from; missing ones are 0."""
    recorded = read_record(dict[str, Any], provenance.get("with_start", provenance), "with_start")
    return read_record(Costs, {key: recorded[key] for key in asdict(Costs()) if key in recorded})


def _rounded(costs: Costs) -> dict[str, int]:
    return {"seconds": round(costs.seconds), "games": costs.games, "evaluations": costs.evaluations}
