"""Reviews for the page."""

from typing import TYPE_CHECKING, Any

from alphac4.game import Position
from alphac4.play.web.app import WebApplication, read_object, read_text, stream_lines
from alphac4.play.web.searches import Stop
from alphac4.plugins.review.game import review_game

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from alphac4.play.web.app import WriteLine

SECONDS = 40.0  # time for judging the moves; finding better ones may take half as long again
SIMULATIONS = 100  # per position of the game


async def review(application: WebApplication, request: "Request") -> "Response":
    """Stream lines of JSON: the review so far, with the number of steps done and their total, and then the review."""
    service = application.service
    moves = Position.from_moves(read_text(await read_object(request), "moves"), service.board).moves or ""
    stop = Stop()

    def search(write: "WriteLine") -> dict[str, Any]:
        return review_game(
            moves,
            service.board,
            player=service.player(SIMULATIONS),
            seconds=SECONDS,
            on_poll=stop.check,
            on_step=lambda done, total, review: write({"done": done, "total": total, **review.to_dict()}),
        ).to_dict()

    return stream_lines(application.exact_searches, search, stop)
