"""Matches of a run: the gate (a candidate against the best network), and the best network against classic MCTS."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alphac4.arena.match import MatchResult, balanced_openings, play_match
from alphac4.arena.players import NetworkPlayer, Player, UctPlayer
from alphac4.arena.pool_players import PlayerFactory, PoolPlayer
from alphac4.compute import choose_compute
from alphac4.compute.cores import Compute
from alphac4.game.rules import Board, as_integer
from alphac4.machine import cores
from alphac4.mcts.search import Budget, Reuse
from alphac4.mcts.simulation import Selection
from alphac4.nn.backends import has_backend
from alphac4.nn.network import Network
from alphac4.training.config import GateConfig, random_generator
from alphac4.training.extensions import Gate

if TYPE_CHECKING:
    from alphac4.compute.pool import Pool

CACHE_ENTRIES = 2**16  # cached evaluations per search
TREE_REUSE: Reuse = "proofs"  # what is kept from one search of a game to the next

BASELINE_MATCH_SIMULATIONS = 100  # simulations of the network per move against classic MCTS


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A run's network, and the iteration that produced it; 0 for the network that the run started from."""

    network: Network
    iteration: int


class Matches:
    """The matches of a run."""

    def __init__(
        self,
        providers: "Sequence[PlayerProvider]",  # the candidate uses the first, the best network the second
        config: GateConfig,
        board: Board,
        seed: int,
        *,
        report: Callable[..., object] = lambda **_games: None,  # gets the games done and in total; may raise to stop
        pool: "Pool | None" = None,  # processes in which classic MCTS plays, instead of this one
    ) -> None:
        self._providers = providers
        self._config = config
        self._board = board
        self._seed = seed
        self._report = report
        self._pool = pool

    def gate(self, candidate: Contender, best: Contender, decide: Gate | None = None) -> MatchResult:
        """Decide whether to promote the candidate: by ``decide``, or else by its score in one match.

        Return the result of the last match, with the decision. It has no games if ``decide`` played no match.
        """
        config, played = self._config, list[MatchResult]()
        rng = random_generator(self._seed, candidate.iteration, "openings")

        def play(*, pairs: int | None = None, simulations: int | None = None) -> MatchResult:
            pairs = as_integer(config.pairs if pairs is None else pairs, "pairs", 1)
            budget = as_integer(config.simulations if simulations is None else simulations, "simulations", 0)
            players, opponents = self._players(0, candidate, budget), self._players(1, best, budget)
            played.append(self._play(players, opponents, pairs, rng))
            return played[-1]

        promoted = play().score >= config.threshold if decide is None else decide(play)
        if not isinstance(promoted, bool | np.bool_):
            raise ValueError(f"gate returned {promoted!r:.80}; expected True or False")
        names = f"iteration {candidate.iteration}", f"iteration {best.iteration}"
        nothing = MatchResult(player=names[0], opponent=names[1])
        return replace(played[-1] if played else nothing, promoted=bool(promoted))

    def against_classic(self, best: Contender, iteration: int, budgets: Sequence[int], pairs: int) -> list[MatchResult]:
        """Play one match against classic MCTS with each of the ``budgets``, in simulations per move."""
        reports = []
        for simulations in budgets:
            ours = self._players(1, best, BASELINE_MATCH_SIMULATIONS)
            classic = self._classic_players(
                simulations, len(ours), random_generator(self._seed, iteration, "classic", simulations)
            )
            rng = random_generator(self._seed, iteration, "classic openings", simulations)
            reports.append(self._play(ours, classic, pairs, rng))
        return reports

    def _play(
        self, players: Sequence[Player], opponents: Sequence[Player], pairs: int, rng: np.random.Generator
    ) -> MatchResult:
        """Play a match from openings that ``rng`` draws."""
        started = time.perf_counter()
        openings = balanced_openings(pairs, rng, self._board)
        done = 0

        def on_games(count: int) -> None:
            nonlocal done
            done += count
            self._report(done=done, total=2 * pairs)

        result = play_match(players, opponents, openings, on_games)
        return replace(result, seconds=time.perf_counter() - started)  # includes the search for openings

    def _players(self, index: int, contender: Contender, simulations: int) -> Sequence[Player]:
        return self._providers[index].players(contender.network, f"iteration {contender.iteration}", simulations)

    def _classic_players(self, simulations: int, count: int, rng: np.random.Generator) -> Sequence[Player]:
        """Return ``count`` equal players of classic MCTS, one for each player of the network."""
        budget, board = Budget(simulations=simulations), self._board
        if self._pool is None:
            threads = max(1, cores() // count)
            return [UctPlayer(budget, each, board, threads=threads) for each in rng.spawn(count)]
        seed, model = int(rng.integers(2**63)), UctPlayer(budget, rng, board)
        factories = [
            PlayerFactory(
                ("classic", simulations, board, seed, index),
                partial(UctPlayer, budget, np.random.default_rng((seed, index)), board),
            )
            for index in range(count)
        ]
        return [PoolPlayer(self._pool, index, factory, model) for index, factory in enumerate(factories)]


class PlayerProvider:
    """Source of players for one network after another, with one evaluator and a few searches for the whole run.

    They are reused because inference libraries do not release all of an evaluator's memory. There is one search per
    stream of the `Compute`; a run on cores has at most four.
    """

    def __init__(
        self,
        compute: Compute,
        network: Network,
        board: Board,
        selection: Selection,
        pool: "Pool | None" = None,  # processes that search instead of this one, with the same backend if they have it
        number: int = 0,  # distinguishes the providers of a pool
    ) -> None:
        self._pool, self._number, self._board, self._selection = pool, number, board, selection
        self._evaluator = compute.evaluator(network, callers=compute.callers)
        self._searches = [
            compute.search(self._evaluator, selection, board=board, reuse=TREE_REUSE, cache=CACHE_ENTRIES)
            for _ in range(compute.callers)
        ]

    @property
    def backend(self) -> str:
        """Backend of the latest `players`."""
        return self._evaluator.backend

    def players(self, network: Network, name: str, simulations: int) -> Sequence[Player]:
        """Return players that share a match, valid until the next call; 0 simulations means the raw policy.

        There is one player per search or, with a pool, per core of the pool.
        """
        self._evaluator.update(network)  # chooses the backend
        budget = Budget(simulations=simulations)
        players = [NetworkPlayer(name, search, budget) for search in self._searches]
        if self._pool is None:
            return players
        arguments = self.backend, self._board, self._selection, simulations
        make = partial(_player_in_pool, self._number, self._pool.share(network), *arguments)
        factory = PlayerFactory((self._number, self._evaluator.version, *arguments), make)
        return [PoolPlayer(self._pool, index, factory, players[0]) for index in range(self._pool.cores)]


_providers: dict[tuple[int, str], PlayerProvider] = {}  # in a pool's process, by number and backend


def _player_in_pool(
    number: int,
    network: Callable[[], Network],
    backend: str,
    board: Board,
    selection: Selection,
    simulations: int,
) -> Player:
    """Return a player that uses one core of a pool's process; earlier ones of the same provider become invalid."""
    weights = network().eval()
    if (number, backend) not in _providers:
        compute = choose_compute("cpu", backend if has_backend(backend, "cpu") else "auto", threads=1)
        _providers[number, backend] = PlayerProvider(compute, weights, board, selection)
    (player,) = _providers[number, backend].players(weights, "", simulations)
    return player
