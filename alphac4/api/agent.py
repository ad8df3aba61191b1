"""Players for Python users."""

import re
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, overload

import numpy as np

from alphac4.api.positions import AnyBoard, PositionLike, PositionsLike, read_positions
from alphac4.arena import PlayerError
from alphac4.arena.kinds import SEARCH_DEFAULTS, describe_options
from alphac4.arena.players import (
    NetworkPlayer,
    Player,
    SearchingPlayer,
    checked_moves,
    is_player,
    keep_trees,
)
from alphac4.arena.registry import common_board, find_kind, find_network, parse_player
from alphac4.compute import choose_compute
from alphac4.game import Board, Position
from alphac4.game.rules import STANDARD, describe
from alphac4.mcts.network_search import PREFETCH, NetworkSearch, SupportsEvaluate
from alphac4.mcts.results import SearchResult
from alphac4.mcts.search import Budget
from alphac4.mcts.simulation import Selection
from alphac4.nn.foreign import own_evaluator
from alphac4.storage.checkpoints import load_checkpoint
from alphac4.storage.records import Range, Seed, checked

if TYPE_CHECKING:
    from alphac4.nn.network import Network

DEFAULT_SIMULATIONS = 100  # per search of a user's own network
OWN_CACHE = 2**14  # evaluations of a user's own network that a search keeps
MAX_BATCH, MAX_THREADS = 65_536, 1024

AnyPlayer = str | Path | Player | Callable[..., Any]
"""Any player that `load` accepts."""


class Agent:
    """Player for move strings and positions. An agent is itself a `Player`, so it can play matches.

    Calls from several threads wait for each other, because they share trees.

    Args:
        player: an object with a ``name`` and a method ``choose``.
        board: the board to play on.

    Raises:
        TypeError: for an object that is not a player, or a board of another type.
    """

    @checked
    def __init__(self, player: "Player", board: AnyBoard = STANDARD) -> None:
        if not is_player(player):
            raise TypeError(f"{player!r:.60} is not a player: it needs a name, a string, and choose(positions)")
        self.player = player
        self.board = board
        self.name = player.name
        self._lock = threading.RLock()

    @checked
    def choose(self, positions: Sequence[PositionLike]) -> list[int]:
        """Return a 0-based column for each position.

        Raises:
            TypeError: for a single position.
            ValueError: for an invalid position, or if the player chooses an illegal move.
        """
        with self._lock:
            return checked_moves(self.player, read_positions(positions, self.board))

    @overload
    def search(  # type: ignore[overload-overlap] # a string is a sequence of strings, but here a single position
        self, positions: PositionLike, *, simulations: int | None = None, seconds: float | None = None
    ) -> SearchResult: ...

    @overload
    def search(
        self, positions: Sequence[PositionLike], *, simulations: int | None = None, seconds: float | None = None
    ) -> list[SearchResult]: ...

    @checked
    def search(
        self,
        positions: PositionsLike,
        *,
        simulations: int | None = None,
        seconds: float | None = None,
    ) -> SearchResult | list[SearchResult]:
        """Search one position, or several together.

        Args:
            positions: a move string such as "4455", a `Position`, or a list of them.
            simulations: per position; 0 returns a network's raw policy and value.
            seconds: per position. Without ``simulations`` and ``seconds``, the player's own budget applies.

        Returns:
            The result of a single position, or a list of results.

        Raises:
            TypeError: for an argument of another type.
            ValueError: for an illegal move, a game that is over, an invalid limit, or a player that does not search.
        """
        if not isinstance(self.player, SearchingPlayer):
            raise PlayerError(f"{self.name} only chooses moves; call choose instead of search")
        budget = None
        if simulations is not None or seconds is not None:
            budget = Budget(simulations=simulations, seconds=seconds)
        several = not isinstance(positions, str | Position)
        found = read_positions(positions if several else [positions], self.board)  # type: ignore[list-item, arg-type]
        if not found:
            return []
        if len(found) > 1 and (budget or self.player.budget).seconds is not None:  # each in a tree of its own
            return [self.search(position, simulations=simulations, seconds=seconds) for position in found]
        with self._lock:
            result = self.player.search(found, budget)
            find = keep_trees(self.player).node
        # With a budget, the name in the result lacks the player's own limit, which does not apply.
        name = self.name if budget is None else re.sub(r"^(uct):[^,]*|^(.*)@[^,@]*", r"\1\2", self.name)
        seen = [SearchResult.of_result(p, name, result, i, partial(find, i)) for i, p in enumerate(found)]
        return seen if several else seen[0]

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"


@checked
def load(
    player: "AnyPlayer" = "best",
    *,
    board: AnyBoard | None = None,
    seed: Seed | Sequence[Seed] = 0,
    device: str = "auto",
    backend: str = "auto",
    threads: Annotated[int, Range(1, MAX_THREADS)] | None = None,
    batch_size: Annotated[int, Range(1, MAX_BATCH)] = 1,
    selection_rule: "Selection | None" = None,
    proofs: bool = True,
    mirror: bool = True,
    planes: Literal["stones", "lines"] | None = None,
    network: Callable[..., Any] | None = None,
) -> Agent:
    """Load a player.

    Args:
        player: one of

            - a specification as on the command line: the shipped network "best" or "quick", a checkpoint's file,
              "uct:1000", "solver", "module:Class", ...;
            - your own `Player`;
            - your own network: a PyTorch module, which gets a tensor, or a function, which gets a NumPy array. It takes
              planes [B, P, rows, columns] and returns a policy [B, A] and a value: [B] in [-1, 1], or win/draw/loss
              [B, 3]. From a function, the policy must be logits and win/draw/loss must be probabilities; from a
              module, both may be logits or probabilities. An `alphac4.Network`, such as a run's, is copied and plays as
              fast as from its file.
        board: by default that of a network's file or of an `Agent`, otherwise the standard board.
        seed: seed of the player's random numbers.
        device: device of networks: "cpu", "cuda", or "auto".
        backend: inference backend; "auto" chooses by a fixed rule for this processor, without 8-bit integers.
        threads: cores to use; by default all.
        batch_size: the usual number of positions that a network evaluates together; other numbers are slower.
        selection_rule: selects the moves in a network's tree and replaces the specification's options of `Puct`, such
            as c-init: a `Puct`, or your own NamedTuple with a field ``prior_temperature`` and a method ``score``.
        proofs: whether a network's search recognises won, drawn and lost positions in its tree. Without proofs, the
            end of a game is a value like any other.
        mirror: whether a network evaluates a position and its mirror image only once, in one of the two orientations.
        planes: input of your own network: "stones" (P = 2) or "lines" (P = 8); see `alphac4.game.planes`. The default
            is "stones"; a module that cannot take the stones gets the lines.
        network: the function that built a checkpoint's network, if the package did not build it.

    Raises:
        OSError: for a file that cannot be read.
        RuntimeError: for a device that cannot be used.
        TypeError: for an argument of another type.
        ValueError: for an unknown player, a missing or damaged file, an argument that does not apply to this player, or
            a network with other inputs or outputs.
    """
    if isinstance(player, type):
        raise TypeError(f"player must be an instance of {player.__name__}, not the class")
    if selection_rule is not None and not hasattr(selection_rule, "_fields"):
        raise TypeError(f"selection_rule must be a Puct, or a NamedTuple of your own, not {selection_rule!r:.60}")
    if network is not None:
        checkpoint = load_checkpoint(Path(str(player)), network)
        _check_board(str(player), checkpoint.board, board)
        player, board = checkpoint.network, checkpoint.board
    is_written, is_object = isinstance(player, str | Path), hasattr(player, "choose")
    is_own_network = callable(player) and not is_object
    search: dict[str, Any] = {"proofs": proofs, "mirror": mirror}
    packages = sys.modules.get("alphac4.nn.network")  # imported if there is an instance of its class
    is_network = packages is not None and isinstance(player, packages.Network)
    has_backend = is_network or is_network_specification(player)
    has_network = is_own_network or (is_written and find_network(str(player)) is not None)
    for name, value, default, applies in (
        ("device", device, "auto", has_backend),
        ("backend", backend, "auto", has_backend),
        ("batch_size", batch_size, 1, has_backend),
        ("seed", seed, 0, not is_object),
        ("threads", threads, None, is_written),
        ("planes", planes, None, is_own_network and not is_network),
        ("selection_rule", selection_rule, None, has_network),
        *((name, value, SEARCH_DEFAULTS[name], has_network) for name, value in search.items()),
    ):
        if value != default and not applies:
            raise PlayerError(f"{name} does not apply to {getattr(player, 'name', player)}: leave it out")
    rng = np.random.default_rng(seed)
    if is_written:
        board = board or common_board((str(player),))
        compute = choose_compute(device, backend, threads=threads)
        limit = {} if threads is None else {"threads": threads}
        options = {"rng": rng, "board": board, "batch_size": batch_size, "selection": selection_rule, **limit}
        text = f"{player}{describe_options(search, SEARCH_DEFAULTS)}"
        return Agent(parse_player(text, compute=compute, **options), board)
    if isinstance(player, Agent):
        _check_board(player.name, player.board, board)
        return player
    board = board or STANDARD
    if not is_own_network:
        return Agent(cast(Player, player), board)
    evaluator: SupportsEvaluate
    if is_network:
        own = cast("Network", player)
        rows, columns = own.config.rows, own.config.columns
        if (rows, columns) != (board.rows, board.columns):
            raise PlayerError(f"the network is for {rows} x {columns}; pass its board as board=")
        name = type(getattr(own, "module", own)).__name__  # the user's own, of a `CustomNetwork`
        evaluator = choose_compute(device, backend).evaluator(own, batch_size=max(batch_size, PREFETCH))
    else:
        evaluator = function = own_evaluator(player, board, planes)
        name = function.name
    budget = Budget(simulations=DEFAULT_SIMULATIONS)
    made = NetworkSearch(
        evaluator, selection_rule, board=board, rng=rng, reuse="proofs", cache=OWN_CACHE, prefetch=PREFETCH, **search
    )
    return Agent(NetworkPlayer(name, made, budget), board)


def _check_board(player: str, actual: Board, requested: Board | None) -> None:
    if requested is not None and requested != actual:
        raise PlayerError(f"{player}: plays on {describe(actual)}, not on {describe(requested)}; leave board out")


def is_network_specification(player: object) -> bool:
    """Return whether a player is a specification to which device, backend and batch size apply."""
    kind = find_kind(str(player)) if isinstance(player, str | Path) else None
    return kind is not None and kind.runs_network
