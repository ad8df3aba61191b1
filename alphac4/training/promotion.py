"""Promotion: whether a candidate takes the best network's place, decided by games between the two and nothing else."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from alphac4.arena.match import MatchResult, balanced_openings, play_shared
from alphac4.arena.players import Player
from alphac4.game.rules import Geometry
from alphac4.training.config import GateConfig
from alphac4.training.reports import MatchReport, match_report


def hold_gate(
    config: GateConfig,
    candidate: Sequence[Player],
    best: Sequence[Player],
    geometry: Geometry,
    rng: np.random.Generator,
    *,
    check: Callable[[], None] = lambda: None,
    evaluator: str = "",
) -> MatchReport:
    """Let the candidate play the best network, and say in the report whether it is promoted.

    Args:
        config: how many games there are and what decides.
        candidate: the network just learned, as one player for each part of the games that is played at a time.
        best: the best network so far, as many times.
        geometry: the board.
        rng: draws the openings, each of which is played with both colours.
        check: called at every ply; may raise to end the match.
        evaluator: how both networks run, for the report.
    """
    started = time.perf_counter()
    openings = balanced_openings(config.pairs, rng, geometry)
    result = MatchResult()
    accepted, rule = None, ""
    chunk = len(openings) if config.rule.kind == "threshold" else max(10, len(openings) // 5)
    for first in range(0, len(openings), chunk):
        result += play_shared(candidate, best, openings[first : first + chunk], check=check)
        accepted, rule = config.rule.decide(result.pair_scores)
        if config.rule.kind == "sprt" and accepted is not None:
            break
    if accepted is None:
        accepted, rule = False, f"{rule}: undecided after all games, so the old one stays"
    return match_report(
        candidate[0].name, best[0].name, result, started, accepted=accepted, rule=rule, evaluator=evaluator
    )
