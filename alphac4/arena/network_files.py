"""Players by their specifications in processes that may not have the files which these name."""

import hashlib
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from alphac4.arena.players import Player
from alphac4.arena.pool_players import like_in_each_process
from alphac4.arena.specifications import find_network, parse_player
from alphac4.compute import Pool, Shared, choose
from alphac4.game import Geometry
from alphac4.mcts.search import Reuse
from alphac4.nn.backends import require_backend
from alphac4.nn.evaluator import BATCH


@dataclass(frozen=True, kw_only=True)
class NetworkFile:
    """A network's file, for processes that may not have it."""

    written: str  # how specifications name it
    suffix: str  # ".safetensors" or ".onnx"
    content: bytes = field(repr=False)


def read_network_file(specification: str) -> NetworkFile | None:
    """The file of the network that a specification names; None for any other player.

    Raises:
        PlayerError: if there is no such network.
    """
    network = find_network(specification)
    if network is None:
        return None
    return NetworkFile(written=network.written, suffix=network.path.suffix, content=network.path.read_bytes())


def parse_player_with(file: NetworkFile | None, specification: str, **settings: Any) -> Player:
    """`parse_player`, with the file of the network that the specification names from another process."""
    if file is None:
        return parse_player(specification, **settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"network{file.suffix}"
        path.write_bytes(file.content)
        return parse_player(f"{path}{specification[len(file.written) :]}", **settings)


@dataclass(frozen=True, kw_only=True)
class SpecifiedPlayer:
    """A `Recipe` for a player by its specification."""

    specification: str
    geometry: Geometry
    backend: str  # of its network
    seed: tuple[int, ...] = ()
    reuse: Reuse | None = None
    digest: str = ""  # SHA-256 of the network's file
    network: Shared[NetworkFile | None] | None = field(default=None, compare=False, repr=False)

    def make(self) -> Player:
        """See `Recipe`."""
        return parse_player_with(
            None if self.network is None else self.network.get(),
            self.specification,
            rng=np.random.default_rng(self.seed),
            geometry=self.geometry,
            threads=1,
            compute=choose("cpu", require_backend(self.backend), threads=1),
            batch_size=BATCH,
            reuse=self.reuse,
        )


def pool_players(
    pool: Pool, player: SpecifiedPlayer, model: Player, seed: int = 0, network: NetworkFile | None = None
) -> list[Player]:
    """The ``player`` in each process of a pool, with random numbers of its own; the ``model`` is the same one here.

    ``network`` stands for the file that the specification names, if it is not to be read.
    """
    network = network or read_network_file(player.specification)
    digest = hashlib.sha256(network.content).hexdigest() if network is not None else ""
    player = replace(player, digest=digest, network=pool.share(network))
    recipes = [replace(player, seed=(seed, index)) for index in range(pool.cores)]
    return like_in_each_process(pool, recipes, model)
