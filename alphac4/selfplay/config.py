"""Settings of self-play: searches, exploration, records."""

from dataclasses import dataclass
from typing import Literal

from alphac4.mcts.config import PuctConfig, check_puct
from alphac4.storage.records import check_finite, check_ranges

PRIOR_TEMPERATURE = 1.0  # self-play learns from its own priors, so it leaves them as the network gives them
MAX_TEMPERATURE = 1e6  # moves are as good as random far below


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig:
    """Settings of self-play.

    A "full" search is deep, and its policy counts in full; a "fast" one is there to play on, and its policy counts
    `learning.fast_search_weight`. Positions of both are recorded, since the value is learned from either.
    """

    games: int = 256
    """Games in progress at once, divided among the cores; a core plays only if it gets at least 32 (AlphaZero: 5000
    actors)."""
    full_simulations: int = 128
    """Root visits of a full search, those kept from the last move included (AlphaZero: 800; KataGo: 600)."""
    fast_simulations: int = 24
    """Root visits of a fast search (KataGo: 100)."""
    full_search_prob: float = 0.25
    """Probability that a move is searched in full: playout-cap randomisation (KataGo: 0.25)."""
    policy_target: Literal["visits", "completed_q"] = "completed_q"
    """Target of the policy: shares of visits (AlphaZero), or the prior improved by the values found
    (Gumbel AlphaZero, Danihelka et al. 2022, equation 11), which says more when visits are few."""
    dirichlet_alpha: float = 10.0
    """Total concentration of the root's Dirichlet noise, shared by the legal moves (AlphaZero: about 10, which is 0.3 a
    move in chess)."""
    dirichlet_fraction: float = 0.25
    """Share of noise in the root's priors, in full searches (AlphaZero: 0.25)."""
    opening_plies: int = 8
    """Games start after 0 to this many random moves (KataGo: a share of games from varied openings)."""
    opening_prob: float = 0.5
    """Probability that a game starts with random moves; the others start from the empty board."""
    temperature: float = 1.0
    """Temperature T at the start: a move is drawn in proportion to its visits to the power of 1/T (AlphaZero: 1.0)."""
    temperature_end: float = 0.25
    """The same late in the game (AlphaZero: 0)."""
    temperature_halflife: float = 10.0
    """Plies in which the temperature falls half-way to its end (KataGo: the board's width)."""
    td_lambda: float = 0.95
    """Weight a ply of what follows in the game against a position's own search, in the value target
    (AlphaZero: 1, the outcome)."""
    c_init: float = 1.25
    """Weight of the network's prior in a search, also in the gate and all matches; `PuctConfig` has the formula
    (AlphaZero 2018: 1.25)."""

    def __post_init__(self) -> None:
        check_finite(self)
        check_ranges(
            self,
            games=(1, 1 << 20),
            full_simulations=(1, 1_000_000),
            fast_simulations=(1, 1_000_000),
            opening_plies=(0, 64),
            dirichlet_fraction=(0, 1),
            opening_prob=(0, 1),
            td_lambda=(0, 1),
            full_search_prob=(0, 1),
            temperature=(0, MAX_TEMPERATURE),
            temperature_end=(0, MAX_TEMPERATURE),
        )
        if self.full_search_prob == 0:
            raise ValueError("full_search_prob must be above 0: only full searches explore at the root")
        for name in ("dirichlet_alpha", "temperature_halflife"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        self.puct()

    def puct(self, prior_temperature: float | None = None) -> PuctConfig:
        """Return how matches and measurements search; self-play passes its own ``prior_temperature``."""
        puct = PuctConfig(c_init=self.c_init)
        return check_puct(puct if prior_temperature is None else puct._replace(prior_temperature=prior_temperature))
