"""Players of every kind, matches between them, and what the results say."""

from alphac4.arena.match import MatchResult, play_match
from alphac4.arena.openings import balanced_openings
from alphac4.arena.players import Player, PlayerError, parse_player
from alphac4.arena.ratings import GateRule

__all__ = ["GateRule", "MatchResult", "Player", "PlayerError", "balanced_openings", "parse_player", "play_match"]
