"""Reviews of the exported page, in Node.js, against those in Python."""

import numpy as np
import pytest
from helpers import DRAWN, LATE, SumsOfEighths
from page_node import ENGINE, NODE, SOLVER, RunInNode, columns_of, random_positions, weights

from alphac4.arena.players import NetworkPlayer
from alphac4.game import Position
from alphac4.game.rules import STANDARD, canonical_key
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.search import Budget
from alphac4.plugins.review.game import review_game
from alphac4.solver.solver import TimeIsUp
from examples import Counting, LateSolver

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")
SIMULATIONS = 50  # per position of a review, also in docs/play.md
REVIEW = """
import { reviewGame } from "./review/reviewer.js";
const reviews = [];
for (const moves of games) {
  const first = solver.score(board.at(moves.slice(0, given.late))), asked = [];
  const score = async (position) => {
    const stones = position.occupied.toString(2).replaceAll("0", "").length;
    return stones < given.late ? first * (-1) ** stones : solver.score(position);
  };
  const opinion = async (before) => {
    asked.push(before.length);
    return { value: before.length / 100, column: 3 };
  };
  const lines = [];
  for await (const line of reviewGame(moves, setup, { score, opinion })) lines.push(line);
  const progress = lines.slice(0, -1).map(({ reviewed }) => reviewed.map(({ grade }) => grade));
  reviews.push({ ...lines.at(-1), asked, progress });
}
tell(reviews);
"""


def test_reviews_of_the_page_agree(run_in_node: RunInNode) -> None:
    """Grades, texts, better moves, lines, accuracies and opinions of games with mistakes, finished or not."""
    positions = [Position.from_moves(DRAWN), *random_positions([20, 24, 28, 32, 42, 42, 42])]
    assert {position.outcome() for position in positions} == {None, 0, -1}
    games = [position.moves for position in positions if position.plies >= LATE]
    found = run_in_node(SOLVER + REVIEW, games=columns_of(games), late=LATE)
    for game, actual in zip(games, found, strict=True):
        player = Counting()
        expected = review_game(game, player=player, solver=LateSolver(game)).to_dict()  # type: ignore[arg-type]
        for move in expected["reviewed"]:
            del move["opinion"]["prior"]
        for name in ("moves", "mistakes", "mistakes_without_better", "unjudged", "reviewed", "values"):
            assert actual[name] == expected[name], (game, name)
        assert actual["asked"] == player.asked  # without the end of a finished game
        grades = [move["grade"] for move in actual["reviewed"]]
        for so_far in actual["progress"]:
            known = [grade for grade in so_far if grade != "unknown"]
            assert so_far == ["unknown"] * (len(grades) - len(known)) + grades[len(grades) - len(known) :]
        assert actual["progress"][-1] == grades
        for name in ("accuracy", "best", "judged", "mistakes"):
            assert [side[name] for side in actual["sides"]] == pytest.approx([side[name] for side in expected["sides"]])
    grades = {move["grade"] for review in found for move in review["reviewed"]}
    assert grades == {"best", "keeps", "loses-win", "loses-draw", "win-to-loss"}


LATE_REVIEW = """
import { reviewGame } from "./review/reviewer.js";
const score = (position, signal) => {
  const stones = position.occupied.toString(2).replaceAll("0", "").length;
  if (stones >= given.late) return Promise.resolve(solver.score(position));
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
};
const kept = setInterval(() => {}, 1000); // the process would end before the time limit
let review;
for await (review of reviewGame(games[0], setup, { score, seconds: 0.5 }));
clearInterval(kept);
tell(review);
"""


def test_review_of_the_page_has_a_time_limit(run_in_node: RunInNode) -> None:
    """Positions with fewer stones are not solved; moves from them are not judged, as in Python."""
    game, late = "63727142437365341532", LATE

    class Late(LateSolver):
        def solve(self, position: Position, on_poll: object) -> int:
            if position.plies < late:
                raise TimeIsUp
            return super().solve(position, on_poll)

    found = run_in_node(SOLVER + LATE_REVIEW, games=columns_of([game]), late=late)
    expected = review_game(game, solver=Late(game)).to_dict()  # type: ignore[arg-type]
    assert found["unjudged"] == expected["unjudged"] == late
    for name in ("mistakes", "mistakes_without_better", "reviewed"):
        assert found[name] == expected[name]


IN_THE_ENGINE = """
import { requestReview } from "./review/source.js";
tell(await last(requestReview(engine, given.reviewed, signal)));
process.exit(); // despite its workers
"""


def test_review_by_the_engine_has_the_networks_opinions(run_in_node: RunInNode) -> None:
    """The book has the early positions of the game."""
    game, evaluator = "4342346766737316276542637143", SumsOfEighths(STANDARD)
    solver, early = LateSolver(game), [Position.from_moves(game[:ply]) for ply in range(LATE)]
    book = {int(canonical_key(STANDARD, p.own, p.occupied)): solver.solve(p, None) for p in early}
    sorted_book = {"keys": sorted(book), "scores": [book[key] for key in sorted(book)], "plies": LATE - 1}
    files = {"network.onnx": weights(evaluator), "proofs.json": [], "book.json": sorted_book}
    found = run_in_node(ENGINE + IN_THE_ENGINE, files=files, games=[], reviewed=game)
    search = NetworkSearch(evaluator, rng=np.random.default_rng(0))
    player = NetworkPlayer("network", search, Budget(simulations=SIMULATIONS))
    expected = review_game(game, player=player, solver=solver).to_dict()  # type: ignore[arg-type]
    assert found["values"] == pytest.approx(expected["values"], abs=1e-3)
    for actual, move in zip(found["reviewed"], expected["reviewed"], strict=True):
        assert (actual["played"], actual["opinion"]["move"]) == (move["played"], move["opinion"]["move"])
        assert actual["opinion"]["value"] == pytest.approx(move["opinion"]["value"], abs=1e-3)


KEPT = """
import { KeptReviews } from "./review/kept.js";
const stored = new Map(), review = (moves, values) => ({ moves, reviewed: [], values });
const storage = { getItem: (key) => stored.get(key) ?? null, setItem: (key, text) => stored.set(key, text) };
const fail = () => { throw new Error("disabled"); };
Object.defineProperty(globalThis, "localStorage", { get: () => (given.disabled ? fail() : storage) });
const first = new KeptReviews(setup), second = new KeptReviews(setup);
stored.set(first.key, '[{"moves": "9"}, 5, null]');
for (let count = 1; count <= 25; count++) (count % 2 ? first : second).keep(review("1".repeat(count), [0]));
first.keep(review("11111111", [1]));
const lengths = (kept) => kept.all.map(({ moves }) => moves.length);
tell({
  own: lengths(first), later: lengths(new KeptReviews(setup)), value: first.find("11111111").values[0],
  other: lengths(new KeptReviews({ ...setup, rows: 5 })),
});
"""


@pytest.mark.parametrize("disabled", [False, True], ids=["storage", "no storage"])
def test_the_latest_reviews_are_kept(disabled: bool, run_in_node: RunInNode) -> None:
    """Two tabs share their reviews, and entries of other versions are skipped.

    Without storage, a tab keeps its own reviews until it is closed.
    """
    found = run_in_node(KEPT, games=[], disabled=disabled)
    assert found["value"] == 1
    assert found["other"] == []
    assert found["own"] == [8, *(n for n in range(25, 0, -1) if n != 8 and (n % 2 or not disabled))][:20]
    assert found["later"] == ([] if disabled else found["own"])
