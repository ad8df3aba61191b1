"""The matches of a run: the gate, in which a candidate meets the best network, and those against classic MCTS."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from alphac4.arena.match import balanced_openings, play_shared
from alphac4.arena.players import NetworkPlayer, Player, UctPlayer
from alphac4.arena.pool_players import SearchingPoolPlayer, replicate_player
from alphac4.compute import Compute, choose
from alphac4.game.rules import Geometry
from alphac4.machine import cores
from alphac4.mcts.network_search import NetworkParameters
from alphac4.mcts.search import Budget, Reuse
from alphac4.nn.backends import backend_or_auto
from alphac4.nn.network import Network
from alphac4.training.config import GateConfig, RunRandom
from alphac4.training.extensions import Gate
from alphac4.training.reports import MatchReport

if TYPE_CHECKING:
    from alphac4.compute import Pool, Shared

CACHE = 2**16  # evaluations that each search keeps
REUSE: Reuse = "proofs"  # from one search of a game to the next

BASELINE_MATCH_SIMULATIONS = 100  # of ours a move against classic MCTS
CLOSING_PAIRS = 50  # colour-swapped, in each of the matches that close a run: the score's interval is +-10 % at most


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A run's network, by the iteration that made it; 0 is the network that the run began with."""

    network: Network
    iteration: int


class Matches:
    """Plays a run's matches.

    Args:
        sides: two; the best network always takes the second.
        config: how many games, how deep, and which score decides.
        geometry: the board.
        random: the run's numbers.
        check: called at every ply; may raise to end a match.
        pool: where classic MCTS plays, in place of this process.
        progress: whether to show a progress bar for each match.
    """

    def __init__(
        self,
        sides: "Sequence[Side]",
        config: GateConfig,
        geometry: Geometry,
        random: RunRandom,
        *,
        check: Callable[[], None] = lambda: None,
        pool: "Pool | None" = None,
        progress: bool = False,
    ) -> None:
        self._sides = sides
        self._config = config
        self._geometry = geometry
        self._random = random
        self._check = check
        self._pool = pool
        self._progress = progress

    def gate(self, candidate: Contender, best: Contender, decide: Gate | None = None) -> MatchReport:
        """Decide whether the candidate is promoted; by default the score of a match against the best network decides.

        Returns:
            The last match that was played; one without games if the decision needed none.
        """
        config, played = self._config, list[MatchReport]()
        rng = self._random.generator(candidate.iteration, "openings")

        def play(*, pairs: int | None = None, simulations: int | None = None) -> MatchReport:
            budget = simulations or config.simulations
            players, opponents = self._players(0, candidate, budget), self._players(1, best, budget)
            played.append(self._play(players, opponents, pairs or config.pairs, rng))
            return played[-1]

        accepted = play().score >= config.threshold if decide is None else decide(play)
        if not isinstance(accepted, bool | np.bool_):
            raise ValueError(f"gate returned {accepted!r:.80}; expected True or False")
        names = f"iteration {candidate.iteration}", f"iteration {best.iteration}"
        nothing = MatchReport(player=names[0], opponent=names[1], wins=0, draws=0, losses=0, seconds=0.0)
        return replace(played[-1] if played else nothing, accepted=bool(accepted))

    def regular(self, best: Contender, iteration: int) -> list[MatchReport]:
        """The matches against classic MCTS that are due after an iteration."""
        every = self._config.baseline_interval
        return (
            self._against_classic(best, iteration, self._config.baseline_pairs)
            if every and iteration % every == 0
            else []
        )

    def closing(self, best: Contender, iteration: int) -> list[MatchReport]:
        """Play the matches that close a run, as if after one more ``iteration``."""
        return self._against_classic(best, iteration, CLOSING_PAIRS)

    def _against_classic(self, best: Contender, iteration: int, pairs: int) -> list[MatchReport]:
        """The best network against every budget of classic MCTS, a measure that does not move with the run."""
        reports = []
        for rollouts in self._config.baseline_rollouts:
            ours = self._players(1, best, BASELINE_MATCH_SIMULATIONS)
            classic = self._classic_players(rollouts, len(ours), self._random.generator(iteration, "classic", rollouts))
            rng = self._random.generator(iteration, "classic openings", rollouts)
            reports.append(self._play(ours, classic, pairs, rng))
        return reports

    def _play(
        self, players: Sequence[Player], opponents: Sequence[Player], pairs: int, rng: np.random.Generator
    ) -> MatchReport:
        """A match from openings that ``rng`` draws."""
        started = time.perf_counter()
        openings = balanced_openings(pairs, rng, self._geometry)
        result = play_shared(players, opponents, openings, check=self._check, progress=self._progress)
        return MatchReport(
            player=players[0].name,
            opponent=opponents[0].name,
            wins=result.wins,
            draws=result.draws,
            losses=result.losses,
            seconds=time.perf_counter() - started,
            games=list(result.games),
            low=result.interval.low,
            high=result.interval.high,
            evaluator=self._sides[0].backend,
        )

    def _players(self, side: int, contender: Contender, simulations: int) -> Sequence[Player]:
        return self._sides[side].players(contender.network, f"iteration {contender.iteration}", simulations)

    def _classic_players(self, rollouts: int, count: int, rng: np.random.Generator) -> Sequence[Player]:
        """Classic MCTS, as many times as there are players of a network."""
        budget, geometry = Budget(simulations=rollouts), self._geometry
        if self._pool is None:
            threads = max(1, cores() // count)
            return [UctPlayer(budget, each, geometry, threads=threads) for each in rng.spawn(count)]
        seed = int(rng.integers(2**63))
        factories = [Classic(rollouts=rollouts, geometry=geometry, seed=(seed, index)) for index in range(count)]
        return replicate_player(self._pool, factories, UctPlayer(budget, rng, geometry))


class Side(Protocol):
    """Plays for one network after another."""

    @property
    def backend(self) -> str:
        """The backend that runs the network of the latest `players`."""

    def players(self, network: Network, name: str, simulations: int) -> Sequence[Player]:
        """The network as one player for each core; they are valid until the next call."""


class LocalPlayerProvider:
    """Plays for one network after another, with one evaluator and one search a core for the whole run.

    New ones for each match would cost memory that the libraries behind them never quite give back.
    """

    def __init__(self, compute: Compute, network: Network, geometry: Geometry, rule: NetworkParameters) -> None:
        self._evaluator = compute.evaluator(network, streams=compute.streams)
        self._searches = [
            compute.search(self._evaluator, rule, geometry=geometry, reuse=REUSE, cache=CACHE)
            for _ in range(compute.streams)
        ]

    @property
    def backend(self) -> str:
        """See `Side`."""
        return self._evaluator.backend

    def load(self, network: Network) -> None:
        """Load the weights of the next `players`; this decides the backend."""
        self._evaluator.update(network)

    def players(self, network: Network, name: str, simulations: int) -> list[NetworkPlayer]:
        """See `Side`."""
        self.load(network)
        players = []
        for search in self._searches:
            budget = Budget(simulations=simulations)
            players.append(NetworkPlayer(name, self._evaluator, budget, search=search))
        return players


class PoolPlayerProvider:
    """A `LocalPlayerProvider` in each process of a pool, by the backend that the one ``here`` uses where they have it."""

    def __init__(
        self, pool: "Pool", number: int, here: LocalPlayerProvider, geometry: Geometry, rule: NetworkParameters
    ) -> None:
        self._pool, self._number, self._here = pool, number, here
        self._geometry, self._rule = geometry, rule
        self._version = 0

    @property
    def backend(self) -> str:
        """See `Side`."""
        return self._here.backend

    def players(self, network: Network, name: str, simulations: int) -> list[SearchingPoolPlayer]:
        """See `Side`."""
        self._here.load(network)
        self._version += 1
        turn = Turn(
            side=self._number,
            version=self._version,
            backend=self.backend,
            geometry=self._geometry,
            rule=self._rule,
            simulations=simulations,
            network=self._pool.share(network),
        )
        budget = Budget(simulations=simulations)
        return [SearchingPoolPlayer(self._pool, index, turn, name, budget, REUSE) for index in range(self._pool.cores)]


def make_providers(
    compute: Compute, network: Network, geometry: Geometry, rule: NetworkParameters, pool: "Pool | None"
) -> "Sequence[Side]":
    """The two sides of a run's matches, here or in the processes of a pool, with a ``network`` to begin with."""
    sides = [LocalPlayerProvider(compute, network, geometry, rule) for _ in range(2)]
    if pool is None:
        return sides
    return [PoolPlayerProvider(pool, number, side, geometry, rule) for number, side in enumerate(sides)]


_sides: dict[
    int, tuple[str, LocalPlayerProvider]
] = {}  # of this process of a pool, by number, with the backend asked for


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A `PlayerFactory` for one network's time on a side."""

    side: int  # its number
    version: int  # of its networks
    backend: str
    geometry: Geometry
    rule: NetworkParameters
    simulations: int
    network: "Shared[Network]" = field(compare=False, repr=False)

    def make(self) -> NetworkPlayer:
        """See `PlayerFactory`; whoever played on this side before, plays no more."""
        network = self.network.get().eval()
        backend, side = _sides.get(self.side, ("", None))
        if side is None or backend != self.backend:
            compute = choose("cpu", backend_or_auto(self.backend), threads=1)
            side = LocalPlayerProvider(compute, network, self.geometry, self.rule)
            _sides[self.side] = self.backend, side
        (player,) = side.players(network, "", self.simulations)
        return player


@dataclass(frozen=True, kw_only=True)
class Classic:
    """A `PlayerFactory` for classic MCTS."""

    rollouts: int
    geometry: Geometry
    seed: tuple[int, ...]

    def make(self) -> UctPlayer:
        """See `PlayerFactory`."""
        return UctPlayer(Budget(simulations=self.rollouts), np.random.default_rng(self.seed), self.geometry)
