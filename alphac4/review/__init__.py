"""Reviews of finished games: every move judged by the exact solver, beside what a network thought."""

from alphac4.review.record import Grade, Opinion, Review, ReviewedMove, SideSummary, Verdict
from alphac4.review.reviewer import review_game

__all__ = ["Grade", "Opinion", "Review", "ReviewedMove", "SideSummary", "Verdict", "review_game"]
