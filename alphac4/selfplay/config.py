"""Settings of self-play: searches, exploration and targets."""

from dataclasses import dataclass
from typing import Literal

from alphac4.mcts.config import PuctConfig, check_puct
from alphac4.storage.records import MAX_NUMBER, MIN_POSITIVE, check_ranges

PRIOR_TEMPERATURE = 1.0  # self-play learns from its own priors, so it does not change them
MAX_TEMPERATURE = 1e6  # moves are practically random far below


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig:
    """Settings of self-play.

    A full search is deep, with noise at its root. A fast search only advances the game, and its policy target has the
    weight `learning.fast_search_weight`. Positions of both are recorded, because the value is learned from both.
    """

    games: int = 256
    """Games in progress at the same time, divided among the cores; a core plays only if it gets at least 32 (AlphaZero:
    5000 actors). More games make larger batches, but the network that starts a game may be replaced before its end:
    raise `samples` with them."""
    full_simulations: int = 128
    """Root visits of a full search, those of a reused tree included (AlphaZero: 800; KataGo: 600). The time of
    self-play grows with the mean over full and fast searches, weighted by ``full_search_prob``."""
    fast_simulations: int = 24
    """Root visits of a fast search (KataGo: 100)."""
    full_search_prob: float = 0.25
    """Probability that a move is chosen by a full search: playout-cap randomisation (KataGo: 0.25)."""
    policy_target: Literal["visits", "completed_q"] = "completed_q"
    """Policy target: shares of visits (AlphaZero), or the prior improved by the search's values (Gumbel AlphaZero,
    Danihelka et al. 2022, equation 11), which is better with few simulations."""
    dirichlet_alpha: float = 10.0
    """Total concentration of the root's Dirichlet noise, divided by the number of legal moves (AlphaZero: about 10,
    which is 0.3 per move in chess)."""
    dirichlet_fraction: float = 0.25
    """Share of noise in the root's priors, in full searches only (AlphaZero: 0.25)."""
    opening_plies: int = 8
    """Maximum number of random moves before a game, drawn uniformly from 0 on (KataGo: a share of games from varied
    openings). It has no effect if ``opening_prob`` is 0."""
    opening_prob: float = 0.5
    """Probability that a game starts with random moves; the others start from the empty board."""
    temperature: float = 1.0
    """Temperature T at the start of a game: a move is drawn in proportion to its visits to the power of 1/T (AlphaZero:
    1.0). Openings and temperature both vary the games: with many random openings it may be lower."""
    temperature_end: float = 0.25
    """Temperature that T approaches late in a game (AlphaZero: 0)."""
    temperature_halflife: float = 10.0
    """Plies in which the difference between T and ``temperature_end`` halves (KataGo: the board's width)."""
    td_lambda: float = 0.95
    """Weight per ply of the rest of the game, against a position's own search, in the value target (AlphaZero: 1, the
    outcome). Retune it with the temperature: exploring moves make outcomes less reliable."""
    c_init: float = 1.25
    """Weight of the prior in searches of self-play, the gate and all matches; `PuctConfig` has the formula (AlphaZero
    2018: 1.25)."""

    def __post_init__(self) -> None:
        check_ranges(
            self,
            games=(1, 1 << 20),
            full_simulations=(1, 1_000_000),
            fast_simulations=(1, 1_000_000),
            opening_plies=(0, 64),
            dirichlet_alpha=(MIN_POSITIVE, MAX_NUMBER),
            dirichlet_fraction=(0, 1),
            opening_prob=(0, 1),
            td_lambda=(0, 1),
            full_search_prob=(0, 1),
            temperature=(0, MAX_TEMPERATURE),
            temperature_end=(0, MAX_TEMPERATURE),
            temperature_halflife=(MIN_POSITIVE, MAX_NUMBER),
        )
        if self.full_search_prob == 0:
            raise ValueError("full_search_prob must be above 0, because only full searches explore at the root")
        self.puct()

    def puct(self, prior_temperature: float | None = None) -> PuctConfig:
        """Return the search parameters of matches and measurements; self-play passes its own ``prior_temperature``."""
        puct = PuctConfig(c_init=self.c_init)
        return check_puct(puct if prior_temperature is None else puct._replace(prior_temperature=prior_temperature))
