"""Costs of a run, interrupted attempts included, and the provenance of its networks."""

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alphac4.arena.syntax import check_network
from alphac4.nn.network import Network
from alphac4.runs.state import Costs, RunState
from alphac4.storage.checkpoints import load_checkpoint, named_file
from alphac4.storage.files import write_atomically
from alphac4.storage.journal import read_entry, to_line
from alphac4.storage.records import read_record, read_value
from alphac4.training.config import TrainConfig, to_dict

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_WRITES = 2.0  # a kill loses no more of the costs

_OF_START = ("run", "iteration", "seconds", "games", "evaluations", "started_from", "with_start")


class CostCounter:
    """Counts a run's costs, interrupted attempts included, which a small file keeps between two states of the run.

    Args:
        path: the file.
        committed: the costs in the run's state; the larger of both counts.
    """

    def __init__(self, path: Path, committed: Costs) -> None:
        self._path, self._costs = path, committed
        try:
            found = read_record(Costs, read_entry(path.read_text()))
            self._costs = Costs(**{name: max(value, getattr(found, name)) for name, value in vars(committed).items()})
        except FileNotFoundError:
            pass
        except ValueError as error:
            logger.warning("%s: %s; costs continue from those of the last committed iteration", path, error)
        self._started = self._written = time.perf_counter()

    def now(self) -> Costs:
        """Return the costs until now."""
        return self._costs + Costs(seconds=time.perf_counter() - self._started)

    def add(self, games: int, evaluations: int) -> None:
        """Count some self-play."""
        self._costs += Costs(games=games, evaluations=evaluations)

    def tick(self) -> None:
        """Write the file if `SECONDS_BETWEEN_WRITES` have passed; any thread may call this."""
        if time.perf_counter() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the file."""
        self._written = time.perf_counter()
        write_atomically(self._path, (to_line(asdict(self.now())) + "\n").encode())


@dataclass(frozen=True, kw_only=True)
class Start:
    """The network that a run begins with, and what is known of it."""

    network: Network
    facts: Mapping[str, Any]


def load_start(config: TrainConfig) -> Start | None:
    """The network that a new run is to begin with, if one is named; reads only.

    Raises:
        ValueError: if it cannot be read, or does not fit the run.
    """
    name = config.start_from
    if not name:
        return None
    check_network(name)
    checkpoint = load_checkpoint(Path(name))
    if checkpoint.geometry != config.board.geometry():
        raise ValueError(f"{name}: plays on another board than the run")
    try:
        config.network_config().check_grown_from(checkpoint.network.config)
        known = {key: checkpoint.provenance[key] for key in _OF_START if key in checkpoint.provenance}
        total_costs(known)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    digest = hashlib.sha256(named_file(Path(name)).read_bytes()).hexdigest()
    return Start(network=checkpoint.network, facts={"checkpoint": name, "sha256": digest, **known})


def describe_network(run: str, iteration: int, costs: Costs, state: RunState, config: TrainConfig) -> dict[str, Any]:
    """The provenance of a network that a run has made.

    ``seconds``, ``games`` and ``evaluations`` are those of the run until then, interrupted attempts included. If the
    run began with another network, ``started_from`` says with which, and ``with_start`` holds the costs of both.
    """
    provenance: dict[str, Any] = {"run": run, "iteration": iteration, **_rounded(costs), "config": to_dict(config)}
    if state.changes:
        provenance["changes"] = state.changes
    if state.started_from:
        provenance["started_from"] = dict(state.started_from)
        provenance["with_start"] = _rounded(costs + total_costs(state.started_from))
    return provenance


def total_costs(provenance: Mapping[str, Any]) -> Costs:
    """Costs of a network, with those of the network that its run began with; without a record they are 0.

    Raises:
        ValueError: if the record, which another program may have made, holds anything else than numbers.
    """
    recorded = read_value(dict[str, Any], provenance.get("with_start", provenance), "with_start")
    return read_record(Costs, {key: recorded[key] for key in asdict(Costs()) if key in recorded})


def _rounded(costs: Costs) -> dict[str, int]:
    return {"seconds": round(costs.seconds), "games": costs.games, "evaluations": costs.evaluations}
