"""Puzzles: positions where one move alone keeps the win, and where networks are tempted by another."""

from alphac4.puzzles.puzzle import Puzzle, packaged_puzzles

__all__ = ["Puzzle", "packaged_puzzles"]
