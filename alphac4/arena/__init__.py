"""Players of every kind, matches between them, and what the results say."""

from alphac4.arena.match import MatchResult, play_match
from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import Player, PlayerError
from alphac4.arena.ratings import GateRule
from alphac4.arena.specifications import SPECIFICATIONS, parse_player

__all__ = [
    "SPECIFICATIONS",
    "GateRule",
    "MatchResult",
    "Player",
    "PlayerError",
    "balanced_openings",
    "parse_player",
    "play_match",
]
