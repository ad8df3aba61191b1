"""The matches of a run: a candidate against the best network, and the best network against classic MCTS."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from alphac4.arena.match import balanced_openings, play_shared
from alphac4.arena.players import Player, UctPlayer
from alphac4.compute import Pool
from alphac4.game.rules import Geometry
from alphac4.machine import cores
from alphac4.mcts.search import Budget
from alphac4.nn.network import PolicyValueNetwork
from alphac4.training.config import GateConfig
from alphac4.training.pool_side import PoolSide, classic_players
from alphac4.training.promotion import hold_gate
from alphac4.training.randomness import RunRandom
from alphac4.training.reports import MatchReport, match_report
from alphac4.training.sides import Side


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A run's network, by the iteration that made it."""

    network: PolicyValueNetwork
    iteration: int


class Matches:
    """Plays a run's matches.

    Args:
        sides: two; the best network always takes the second.
        config: how many games, how deep, and what decides.
        geometry: the board.
        random: the run's numbers.
        check: called at every ply; may raise to end a match.
        pool: processes to play in, classic MCTS as well, in place of this one.
    """

    def __init__(
        self,
        sides: Sequence[Side],
        config: GateConfig,
        geometry: Geometry,
        random: RunRandom,
        check: Callable[[], None],
        pool: Pool | None = None,
    ) -> None:
        self._sides: Sequence[Side | PoolSide] = sides
        if pool is not None:
            self._sides = [
                PoolSide(pool, number, side.backend, geometry, config.puct) for number, side in enumerate(sides)
            ]
        self._config = config
        self._geometry = geometry
        self._random = random
        self._check = check
        self._pool = pool

    def gate(self, candidate: Contender, best: Contender) -> MatchReport:
        """The match that decides whether the candidate becomes the best network."""
        config, iteration = self._config, candidate.iteration
        return hold_gate(
            config,
            self._players(0, candidate, config.simulations),
            self._players(1, best, config.simulations),
            self._geometry,
            self._random.generator(iteration, "openings"),
            check=self._check,
            evaluator=self._sides[0].backend,
        )

    def regular(self, best: Contender, iteration: int) -> list[MatchReport]:
        """The matches against classic MCTS that are due after an iteration."""
        every = self._config.classic_every
        return (
            self._against_classic(best, iteration, self._config.classic_pairs)
            if every and iteration % every == 0
            else []
        )

    def closing(self, best: Contender, iteration: int) -> list[MatchReport]:
        """Those that close a run, as if after one more ``iteration``."""
        return self._against_classic(best, iteration, self._config.closing_pairs)

    def _against_classic(self, best: Contender, iteration: int, pairs: int) -> list[MatchReport]:
        """The best network against every budget of classic MCTS, a measure that does not move with the run."""
        reports = []
        for rollouts in self._config.classic_rollouts:
            started = time.perf_counter()
            openings = balanced_openings(
                pairs, self._random.generator(iteration, "classic openings", rollouts), self._geometry
            )
            ours = self._players(1, best, self._config.classic_simulations)
            classic = self._classic_players(rollouts, len(ours), self._random.generator(iteration, "classic", rollouts))
            result = play_shared(ours, classic, openings, check=self._check)
            names = ours[0].name, classic[0].name
            reports.append(match_report(*names, result, started, evaluator=self._sides[1].backend))
        return reports

    def _classic_players(self, rollouts: int, count: int, rng: np.random.Generator) -> Sequence[Player]:
        """Classic MCTS, as many times as there are players of a network."""
        if self._pool is not None:
            return classic_players(self._pool, rollouts, self._geometry, rng)
        threads, budget = max(1, cores() // count), Budget(simulations=rollouts)
        return [UctPlayer(budget, each, self._geometry, threads=threads) for each in rng.spawn(count)]

    def _players(self, side: int, contender: Contender, simulations: int) -> Sequence[Player]:
        return self._sides[side].players(contender.network, f"iteration {contender.iteration}", simulations)
