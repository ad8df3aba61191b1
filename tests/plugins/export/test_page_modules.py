"""Rules, search, solver and engine of the exported page, in Node.js, against those in Python."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from helpers import DRAWN, SumsOfEighths
from naive import board_of, minimax
from page_node import ENGINE, NODE, SOLVER, RunInNode, columns_of, random_positions, weights

from alphac4.evaluation.positions import packaged_positions
from alphac4.game import Board, Position, make_board
from alphac4.game.planes import PLANES, make_planes, stones
from alphac4.game.position import describe_bound, percents
from alphac4.game.reasons import strength, weakness
from alphac4.game.rules import STANDARD, canonical_keys
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.results import SearchResult, describe_proof
from alphac4.mcts.search import Budget
from alphac4.play.web.pages import describe_search
from alphac4.plugins.export import web
from alphac4.solver import shared_solver
from alphac4.solver.solver import exact

pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")


RULES = """
import { Rules } from "./rules.js";
import { describeProof } from "./search.js";
const rules = new Rules(setup);
const answers = games.map((text) => {
  const moves = rules.read(text), { own, occupied } = rules.at(moves), winning = rules.winning(own, occupied);
  return {
    written: rules.write(moves), result: rules.result(moves), legal: rules.legal(moves),
    wins: rules.legal(moves).filter((column) => winning & rules.landing(occupied, column)),
  };
});
tell({ answers, wrong: given.wrong.map((text) => rules.read(text)), words: given.proofs.map(describeProof) });
"""


@pytest.mark.parametrize(
    "board",
    [STANDARD, make_board(4, 12, 4), make_board(3, 4, 3, False)],
    ids=["standard", "twelve columns", "no diagonals"],
)
def test_rules_of_the_page_agree_on_every_board(board: Board, run_in_node: RunInNode) -> None:
    positions = random_positions(np.linspace(1, board.cells, 200).astype(int), board)
    beyond = "123456789abcdefghijklmnopqrstuvwxyz"[board.columns]
    wrong, proofs = [beyond, "0", "x y", "1" * (board.rows + 1)], list(range(-128, 128))
    games = [position.moves for position in positions]
    found = run_in_node(RULES, board, games=games, wrong=wrong, proofs=proofs)
    assert found["wrong"] == [None] * len(wrong)
    assert found["words"] == [describe_proof(proof) for proof in proofs]
    for position, answer in zip(positions, found["answers"], strict=True):
        assert answer["written"] == position.moves
        outcome = position.outcome()
        if outcome is None:
            assert answer["result"] is None
            assert answer["legal"] == position.legal_columns()
            assert answer["wins"] == [c for c in position.legal_columns() if position.play(c).outcome() == -1]
        else:
            assert answer["legal"] == []
            assert answer["result"]["winner"] == (None if outcome == 0 else 1 - position.plies % 2)
    assert 10 < sum(position.outcome() is not None for position in positions) < 190


def test_whole_per_cents_add_up_as_in_the_page(run_in_node: RunInNode) -> None:
    rng = np.random.default_rng(1)
    shares = [rng.dirichlet(np.ones(size)).tolist() for size in [1, 2, 3, 7] * 50]
    shares += [[0.085, 0.02, 0.895], [0.335, 0.335, 0.33], [0.625], [1 / 3] * 3, [0.0]]
    found = run_in_node('import { percents } from "./dom.js"; tell(given.shares.map(percents))', shares=shares)
    for parts, texts in zip(shares, found, strict=True):
        assert [text.replace("\u00a0", " ") for text in texts] == percents(parts)
        numbers = [int(text.removesuffix("\u00a0%")) for text in texts]
        assert sum(numbers) == np.floor(100 * sum(parts) + 0.5)
        assert all(abs(number - 100 * part) < 1 for number, part in zip(numbers, parts, strict=True))


REASONS = """
import { Reasons } from "./reasons.js";
import { Rules } from "./rules.js";
const rules = new Rules(setup), reasons = new Reasons(rules);
tell(games.map((moves) => ({
  threats: rules.threats(moves),
  reasons: rules.legal(moves).map((column) => [reasons.strength(moves, column), reasons.weakness(moves, column)]),
})));
"""


def test_threats_and_reasons_of_the_page_agree(run_in_node: RunInNode) -> None:
    rare = ["5321571572542777765514", "25777131474464721", "532157157254"]  # reasons of all kinds occur
    positions = [*map(Position.from_moves, rare), *random_positions(np.linspace(8, 42, 60).astype(int))]
    found = run_in_node(REASONS, games=columns_of(position.moves or "" for position in positions))
    stated = ""
    for position, answer in zip(positions, found, strict=True):
        legal = position.legal_columns()
        assert answer["reasons"] == [[strength(position, c), weakness(position, c)] for c in legal], position
        _, _, own, other, *_ = make_planes(STANDARD, *stones([position]), PLANES["lines"])[0]
        sides = zip((own, other), (position.plies % 2, 1 - position.plies % 2), strict=True)
        cells = [(column, row, side) for plane, side in sides for row, column in np.argwhere(plane).tolist()]
        assert {(each["column"], each["row"], each["side"]) for each in answer["threats"]} == set(
            cells if legal else []
        )
        stated += str(answer["reasons"])
    for kind in ("completes", "at once", "one above", "answer", "forces", "stops", "must", "prevents", "above it"):
        assert kind in stated


ORDERS = """
import { Rules } from "./rules.js";
const rules = new Rules(setup), orders = given.stones.map((grid) => rules.movesTo(grid));
tell(orders.map((moves) => moves && rules.write(moves)));
"""


def test_page_finds_moves_to_all_stones_that_a_game_can_leave_and_to_no_others(run_in_node: RunInNode) -> None:
    """All stones on a small board, against all games on it."""
    board = make_board(3, 3, 3)

    def columns(position: Position) -> str:
        """Write the owners of the stones from the bottom up, column by column."""
        return "/".join("".join(str(cell - 1) for cell in column if cell) for column in position.grid().T)

    reached, layer = set(), {"//": Position(board=board)}
    while layer:
        reached |= layer.keys()
        following = (position.play(column) for position in layer.values() for column in position.legal_columns())
        layer = {columns(position): position for position in following}
    stacks = ["".join(stack) for height in range(4) for stack in itertools.product("01", repeat=height)]
    grids = ["/".join(grid) for grid in itertools.product(stacks, repeat=3)]
    orders = run_in_node(ORDERS, board, games=[], stones=[[list(map(int, s)) for s in g.split("/")] for g in grids])
    assert {grid for grid, moves in zip(grids, orders, strict=True) if moves is not None} == reached
    for grid, moves in zip(grids, orders, strict=True):
        assert moves is None or columns(Position.from_moves(moves, board)) == grid
    assert 100 < len(reached) < len(grids)


SEARCH = """
import { evaluator } from "./onnxruntime/ort.wasm.bundle.min.mjs";
import { Search, sample } from "./search.js";
const { simulations } = given, evaluate = evaluator(given.network);
const results = [];
for (const line of games) {
  const search = new Search(setup, evaluate);
  for (const moves of line.length ? [[], line] : [[]]) { // the second search reuses the tree
    search.plant(moves);
    await search.run(simulations);
    results.push({
      visits: [...search.root.visits], best: search.best(), value: search.root.mean(), wdl: search.wdl(),
      variation: search.variation(), proofs: [...search.root.proof],
    });
  }
}
const drawn = [0, 0, 0];
const weights = [1, 2, 3].map(Math.log);
for (let i = 0; i < 1400; i++) drawn[sample([0, 1, 2], weights, 0.5, () => (i + 0.5) / 1400)] += 1;
tell({ results, drawn, sure: sample([4, 5], [1, 2], 0) });
"""


@pytest.mark.parametrize("board", [STANDARD, make_board(5, 6, 4, False)])
def test_search_of_the_page_agrees(board: Board, run_in_node: RunInNode) -> None:
    """Visits, moves, proofs, values and variations, with new and with reused trees."""
    evaluator, simulations = SumsOfEighths(board), 150
    lines = ["", "44", "1122", "1212", "3344", "15254", "4444", "112233"]
    network = weights(evaluator)
    answer = run_in_node(SEARCH, board, network=network, games=columns_of(lines), simulations=simulations)
    found = iter(answer["results"])
    for line in lines:
        search = NetworkSearch(evaluator, board=board, rng=np.random.default_rng(0), reuse="trees")
        for start in dict.fromkeys(("", line)):
            expected = search.search([Position.from_moves(start, board)], Budget(simulations=simulations))
            result = next(found)
            assert result["visits"] == expected.visits[0].tolist()
            assert result["proofs"] == expected.proofs[0].tolist()
            assert result["best"] == expected.moves[0]
            assert result["variation"][:20] == expected.variations[0]
            assert result["value"] == pytest.approx(expected.value[0], abs=1e-6)
            assert result["wdl"] == pytest.approx(expected.wdl[0], abs=1e-5)
    assert next(found, None) is None
    assert answer["drawn"] == [100, 400, 900]
    assert answer["sure"] == 5


SOLVE = """
import { Judge } from "./judge.js";
class InOneThread extends Judge {
  async score(position) { return solver.score(position); }
}
const judge = new InOneThread(setup, given.book), verdicts = [];
for (const moves of games) verdicts.push(await judge.columns(moves));
const weak = given.middle.map((moves) => Math.sign(solver.score(board.at(moves), true)));
const [first, second] = given.paused.map((moves) => board.at(moves));
const paused = solver.advance(first) === null;
solver.abandon(); // the next position must not continue this search
tell({ verdicts, weak, paused, answers: [solver.score(second), solver.score(first)] });
"""


def test_solver_of_the_page_agrees(run_in_node: RunInNode) -> None:
    """Scores, texts and best columns from the opening, by its book, to the last stone; and outcomes only.

    After a paused search is abandoned, the next position and the abandoned one have their own results.
    """
    openings = ["", "4", "7", "444", "172"]
    late = [position.moves for position in packaged_positions()[-1].positions[::5]]
    unfinished = [p.moves for p in random_positions(np.linspace(16, 42, 400).astype(int)) if p.outcome() is None]
    assert len(unfinished) >= 50
    games = [*openings, *late, *unfinished, DRAWN[:-1]]
    middle = [position.moves for position in random_positions(np.linspace(12, 30, 60).astype(int))]
    given = {"games": games, "middle": middle, "paused": ["12345671", "4444452226671"]}
    columns = {name: columns_of(some) for name, some in given.items()}
    found = run_in_node(SOLVER + SOLVE, **columns, book=web.book())
    for game, verdicts in zip(games, found["verdicts"], strict=True):
        assert verdicts == [
            {"column": item.column, "score": item.score, "outcome": item.text, "best": item.is_best}
            for item in exact(Position.from_moves(game))
        ], game
    scores = {moves: shared_solver(STANDARD).solve(Position.from_moves(moves)) for moves in middle + given["paused"]}
    assert found["weak"] == [int(np.sign(scores[moves])) for moves in middle]
    assert found["paused"]
    assert found["answers"] == [scores[moves] for moves in reversed(given["paused"])]


QUEUE = """
import { Judge } from "./judge.js";
globalThis.Worker = class { postMessage() {} }; // never answers
Object.defineProperty(globalThis, "navigator", { value: { hardwareConcurrency: 1 } });
const judge = new Judge(setup, given.book), running = new AbortController(), queued = new AbortController();
const signals = [running.signal, queued.signal, AbortSignal.abort()];
const results = signals.map((signal) => judge.score({}, signal).catch((error) => error.name));
const last = await results[2];
queued.abort();
const second = await results[1];
running.abort();
tell({ names: [await results[0], second, last], waiting: judge.waiting.length, idle: judge.idle.length });
"""


def test_waiting_and_running_positions_of_the_solver_can_be_stopped(run_in_node: RunInNode) -> None:
    found = run_in_node(QUEUE, book=web.book())
    assert found == {"names": ["AbortError"] * 3, "waiting": 0, "idle": 1}


WITHOUT_SOLVER = """
for (const moves of games) answers.push({
  analysis: await last(engine.analyze(moves, given.simulations, signal)),
  hint: await engine.hint(moves, signal), proof: (await engine.proof(moves)).result,
  expert: await play(moves, "expert"), master: await play(moves, "master"),
});
tell(answers);
process.exit(); // despite its workers
"""


def proof(position: Position) -> tuple[int, int] | None:
    """Return a winning column and the plies to the win by minimax on 4 x 4; None if the side to move does not win."""
    outcome, plies = minimax(board_of(position.moves or "", 4), 4, 3)
    if outcome != 1 or position.plies > web.MAX_PROVEN_STONES:
        return None
    if plies > 1 and canonical_keys(position.board, *stones([position]))[1][0]:
        mirrored = proof(position.mirror())
        assert mirrored is not None
        return 3 - mirrored[0], plies
    after = {c: minimax(board_of(f"{position.moves}{c + 1}", 4), 4, 3) for c in position.legal_columns()}
    return next(column for column, result in after.items() if result == (-1, plies - 1)), plies


def openings(positions: Iterable[Position]) -> list[tuple[int, int, int]]:
    """Return the won positions as the exported page has them."""
    found = []
    for position in positions:
        (key,), (mirrored,) = canonical_keys(position.board, *stones([position]))
        known = proof(position.mirror() if mirrored else position)
        if known is not None:
            found.append((int(key), known[0] if known[1] > 1 else -1, known[1]))
    return found


def test_engine_of_the_page_agrees_on_a_board_without_a_solver(run_in_node: RunInNode) -> None:
    """Analyses, hints and moves follow the search, or the proofs of won positions."""
    board, simulations = make_board(4, 4, 3), 40
    evaluator = SumsOfEighths(board)
    network = NetworkSearch(evaluator, board=board, rng=np.random.default_rng(0))
    positions = [Position(board=board), Position.from_moves("1141", board)]
    positions += random_positions([1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 11], board)
    unfinished = {position.moves: position for position in positions if position.outcome() is None}
    games = sorted(unfinished, key=len, reverse=True)  # no game continues an earlier one, whose tree would be reused
    replies = {moves: [p.play(column) for column in p.legal_columns()] for moves, p in unfinished.items()}
    won = openings([*unfinished.values(), *itertools.chain(*replies.values())])
    files = {"network.onnx": weights(evaluator), "proofs.json": won}
    found = run_in_node(ENGINE + WITHOUT_SOLVER, board, files, games=games, simulations=simulations)
    seen = set()
    for moves, answer in zip(games, found, strict=True):
        position = unfinished[moves]
        result = network.search([position], Budget(simulations=simulations))
        expected, analysis = describe_search(SearchResult.of_result(position, "", result)), answer["analysis"]
        for name in ("moves", "move", "pv"):
            assert analysis[name] == expected[name]
        for name in ("value", "win", "draw", "loss"):
            assert analysis[name] == pytest.approx(expected[name], abs=1e-5)
        for name in ("column", "visits", "proof"):
            assert [item[name] for item in analysis["columns"]] == [item[name] for item in expected["columns"]]
        assert answer["expert"] == network.search([position], Budget(simulations=200)).moves[0]

        side, hint, known = position.plies % 2, answer["hint"], proof(position)
        lost = [entry[1] for entry in map(proof, replies[moves]) if entry is not None]
        if known is not None:
            column, plies = known
            assert answer["proof"] == {"side": side, "plies": plies, "column": column}
            wins = describe_bound(1, (plies + 1) // 2)
            assert hint == {"column": column, "outcome": wins, "source": "proven"}
            assert answer["master"] == column
            seen.add(("won", side))
            continue
        is_lost = len(lost) == len(replies[moves])
        assert answer["proof"] == ({"side": 1 - side, "plies": 1 + max(lost), "column": None} if is_lost else None)
        seen.add(("lost", side) if is_lost else None)
        assert (hint["outcome"], hint["source"]) == ("", "the network's opinion")
        values = {c: minimax(board_of(f"{moves}{c + 1}", 4), 4, 3)[0] for c in position.legal_columns()}
        assert values[hint["column"]] == min(values.values())
    assert seen == {None, ("won", 0), ("won", 1), ("lost", 0), ("lost", 1)}


WITH_SOLVER = """
AbortSignal.timeout = (ms) => (ms <= given.expired ? AbortSignal.abort() : new AbortController().signal);
for (const moves of games) answers.push({
  exact: (await engine.exact(moves, signal)).columns, hint: await engine.hint(moves, signal),
  perfect: await play(moves, "perfect"), master: await play(moves, "master"),
});
tell(answers);
process.exit();
"""


@pytest.mark.parametrize("expired", [0, 500], ids=["in time", "in time for outcomes only"])
def test_engine_of_the_page_agrees_with_the_solver(expired: int, run_in_node: RunInNode) -> None:
    """Moves and hints are exact. Time limits up to ``expired`` milliseconds have expired."""
    files = {"network.onnx": weights(SumsOfEighths(STANDARD)), "proofs.json": [], "book.json": web.book()}
    positions = [position for position in random_positions(range(16, 40)) if position.outcome() is None]
    games = [position.moves for position in positions]
    found = run_in_node(ENGINE + WITH_SOLVER, files=files, games=games, expired=expired)
    outcomes = set()
    for position, answer in zip(positions, found, strict=True):
        columns = {item.column: item for item in exact(position)}
        assert [item["score"] for item in answer["exact"]] == [item.score for item in columns.values()]
        assert columns[answer["perfect"]].is_best
        assert columns[answer["master"]].is_best
        hint = answer["hint"]
        suggested, best = columns[hint["column"]], max(item.score for item in columns.values())
        outcomes.add(int(np.sign(best)))
        assert np.sign(suggested.score) == np.sign(best)
        assert suggested.is_best or expired
        outcome = suggested.text if suggested.score else "draws"
        assert hint["outcome"] == (outcome.split()[0] if expired else outcome)
        assert hint["source"] == "exact"
    assert outcomes == {-1, 0, 1}
