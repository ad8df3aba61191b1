"""Settings of self-play: searches, exploration and targets."""

from dataclasses import dataclass
from typing import Annotated, Literal

from alphac4.storage.records import MAX_NUMBER, MIN_POSITIVE, CheckedSettings, Range

PRIOR_TEMPERATURE = 1.0  # self-play learns from its own priors, so it does not change them
MAX_TEMPERATURE = 1e6  # far below this, moves are practically random


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig(CheckedSettings):
    """Settings of self-play.

    A full search is deep, with noise at its root. A fast search only advances the game, and its policy target has the
    weight `learning.fast_search_weight`. Positions of both are recorded, because the value is trained on both.
    """

    parallel_games: Annotated[int, Range(1, 1 << 20)] = 256
    """Games in progress at the same time, divided among the cores, at least 32 per core; with few games, some cores do
    not play (AlphaZero: 5000 actors). More games make larger batches, but the network that starts a game may be
    replaced before its end: raise `positions_per_iteration` with them."""
    full_visits: Annotated[int, Range(1, 1_000_000)] = 128
    """Root visits of a full search, those of a reused tree included (AlphaZero: 800; KataGo: 600). The time of
    self-play grows with the mean over full and fast searches, weighted by ``full_search_prob``."""
    fast_visits: Annotated[int, Range(1, 1_000_000)] = 24
    """Root visits of a fast search (KataGo: 100)."""
    full_search_prob: Annotated[float, Range(MIN_POSITIVE, 1)] = 0.25
    """Probability that a move is chosen by a full search: playout-cap randomisation (KataGo: 0.25). It must be above 0,
    because only full searches explore at the root."""
    policy_target: Literal["visits", "completed_q"] = "completed_q"
    """Policy target: "visits" is the share of visits (AlphaZero). "completed_q" is the prior improved by the search's
    values (Gumbel AlphaZero, Danihelka et al. 2022, equation 11), which is better with few simulations."""
    dirichlet_concentration: Annotated[float, Range(MIN_POSITIVE, MAX_NUMBER)] = 10.0
    """Sum of the concentrations of the root's Dirichlet noise; each legal move has an equal share of it (AlphaZero:
    about 10, which is 0.3 per move in chess)."""
    dirichlet_fraction: Annotated[float, Range(0, 1)] = 0.25
    """Share of noise in the root's priors, in full searches only (AlphaZero: 0.25)."""
    max_opening_plies: Annotated[int, Range(0, 64)] = 8
    """Maximum number of random moves at the start of a game; the number is drawn uniformly from 0 to this maximum
    (KataGo: a share of games from varied openings). It has no effect if ``opening_prob`` is 0."""
    opening_prob: Annotated[float, Range(0, 1)] = 0.5
    """Probability that a number of random moves, perhaps 0, is drawn for the start of a game; others start without."""
    temperature: Annotated[float, Range(0, MAX_TEMPERATURE)] = 1.0
    """Temperature T at the start of a game: a move is drawn in proportion to its visits to the power of 1/T (AlphaZero:
    1.0). Openings and temperature both vary the games: with many random openings, T may be lower."""
    temperature_end: Annotated[float, Range(0, MAX_TEMPERATURE)] = 0.25
    """Temperature that T approaches late in a game (AlphaZero: 0)."""
    temperature_halflife: Annotated[float, Range(MIN_POSITIVE, MAX_NUMBER)] = 10.0
    """Plies in which the difference between T and ``temperature_end`` halves (KataGo: the board's width)."""
    td_lambda: Annotated[float, Range(0, 1)] = 0.95
    """Weight of the next position's value target in this one's; the rest is the search's value.
    With 1 and a ``td_max_regret`` of 2, the target is the outcome (AlphaZero). Retune it with the temperature:
    exploring moves make outcomes less reliable."""
    td_max_regret: Annotated[float, Range(0, 2)] = 0.1
    """If a move's regret (the best move's value less its own) is above this, the rest of the game does not count for
    the value target, which is then the search's value. In searches of a few dozen simulations, the values of equally
    good moves often differ by less than 0.1. With 2, the largest regret, the rest of the game always counts
    (AlphaZero)."""

    def tree_nodes(self, max_simulations: int = 0) -> int:
        """Return the largest number of nodes of a tree; a user's budgets may reach ``max_simulations``."""
        return max(self.full_visits, self.fast_visits, max_simulations) + 2
