"""What a player expects after each move, in a review by the exported page, against ours."""

from pathlib import Path

import pytest
from test_page_solver import NODE, run_in_node
from test_review import Counting

from alphac4.review import review_game

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")

# The opinions of `Counting`, and a judge who finds everything drawn.
REVIEW = """
import { reviewGame } from "./reviewer.js";
const told = [];
for (const moves of games) {
  const asked = [], opinion = async (before) => {
    asked.push(before.length);
    return { value: before.length / 100, column: 3 };
  };
  let review;
  for await (const line of reviewGame(moves, setup, { score: async () => 0, opinion })) review = line;
  told.push({ asked, values: review.values, opinions: review.reviewed.map((move) => move.opinion.value) });
}
console.log(JSON.stringify(told));
"""
FULL = "121212343434565656212121434343656565777777"
GAMES = {"unfinished": "11223", "won by red": "1122334", "won by yellow": "61121314", "full": FULL}


def test_the_exported_page_asks_about_the_last_position_too(tmp_path: Path) -> None:
    """Unless the game is over; then the outcome stands for its opinion."""
    found = run_in_node(tmp_path, REVIEW, list(GAMES.values()))
    for (name, game), told in zip(GAMES.items(), found, strict=True):
        player = Counting()
        ours = review_game(game, player=player, seconds=0).to_dict()  # type: ignore[arg-type]
        assert told["asked"] == player.asked, name
        assert told["values"] == ours["values"], name
        assert told["opinions"] == [move["opinion"]["value"] for move in ours["reviewed"]], name
    assert [told["values"][-1] for told in found] == [-0.05, 1, -1, 0]
