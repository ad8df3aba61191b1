"""A player for use from Python, and the results of its searches."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from alphac4.api.positions import PositionLike, read_positions
from alphac4.arena.players import NetworkPlayer, Player, PlayerError, SearchingPlayer, checked_moves, keep_trees
from alphac4.arena.specifications import LEAVES, common_geometry, find_network, parse_player
from alphac4.compute import choose
from alphac4.game import Geometry
from alphac4.game.planes import PLANES
from alphac4.game.rules import STANDARD, as_integer
from alphac4.mcts.network_search import NetworkParameters, NetworkSearch
from alphac4.mcts.results import SearchedPosition
from alphac4.mcts.search import Budget
from alphac4.nn.foreign import FunctionEvaluator, ModuleEvaluator
from alphac4.nn.network import Network
from alphac4.storage.checkpoints import load_checkpoint

if TYPE_CHECKING:
    from torch import nn

    from alphac4.nn.network import NetworkBuilder

DEFAULT_SIMULATIONS = 100  # of an evaluator of one's own


class Agent:
    """A player ready for use; it is a `Player` itself, so that it can play matches."""

    def __init__(self, player: Player, geometry: Geometry = STANDARD) -> None:
        self.player = player
        self.geometry = geometry
        self.name = player.name

    def choose(self, positions: Sequence[PositionLike]) -> list[int]:
        """Return a 0-based column for each position. Raises ValueError if the player chooses an illegal move."""
        return checked_moves(self.player, read_positions(positions, self.geometry))

    @overload
    def search(  # type: ignore[overload-overlap] # a string is a sequence of strings, but here a single position
        self, positions: PositionLike, *, simulations: int | None = None, seconds: float | None = None
    ) -> SearchedPosition: ...

    @overload
    def search(
        self, positions: Sequence[PositionLike], *, simulations: int | None = None, seconds: float | None = None
    ) -> list[SearchedPosition]: ...

    def search(
        self,
        positions: PositionLike | Sequence[PositionLike],
        *,
        simulations: int | None = None,
        seconds: float | None = None,
    ) -> SearchedPosition | list[SearchedPosition]:
        """Search one position, or several together.

        Args:
            positions: a move string such as "4455", a `Position`, or a list of them.
            simulations: of each position; 0 asks a network for its raw policy and value.
            seconds: for each position. Without either limit the player's own holds.

        Raises:
            ValueError: for an illegal move, a game that is over, a bad limit, or a player that does not search.
        """
        if not isinstance(self.player, SearchingPlayer):
            raise PlayerError(f"{self.name} only chooses moves: call choose, not search")
        budget = None
        if simulations is not None or seconds is not None:
            budget = Budget(simulations=simulations, seconds=seconds)
        several = isinstance(positions, Sequence) and not isinstance(positions, str)
        found = read_positions(positions if several else [positions], self.geometry)  # type: ignore[list-item, arg-type]
        if not found:
            return []
        if len(found) > 1 and (budget or self.player.budget).seconds is not None:  # each in a tree of its own
            return [self.search(position, simulations=simulations, seconds=seconds) for position in found]
        result = self.player.search(found, budget)
        trees = keep_trees(self.player)
        seen = [SearchedPosition.of_result(p, self.name, result, index, trees) for index, p in enumerate(found)]
        return seen if several else seen[0]

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


def load(
    player: str | Path | Player | Callable[..., Any] = "best",
    *,
    geometry: Geometry | None = None,
    seed: int | Sequence[int] = 0,
    device: str = "auto",
    backend: str = "auto",
    threads: int | None = None,
    batch_size: int = 1,
    puct: NetworkParameters | None = None,
    planes: Literal["stones", "lines"] | None = None,
    network: "NetworkBuilder | None" = None,
) -> Agent:
    """Make an agent.

    Args:
        player: the shipped network "best" or "fast", a checkpoint's file, any other player as the command line writes
            them ("uct:1000", "solver", "model.onnx@600", "module:Class"), a `Player` of your own, or a network of your
            own: a PyTorch module, which gets a tensor, or a function, which gets a NumPy array. Either takes planes
            [B, P, R, C] and returns a policy [B, C] and a value: [B] in [-1, 1], or win/draw/loss [B, 3]. A function
            returns policy logits and probabilities of win/draw/loss; a module may return logits or probabilities.
        geometry: the board; a network in a file decides it itself.
        seed: of its random choices.
        device: where networks run: "cpu", "cuda", or "auto".
        backend: of inference; "auto" takes the fastest here.
        threads: cores to use, by default all.
        batch_size: how many positions a network will usually be asked about at once; other numbers work, more slowly.
        puct: how a network is searched, in place of what the specification says: a `PuctConfig`, or the parameters of
            a rule of one's own (see `scores_actions`).
        planes: what a network of your own sees: the stones (P = 2), or also what the rules make of them (P = 8, see
            `alphac4.game.planes`). By default a module sees what its first layer takes, and a function the stones.
        network: the function that built the network of a checkpoint's file, if it is not the package's own.

    Raises:
        TypeError: for an argument of another type.
        ValueError: for an unknown player, a file that cannot be used, an option that does not concern this player, or
            a module that takes or returns something else.
    """
    batch_size = as_integer(batch_size, "batch_size", 1)
    threads = None if threads is None else as_integer(threads, "threads", 1)
    if geometry is not None and not isinstance(geometry, Geometry):
        raise TypeError(f"geometry must be a board from make_geometry, not {geometry!r:.60}")
    if network is not None:
        checkpoint = load_checkpoint(Path(str(player)), network)
        player, geometry = checkpoint.network, checkpoint.geometry
    is_module = "torch" in sys.modules and isinstance(player, sys.modules["torch"].nn.Module)
    is_written = isinstance(player, str | Path)
    is_own_network = is_module or (callable(player) and not hasattr(player, "choose"))
    if planes is not None and not is_own_network:
        raise PlayerError("planes are for a function or a module; leave planes out for any other player")
    if planes is not None and planes not in PLANES:
        raise PlayerError(f"planes are {' or '.join(PLANES)}, not {planes!r}")
    if puct is not None and not (is_own_network or (is_written and find_network(str(player)) is not None)):
        raise PlayerError(f"puct is for networks, and {player} is not one; leave puct out")
    if isinstance(player, Agent):
        return player
    rng, board = np.random.default_rng(seed), geometry or STANDARD
    if is_written:
        board = geometry or common_geometry((str(player),))
        compute = choose(device, backend, threads=threads)
        options: dict[str, Any] = {
            "rng": rng,
            "geometry": board,
            "threads": threads,
            "batch_size": batch_size,
            "puct": puct,
        }
        return Agent(parse_player(str(player), compute=compute, **options), board)
    if not is_own_network:
        if not hasattr(player, "choose"):
            raise TypeError(f"{player!r:.60} is not a player: it has no choose(positions), and is not a function")
        return Agent(cast(Player, player), board)
    count = None if planes is None else PLANES[planes]
    if planes is None and isinstance(player, Network):  # made by a run
        count = player.config.input_planes
    evaluator = (
        ModuleEvaluator(cast("nn.Module", player), board, count)
        if is_module
        else FunctionEvaluator(cast("Callable[..., Any]", player), count or PLANES["stones"])
    )
    budget = Budget(simulations=DEFAULT_SIMULATIONS)
    search = NetworkSearch(evaluator, puct, geometry=board, rng=rng, reuse="proofs", leaves=LEAVES)
    return Agent(NetworkPlayer(evaluator.name, evaluator, budget, search=search), board)
