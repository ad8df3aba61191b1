// Reviews of games, as game.py makes them. The results have the form of the server's.

import { Rules } from "../rules.js";
import { describe, movesToEnd } from "../exact.js";

const OUTCOME_CREDIT = [1, 0.3, 0], CREDIT_PER_MOVE = 0.05, MIN_KEEPING_CREDIT = 0.7; // see game.py
const LINE_PLIES = 10;
const MARKS = { "win-to-loss": "??", "loses-win": "?", "loses-draw": "?", keeps: "~" };
const MISTAKES = ["loses-win", "loses-draw", "win-to-loss"];
const COMMENTS = {
  best: "best", "loses-win": "gives the win away", "loses-draw": "gives the draw away", "win-to-loss": "turns a win into a loss",
};

function grade(best, played) {
  if (played.score === best.score) return "best";
  if (Math.sign(played.score) === Math.sign(best.score)) return "keeps";
  if (!best.score) return "loses-draw";
  return played.score ? "win-to-loss" : "loses-win";
}

// Yield { done, total } for each solved position, then the review. moves: columns; score(position) and opinion(moves)
// resolve to the exact score and to the network's { value, column }, for the side to move.
export async function* reviewGame(moves, setup, { score, opinion }) {
  const board = new Rules(setup), { columns, names } = board;
  const positions = moves.map((_, ply) => board.at(moves.slice(0, ply))).concat([board.at(moves)]);
  const scores = positions.map(() => null), middle = (columns - 1) / 2;
  const fromTheCentre = [...Array(columns).keys()].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  const legal = ({ own, occupied }) => fromTheCentre.filter((c) => board.landing(occupied, c) && !board.hasRun(own ^ occupied));
  const verdict = (ply, found) => {
    const distance = movesToEnd(setup, ply, found);
    return { score: found, moves: distance, text: describe(found, distance) };
  };
  const scoresOf = async (position) => {
    const columns = legal(position), found = await Promise.all(columns.map((column) => score(board.play(position, column))));
    return columns.map((column, index) => [column, -found[index] || 0]);
  };
  const reaching = (found, target) => found.filter(([, each]) => each === target).map(([column]) => column);

  let done = 0, wake = () => {};
  const end = positions[moves.length], won = board.hasRun(end.own ^ end.occupied), over = won || end.occupied === board.full;
  const evaluated = over ? moves.length : positions.length; // the end of a game has an outcome
  const opinions = positions.map((_, ply) => (opinion && ply < evaluated ? opinion(moves.slice(0, ply)) : null));
  // From last to first, because results of later positions speed up earlier ones.
  const solved = Promise.all([...positions.keys()].reverse().map(async (ply) => {
    scores[ply] = await score(positions[ply]);
    done += 1;
    wake();
  }));
  solved.catch(() => wake());
  Promise.all(opinions).catch(() => {}); // errors are thrown where they are awaited
  while (done < positions.length) {
    await Promise.race([solved, new Promise((resolve) => (wake = resolve))]);
    yield { done: Math.max(done - 1, 0), total: moves.length };
  }

  const reviewed = [], signFor = (ply) => (ply % 2 ? -1 : 1), outcome = won ? -signFor(moves.length) : 0;
  for (const [index, column] of moves.entries()) {
    const best = verdict(index, scores[index]), played = verdict(index, -scores[index + 1] || 0);
    const graded = grade(best, played), line = [];
    let position = positions[index], target = best.score;
    const mistaken = graded !== "best" && graded !== "keeps", found = mistaken ? await scoresOf(position) : [], better = reaching(found, target);
    if (mistaken) {
      let candidates = better;
      while (candidates.length && line.length < LINE_PLIES) { // best play by both sides, the most central of equal moves
        line.push(candidates[0]);
        position = board.play(position, candidates[0]);
        target = -target || 0;
        candidates = reaching(await scoresOf(position), target);
      }
    }
    const delay = graded === "keeps" ? Math.abs(played.moves - best.moves) : 0, later = `${delay} move${delay === 1 ? "" : "s"}`;
    const given = Math.sign(best.score) - Math.sign(played.score), thought = await opinions[index];
    reviewed.push({
      ply: index + 1, side: index % 2, move: names[column], grade: graded, mark: MARKS[graded] ?? "",
      comment: COMMENTS[graded] ?? (best.score > 0 ? `still wins, ${later} later` : `loses ${later} sooner`),
      best, played, better: better.map((c) => names[c]), line: line.map((c) => names[c]),
      columns: Object.fromEntries(found.map(([c, each]) => [names[c], verdict(index, each)])),
      opinion: thought && { value: thought.value, move: names[thought.column] },
      credit: given ? OUTCOME_CREDIT[given] : Math.max(MIN_KEEPING_CREDIT, 1 - CREDIT_PER_MOVE * delay),
    });
  }
  const sides = [0, 1].map((side) => {
    const own = reviewed.filter((move) => move.side === side);
    const mistakes = own.filter((move) => MISTAKES.includes(move.grade)).length, best = own.filter((move) => move.grade === "best").length;
    return { best, judged: own.length, mistakes, accuracy: own.length ? (100 * own.reduce((sum, { credit }) => sum + credit, 0)) / own.length : null };
  });
  const mistakes = reviewed.filter((move) => MISTAKES.includes(move.grade));
  const thoughts = await Promise.all(opinions); // values for red at the start and after each move
  const values = opinion ? thoughts.map((thought, ply) => (thought ? signFor(ply) * thought.value || 0 : outcome)) : [];
  yield {
    moves: moves.map((column) => names[column]).join(""), unjudged: 0, sides, mistakes: mistakes.map(({ ply }) => ply), values,
    reviewed: reviewed.map(({ credit, ...move }) => move),
  };
}
