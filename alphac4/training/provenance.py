"""What a network's file says about where it comes from and what it has cost."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alphac4.nn.network import PolicyValueNetwork
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.records import read_record
from alphac4.training.config import TrainConfig, to_dict
from alphac4.training.costs import Costs
from alphac4.training.run_state import RunState

_KEPT = ("run", "iteration", "seconds", "games", "evaluations", "started_from", "with_start")


@dataclass(frozen=True, kw_only=True)
class Start:
    """The network that a run begins with, and what is known of it."""

    network: PolicyValueNetwork
    facts: Mapping[str, Any]


def load_start(config: TrainConfig) -> Start | None:
    """The network that a new run is to begin with, if one is named; reads only.

    Raises:
        ValueError: if it cannot be read, or does not fit the run.
    """
    name = config.start_from
    if not name:
        return None
    checkpoint = load_checkpoint(Path(name))
    if checkpoint.geometry != config.board.geometry():
        raise ValueError(f"{name}: plays on another board than the run")
    try:
        config.network_config().check_grown_from(checkpoint.network.config)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    provenance = checkpoint.provenance
    facts = {"checkpoint": name, "weights": _weights_digest(checkpoint.network)}
    return Start(network=checkpoint.network, facts=facts | {key: provenance[key] for key in _KEPT if key in provenance})


def describe_network(run: str, iteration: int, costs: Costs, state: RunState, config: TrainConfig) -> dict[str, Any]:
    """The provenance of a network that a run has made.

    ``seconds``, ``games`` and ``evaluations`` are those of the run until then, interrupted attempts included. If the
    run began with another network, ``started_from`` says with which, and ``with_start`` holds the costs of both.
    """
    provenance: dict[str, Any] = {
        "run": run,
        "iteration": iteration,
        **_rounded(costs),
        "config": to_dict(config),
    }
    if state.changes:
        provenance["changes"] = state.changes
    if state.started_from:
        provenance["started_from"] = dict(state.started_from)
        provenance["with_start"] = _rounded(costs + total_costs(state.started_from))
    return provenance


def total_costs(provenance: Mapping[str, Any]) -> Costs:
    """What a network has cost, with the network that its run began with; what is not recorded counts as nothing."""
    recorded = provenance.get("with_start", provenance)
    if not isinstance(recorded, Mapping):
        return Costs()
    try:
        return read_record(Costs, {key: recorded[key] for key in asdict(Costs()) if key in recorded})
    except ValueError:
        return Costs()


def _rounded(costs: Costs) -> dict[str, int]:
    return {"seconds": round(costs.seconds), "games": costs.games, "evaluations": costs.evaluations}


def _weights_digest(network: PolicyValueNetwork) -> str:
    """SHA-256 over the weights: the same network in another file is the same."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
