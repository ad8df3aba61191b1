"""How self-play searches, explores and records."""

from dataclasses import dataclass, field
from typing import Literal

from alphac4.mcts.puct import PuctConfig
from alphac4.storage.records import check_finite, check_ranges


@dataclass(frozen=True, kw_only=True)
class SelfPlayConfig:
    """Settings of self-play.

    A "full" search is deep, and its policy counts in full; a "fast" one is there to play on, and its policy counts
    `learning.fast_weight`.
    """

    games: int = 256
    """Games in lockstep, shared out over the actors (AlphaZero: 5000 actors; here one batch a core)."""
    device_games: int = 8192
    """The same where trees and network are both on a GPU, which wants many more."""
    device_streams: int = 2
    """Parts that they are split into there: while one part's trees grow, the network evaluates another's leaves."""
    full_simulations: int = 128
    """Root visits of a full search, those kept from the last move included (AlphaZero: 800; KataGo: 600)."""
    fast_simulations: int = 24
    """Root visits of a fast search (KataGo: 100)."""
    full_share: float = 0.25
    """Share of moves searched in full: playout-cap randomisation (KataGo: 0.25)."""
    record_fast: bool = True
    """Keep the positions of fast searches as well, for the value, and for the policy with `learning.fast_weight`."""
    proven_share: float = 1.0
    """Share of the positions that is recorded where the search has proven the outcome. A smaller one makes room for
    others, but in both trials values became worse (EXPERIMENTS.md)."""
    learn_proofs: bool = False
    """Let the policy learn from fast searches too where they have proven the root's outcome: the fastest win or the
    slowest loss is then exact, however small the search."""
    evaluation_cache: int = 2**18
    """Evaluations that each actor on a core keeps, so that few positions go through the same weights twice (64 bytes
    each on the standard board); 0 keeps none. It changes how long games take, not how they are played."""
    policy_target: Literal["visits", "completed_q"] = "completed_q"
    """What the policy learns: shares of visits (AlphaZero), or the prior improved by the values found
    (Gumbel AlphaZero, Danihelka et al. 2022, equation 11), which says more when visits are few."""
    completed_q_scale: float = 0.1
    """Weight of the values in an improved policy: Gumbel's c_scale (paper: 1.0 for board games, 0.1 elsewhere)."""
    completed_q_visits: float = 50.0
    """Gumbel's c_visit (paper: 50)."""
    root_value: Literal["mean", "best"] = "mean"
    """What a search says its position is worth: the mean of all evaluations, exploring ones and noise included
    (AlphaZero), or that of the move it would play (Leela Chess Zero's best_q), which is nearer to exact play."""
    gumbel_actions: int = 0
    """Moves that sequential halving considers at the root in a full search; 0 searches the root by PUCT with
    Dirichlet noise instead (Gumbel AlphaZero: 16)."""
    noise_concentration: float = 10.0
    """Total concentration of the root's Dirichlet noise, shared by the legal moves (AlphaZero: 10 / legal moves)."""
    noise_fraction: float = 0.25
    """Share of noise in the root's priors, in full searches (AlphaZero: 0.25)."""
    opening_plies: int = 8
    """Games start after 0 to this many random moves (KataGo: a share of games from varied openings)."""
    opening_share: float = 0.5
    """Share of games that start with random moves; the others start from the empty board."""
    fork_share: float = 0.0
    """Share of games that leave the slot's previous game at a random ply by a random move: positions beside the lines
    that self-play prefers, which it would not see (KataGo: forks of 4 % of games; Go-Exploit, Trudeau and Bowling 2023,
    arXiv 2302.12359, starts most games from an archive of visited positions)."""
    fork_by: Literal["uniform", "regret"] = "uniform"
    """Where forks leave: at any ply alike, or the more likely the further the search's value was from the outcome of
    the game, where there is something to learn (regret-guided search control, arXiv 2602.20809)."""
    fork_plies: int = 24
    """Forks leave within this many plies of the start; search finds later errors by itself."""
    temperature: float = 1.0
    """Temperature T at the start: a move is drawn in proportion to its visits to the power of 1/T (AlphaZero: 1.0)."""
    temperature_end: float = 0.25
    """The same late in the game (AlphaZero: 0)."""
    temperature_halflife: float = 10.0
    """Plies in which the temperature falls half-way to its end (KataGo: the board's width)."""
    trace_decay: float = 0.95
    """Weight a ply of what follows in the game against a position's own search, in the value target: TD(lambda)'s
    lambda (AlphaZero: 1, the outcome)."""
    trace_tolerance: float = 0.1
    """A move that looked worse than the best by more than this value was made to explore: what follows it does not
    count for the positions before it (AlphaZero: everything counts, 2)."""
    puct: PuctConfig = field(default_factory=lambda: PuctConfig(prior_temperature=1.0))
    """Exploration in the tree."""

    def __post_init__(self) -> None:
        check_finite(self)
        check_ranges(
            self,
            games=(1, 1 << 20),
            device_games=(1, 1 << 24),
            device_streams=(1, 64),
            full_simulations=(1, 1_000_000),
            fast_simulations=(1, 1_000_000),
            gumbel_actions=(0, 64),
            opening_plies=(0, 64),
            fork_plies=(0, 64),
        )
        for name in ("noise_concentration", "temperature_halflife"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")
        for name in ("full_share", "noise_fraction", "opening_share", "fork_share", "proven_share", "trace_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be within 0 and 1, not {getattr(self, name)}")
        if self.full_share == 0:
            raise ValueError("full_share must be above 0: only full searches explore at the root")
        if self.temperature < 0 or self.temperature_end < 0:
            raise ValueError("temperatures must not be negative")
        if self.evaluation_cache < 0:
            raise ValueError(f"evaluation_cache must not be negative, not {self.evaluation_cache}")
