"""Every kind of opponent behind one batch-first interface."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from alphac4.checkpoint import CheckpointError, load_checkpoint
from alphac4.game import Geometry, Position
from alphac4.game.rules import STANDARD
from alphac4.mcts.puct import PuctConfig
from alphac4.mcts.search import Budget, Evaluate, NetworkSearch, UctSearch
from alphac4.mcts.uct import UctConfig
from alphac4.nn.evaluator import Evaluator, cores
from alphac4.selfplay.replay import make_planes

SPECIFICATIONS = """\
  FILE.safetensors@600   a checkpoint searching 600 simulations a move (100 if none are given)
  FILE.safetensors@1s    the same for one second a move
  FILE.safetensors@0     its raw policy, without search
  uct:1000               classic MCTS with 1000 random rollouts a move
  uct:1s                 the same for one second a move
  random                 uniformly random moves
  openspiel:1000         OpenSpiel's C++ MCTS bot with 1000 simulations (needs alphac4[openspiel])"""


class PlayerError(ValueError):
    """A player that cannot be made, and why, in one line."""


class Player(Protocol):
    """Chooses moves for a batch of unfinished positions."""

    name: str

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """A 0-based column for each position."""


class RandomPlayer:
    """Plays uniformly random legal moves."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.name = "random"
        self._rng = rng

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(self._rng.choice(position.legal_columns())) for position in positions]


class UctPlayer:
    """Classic MCTS with random rollouts, a fresh tree each move."""

    def __init__(
        self,
        budget: Budget,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        config: UctConfig | None = None,
        threads: int = 1,
    ) -> None:
        self.name = f"uct:{_budget_name(budget)}"
        self.budget = budget
        self._search = UctSearch(config, geometry=geometry, rng=rng, threads=threads)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        return [int(move) for move in self._search.search(positions, self.budget).moves]


class NetworkPlayer:
    """A network with PUCT search, a fresh tree each move; without a budget, its raw policy."""

    def __init__(
        self,
        name: str,
        evaluator: Evaluate,
        budget: Budget | None,
        rng: np.random.Generator,
        geometry: Geometry = STANDARD,
        config: PuctConfig | None = None,
    ) -> None:
        self.name = name
        self.budget = budget
        self.geometry = geometry
        self._evaluator = evaluator
        self._search = NetworkSearch(evaluator, config, geometry=geometry, rng=rng)

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`."""
        if self.budget is not None:
            return [int(move) for move in self._search.search(positions, self.budget).moves]
        own = np.array([position.own for position in positions], np.uint64)
        occupied = np.array([position.occupied for position in positions], np.uint64)
        logits, _ = self._evaluator.evaluate(make_planes(self.geometry, own, occupied))
        return [
            max(position.legal_columns(), key=lambda column: row[column])
            for position, row in zip(positions, logits, strict=True)
        ]


class OpenSpielPlayer:
    """OpenSpiel's C++ MCTS with random rollouts: an independent implementation to be held against."""

    def __init__(self, simulations: int, seed: int) -> None:
        try:
            import pyspiel
        except ImportError as error:
            raise PlayerError("openspiel needs the open_spiel package: pip install 'alphac4[openspiel]'") from error
        self.name = f"openspiel:{simulations}"
        self._game = pyspiel.load_game("connect_four")
        self._bot = pyspiel.MCTSBot(
            self._game, pyspiel.RandomRolloutEvaluator(1, seed), 2.0, simulations, 1000, True, seed, False
        )

    def choose(self, positions: Sequence[Position]) -> list[int]:
        """See `Player`; the positions need their move strings."""
        moves = []
        for position in positions:
            if position.moves is None:
                raise PlayerError("openspiel can only play positions whose moves are known")
            state = self._game.new_initial_state()
            for name in position.moves:
                state.apply_action(int(name) - 1)
            moves.append(int(self._bot.step(state)))
        return moves


def parse_player(
    specification: str, *, seed: int = 0, geometry: Geometry = STANDARD, backend: str = "auto", device: str = "auto"
) -> Player:
    """Make a player from a short specification such as "uct:1000"; see `SPECIFICATIONS`.

    Raises:
        PlayerError: for an unknown form, a bad number, or a checkpoint that cannot be used.
    """
    rng = np.random.default_rng(seed)
    kind, _, argument = specification.partition(":")
    if specification == "random":
        return RandomPlayer(rng)
    if kind == "uct":
        return UctPlayer(_parse_budget(argument, specification), rng, geometry, threads=cores())
    if kind == "openspiel":
        budget = _parse_budget(argument, specification)
        if budget.simulations is None or geometry != STANDARD:
            raise PlayerError(f"{specification!r}: openspiel plays a number of simulations on the standard board")
        return OpenSpielPlayer(budget.simulations, seed)
    path, _, limit = specification.partition("@")
    if not path.endswith(".safetensors"):
        raise PlayerError(f"unknown player {specification!r}; players are written\n{SPECIFICATIONS}")
    try:
        checkpoint = load_checkpoint(Path(path))
    except CheckpointError as error:
        raise PlayerError(str(error)) from error
    if checkpoint.geometry != geometry:
        found = checkpoint.geometry
        raise PlayerError(f"{path}: plays on {found.rows} x {found.columns} with runs of {found.run_length}")
    budget_or_none = None if limit == "0" else _parse_budget(limit or "100", specification)
    evaluator = Evaluator(checkpoint.network, device=device, backend=backend)
    name = f"{Path(path).stem}@{limit or '100'}"
    return NetworkPlayer(name, evaluator, budget_or_none, rng, geometry)


def _parse_budget(text: str, specification: str) -> Budget:
    try:
        if text.endswith("s"):
            return Budget(seconds=float(text[:-1]))
        return Budget(simulations=int(text))
    except ValueError as error:
        raise PlayerError(f"{specification!r}: {text!r} is no budget; write 1000 (simulations) or 1.5s") from error


def _budget_name(budget: Budget) -> str:
    return str(budget.simulations) if budget.simulations is not None else f"{budget.seconds:g}s"
