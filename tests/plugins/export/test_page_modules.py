"""Rules, search, solver, reviews and engine of the exported page, in Node.js, against those in Python."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from helpers import DRAWN, LATE, Counting, LateSolver, SumsOfEighths, random_game
from naive import board_of, minimax

from alphac4.arena.players import NetworkPlayer
from alphac4.evaluation.positions import packaged_positions
from alphac4.game import Geometry, Position, make_geometry
from alphac4.game.planes import stones
from alphac4.game.position import count_of
from alphac4.game.rules import STANDARD, canonical_key, canonical_keys
from alphac4.mcts.network_search import NetworkSearch
from alphac4.mcts.results import SearchedPosition, describe_proof
from alphac4.mcts.search import Budget
from alphac4.play.web.pages import STATIC
from alphac4.plugins.export import web
from alphac4.review import review_game
from alphac4.solver import shared_solver
from alphac4.solver.solver import exact

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs node: install Node.js")


RunInNode = Callable[..., Any]
BROWSER = """ // a browser's interfaces, in the main thread and in workers
import { readFile } from "node:fs/promises";
import { Worker as Thread, parentPort, workerData } from "node:worker_threads";
globalThis.fetch = async (url) => new Response(await readFile(url));
globalThis.Worker = class extends Thread {
  constructor(url) {
    super(new URL(import.meta.url), { workerData: url.href, execArgv: [] });
    this.on("message", (data) => this.onmessage?.({ data }));
  }
  addEventListener(kind, listener) { this.on(kind, (data) => listener(kind === "error" ? data : { data })); }
};
Object.defineProperty(globalThis, "navigator", { value: { hardwareConcurrency: 2 } });
if (workerData) {
  globalThis.postMessage = (data) => parentPort.postMessage(data);
  globalThis.addEventListener = (kind, listener) => parentPort.on(kind, (data) => listener({ data }));
  await import(workerData);
}
"""
RUNTIME = """ // ONNX Runtime with the evaluator `SumsOfEighths`, whose weights are the network's file
export const env = { wasm: {} };
export class Tensor { constructor(type, data) { this.data = data; } }
export function evaluator({ policy, value }) {
  return async (planes) => {
    const logits = policy[0].map((_, a) => planes.reduce((sum, x, i) => sum + x * policy[i][a], 0));
    const sum = planes.reduce((total, x, i) => total + x * value[i], 0);
    const lead = (((sum % 11) + 11) % 11) - 5;
    return { policy: logits, wdl: [(6 + lead) / 16, 4 / 16, (6 - lead) / 16] };
  };
}
export const InferenceSession = {
  async create(bytes) {
    const evaluate = evaluator(JSON.parse(new TextDecoder().decode(bytes)));
    return {
      async run({ planes }) {
        const { policy, wdl } = await evaluate(planes.data);
        return { policy: { data: policy }, wdl: { data: wdl } };
      },
    };
  },
};
"""
START = """
import { readFileSync } from "node:fs";
const given = JSON.parse(readFileSync(0)), { setup, games } = given;
const tell = (found) => console.log(JSON.stringify(found));
"""
SOLVER = """
import { Rules } from "./rules.js";
import { ExactSolver } from "./exact.js";
const solver = new ExactSolver(new WebAssembly.Module(readFileSync("solver.wasm")), setup, given.book);
const board = new Rules(setup);
"""


@pytest.fixture(scope="module")
def run_in_node(tmp_path_factory: pytest.TempPathFactory) -> RunInNode:
    """Runs a script with the page's modules; it reads its arguments as ``given`` and returns JSON by ``tell``."""
    folder = tmp_path_factory.mktemp("page") / "static"
    for part in (STATIC, web.LOCAL):
        shutil.copytree(part, folder, dirs_exist_ok=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "browser.js").write_text(BROWSER)
    (folder / "onnxruntime").mkdir()
    (folder / "onnxruntime" / "ort.wasm.bundle.min.mjs").write_text(RUNTIME)

    def run(script: str, geometry: Geometry = STANDARD, files: dict[str, Any] | None = None, **given: Any) -> Any:
        setup = web.exported_setup(geometry, "network")
        for name, content in {"setup.json": setup, **(files or {})}.items():
            (folder.parent / name).write_text(json.dumps(content))
        ran = subprocess.run(
            [str(NODE), "--input-type=module", "--eval", START + script],
            input=json.dumps(given | {"setup": setup}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def random_positions(lengths: Iterable[int], geometry: Geometry = STANDARD) -> list[Position]:
    """Make positions after these numbers of random moves, or at the end of the game if that comes first."""
    rng = np.random.default_rng(8)
    return [random_game(length, rng, geometry) for length in lengths]


def columns_of(games: Iterable[str]) -> list[list[int]]:
    return [[int(name) - 1 for name in game] for game in games]


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
    "geometry",
    [STANDARD, make_geometry(4, 12, 4), make_geometry(3, 4, 3, False)],
    ids=["standard", "twelve columns", "no diagonals"],
)
def test_rules_of_the_page_agree_on_every_board(geometry: Geometry, run_in_node: RunInNode) -> None:
    positions = random_positions(np.linspace(1, geometry.cells, 200).astype(int), geometry)
    beyond = "123456789abcdefghijklmnopqrstuvwxyz"[geometry.columns]
    wrong, proofs = [beyond, "0", "x y", "1" * (geometry.rows + 1)], list(range(-128, 128))
    games = [position.moves for position in positions]
    found = run_in_node(RULES, geometry, games=games, wrong=wrong, proofs=proofs)
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


def weights(evaluator: SumsOfEighths) -> dict[str, Any]:
    return {"policy": evaluator.policy.tolist(), "value": evaluator.value.tolist()}


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


@pytest.mark.parametrize("geometry", [STANDARD, make_geometry(5, 6, 4, False)])
def test_search_of_the_page_agrees(geometry: Geometry, run_in_node: RunInNode) -> None:
    """Visits, moves, proofs, values and variations, with new and with reused trees."""
    evaluator, simulations = SumsOfEighths(geometry), 150
    lines = ["", "44", "1122", "1212", "3344", "15254", "4444", "112233"]
    network = weights(evaluator)
    answer = run_in_node(SEARCH, geometry, network=network, games=columns_of(lines), simulations=simulations)
    found = iter(answer["results"])
    for line in lines:
        search = NetworkSearch(evaluator, geometry=geometry, rng=np.random.default_rng(0), reuse="trees")
        for start in dict.fromkeys(("", line)):
            expected = search.search([Position.from_moves(start, geometry)], Budget(simulations=simulations))
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
            {"column": item.column, "score": item.score, "outcome": item.text, "best": item.best}
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


REVIEW = """
import { reviewGame } from "./reviewer.js";
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
  for await (const line of reviewGame(moves, setup, { score, opinion })) {
    if (line.reviewed) reviews.push({ ...line, asked });
  }
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
        for name in ("moves", "mistakes", "unjudged", "reviewed", "values"):
            assert actual[name] == expected[name], (game, name)
        assert actual["asked"] == player.asked  # without the end of a finished game
        for name in ("accuracy", "best", "judged", "mistakes"):
            assert [side[name] for side in actual["sides"]] == pytest.approx([side[name] for side in expected["sides"]])
    grades = {move["grade"] for review in found for move in review["reviewed"]}
    assert grades == {"best", "keeps", "loses-win", "loses-draw", "win-to-loss"}


ENGINE = """
import "./browser.js";
import { engine } from "./engine.js";
await engine.setup();
const { signal } = new AbortController(), last = async (lines) => {
  let found;
  for await (found of lines);
  return found;
};
const play = async (moves, level) => (await engine.move(moves, level, signal)).column;
const answers = [];
"""
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
    if plies > 1 and canonical_keys(position.geometry, *stones([position]))[1][0]:
        mirrored = proof(position.mirror())
        assert mirrored is not None
        return 3 - mirrored[0], plies
    after = {c: minimax(board_of(f"{position.moves}{c + 1}", 4), 4, 3) for c in position.legal_columns()}
    return next(column for column, result in after.items() if result == (-1, plies - 1)), plies


def openings(positions: Iterable[Position]) -> list[tuple[int, int, int]]:
    """Return the won positions as the exported page has them."""
    found = []
    for position in positions:
        (key,), (mirrored,) = canonical_keys(position.geometry, *stones([position]))
        known = proof(position.mirror() if mirrored else position)
        if known is not None:
            found.append((int(key), known[0] if known[1] > 1 else -1, known[1]))
    return found


def test_engine_of_the_page_agrees_on_a_board_without_a_solver(run_in_node: RunInNode) -> None:
    """Analyses, hints and moves follow the search, or the proofs of won positions."""
    geometry, simulations = make_geometry(4, 4, 3), 40
    evaluator = SumsOfEighths(geometry)
    network = NetworkSearch(evaluator, geometry=geometry, rng=np.random.default_rng(0))
    positions = [Position(geometry=geometry), Position.from_moves("1141", geometry)]
    positions += random_positions([1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 11], geometry)
    unfinished = {position.moves: position for position in positions if position.outcome() is None}
    games = sorted(unfinished, key=len, reverse=True)  # no game continues an earlier one, whose tree would be reused
    replies = {moves: [p.play(column) for column in p.legal_columns()] for moves, p in unfinished.items()}
    won = openings([*unfinished.values(), *itertools.chain(*replies.values())])
    files = {"network.onnx": weights(evaluator), "proofs.json": won}
    found = run_in_node(ENGINE + WITHOUT_SOLVER, geometry, files, games=games, simulations=simulations)
    seen = set()
    for moves, answer in zip(games, found, strict=True):
        position = unfinished[moves]
        result = network.search([position], Budget(simulations=simulations))
        expected, analysis = SearchedPosition.of_result(position, "", result).to_dict(), answer["analysis"]
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
            wins = f"wins in at most {count_of((plies + 1) // 2, 'move')}"
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
tell({ answers, review: await last(engine.review(given.reviewed, signal)) });
process.exit();
"""


@pytest.mark.parametrize("expired", [0, 500], ids=["in time", "in time for outcomes only"])
def test_engine_of_the_page_agrees_with_the_solver(expired: int, run_in_node: RunInNode) -> None:
    """Moves and hints are exact. Reviews have the network's opinions.

    Time limits up to ``expired`` milliseconds have expired. The book has the early positions of the reviewed game.
    """
    game, evaluator = "4342346766737316276542637143", SumsOfEighths(STANDARD)
    solver, early = LateSolver(game), [Position.from_moves(game[:ply]) for ply in range(LATE)]
    book = {int(canonical_key(STANDARD, p.own, p.occupied)): solver.solve(p, None) for p in early}
    sorted_book = {"keys": sorted(book), "scores": [book[key] for key in sorted(book)], "plies": LATE - 1}
    files = {"network.onnx": weights(evaluator), "proofs.json": [], "book.json": sorted_book}
    positions = [position for position in random_positions(range(16, 40)) if position.outcome() is None]
    games = [position.moves for position in positions]
    found = run_in_node(ENGINE + WITH_SOLVER, files=files, games=games, reviewed=game, expired=expired)
    outcomes = set()
    for position, answer in zip(positions, found["answers"], strict=True):
        columns = {item.column: item for item in exact(position)}
        assert [item["score"] for item in answer["exact"]] == [item.score for item in columns.values()]
        assert columns[answer["perfect"]].best
        assert columns[answer["master"]].best
        hint = answer["hint"]
        suggested, best = columns[hint["column"]], max(item.score for item in columns.values())
        outcomes.add(int(np.sign(best)))
        assert np.sign(suggested.score) == np.sign(best)
        assert suggested.best or expired
        outcome = suggested.text if suggested.score else "draws"
        assert hint["outcome"] == (outcome.split()[0] if expired else outcome)
        assert hint["source"] == "exact"
    assert outcomes == {-1, 0, 1}

    search = NetworkSearch(evaluator, rng=np.random.default_rng(0))
    player = NetworkPlayer("network", evaluator, Budget(simulations=web.REVIEW_SIMULATIONS), search=search)
    expected = review_game(game, player=player, solver=solver).to_dict()  # type: ignore[arg-type]
    assert found["review"]["values"] == pytest.approx(expected["values"], abs=1e-3)
    for actual, move in zip(found["review"]["reviewed"], expected["reviewed"], strict=True):
        assert (actual["played"], actual["opinion"]["move"]) == (move["played"], move["opinion"]["move"])
        assert actual["opinion"]["value"] == pytest.approx(move["opinion"]["value"], abs=1e-3)
