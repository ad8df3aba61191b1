"""Reviews of games: `alphac4 review`, the same command in a game in the terminal, and a panel of the page."""

from pathlib import Path

from alphac4.commands import register_command
from alphac4.play.registry import Panel, register_panel, register_terminal_command

_FOLDER = Path(__file__).parent
_SUMMARY = "judge every move of a game and show the mistakes"

register_command("review", group="Play", summary=_SUMMARY, target="alphac4.plugins.review.command:ReviewCommand")
register_terminal_command(
    "review",
    summary="judge every move so far by the exact solver",
    target="alphac4.plugins.review.command:review_session",
)
register_panel(
    Panel(
        name="review",
        folder=_FOLDER / "page",
        offline_folder=_FOLDER / "offline",
        handler="alphac4.plugins.review.server:review",
    )
)
