// Reviews of games, as game.py makes them. The results have the form of the server's.

import { Rules } from "../rules.js";
import { describe, movesToEnd } from "../exact.js";

const OUTCOME_CREDIT = [1, 0.3, 0], CREDIT_PER_MOVE = 0.05, MIN_KEEPING_CREDIT = 0.7; // see game.py
const LINE_PLIES = 10, LINE_TIME_SHARE = 0.5;
const SECONDS = 40; // time for judging the moves; finding better ones may take half as long again
const MARKS = { "win-to-loss": "??", "loses-win": "?", "loses-draw": "?", keeps: "~" };
const MISTAKES = ["loses-win", "loses-draw", "win-to-loss"];
const COMMENTS = {
  best: "best", unknown: "not judged", "loses-win": "gives the win away", "loses-draw": "gives the draw away", "win-to-loss": "turns a win into a loss",
};

function grade(best, played) {
  if (played.score === best.score) return "best";
  if (Math.sign(played.score) === Math.sign(best.score)) return "keeps";
  if (!best.score) return "loses-draw";
  return played.score ? "win-to-loss" : "loses-win";
}

// Yield the review so far, with the number `done` of steps and their total, and then the review. moves: columns;
// score(position, signal) and opinion(moves) resolve to the exact score and to the network's { value, column }, for the
// side to move.
export async function* reviewGame(moves, setup, { score, opinion, seconds = SECONDS }) {
  const board = new Rules(setup), { columns, names } = board;
  const positions = moves.map((_, ply) => board.at(moves.slice(0, ply))).concat([board.at(moves)]);
  const scores = positions.map(() => null), middle = (columns - 1) / 2;
  const fromTheCentre = [...Array(columns).keys()].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  const legal = ({ own, occupied }) => fromTheCentre.filter((c) => board.landing(occupied, c) && !board.hasRun(own ^ occupied));
  const verdict = (ply, found) => {
    const distance = movesToEnd(setup, ply, found);
    return { score: found, moves: distance, text: describe(found, distance) };
  };
  // A function that resolves to the score of a position, or to null after the time limit.
  const timed = (limit) => {
    const late = AbortSignal.timeout(1000 * limit);
    return (position) => score(position, late).catch((error) => {
      if (!late.aborted) throw error;
      return null;
    });
  };
  const scoresOf = async (position, scoreOf) => {
    const columns = legal(position), found = await Promise.all(columns.map((column) => scoreOf(board.play(position, column))));
    return columns.map((column, index) => [column, found[index] && -found[index]]).filter(([, each]) => each !== null);
  };
  const reaching = (found, target) => found.filter(([, each]) => each === target).map(([column]) => column);

  let done = 0, wake = () => {};
  const end = positions[moves.length], won = board.hasRun(end.own ^ end.occupied), over = won || end.occupied === board.full;
  const signFor = (ply) => (ply % 2 ? -1 : 1), outcome = won ? -signFor(moves.length) : 0;
  const evaluated = opinion ? (over ? moves.length : positions.length) : 0; // the end of a game has an outcome
  const thoughts = positions.map(() => null), found = moves.map(() => ({ columns: {}, better: [], line: [] })); // after mistakes
  const opinions = Promise.all(positions.slice(0, evaluated).map(async (_, ply) => (thoughts[ply] = await opinion(moves.slice(0, ply)))));
  // From last to first, because results of later positions speed up earlier ones.
  const judge = timed(seconds);
  const solved = Promise.all([...positions.keys()].reverse().map(async (ply) => {
    scores[ply] = await judge(positions[ply]);
    done += 1;
    wake();
  }));
  solved.catch(() => wake());
  opinions.catch(() => {}); // errors are thrown where they are awaited

  const reviewMove = (column, index) => {
    const [before, after] = [scores[index], scores[index + 1]], thought = thoughts[index];
    const best = before === null ? null : verdict(index, before), played = after === null ? null : verdict(index, -after || 0);
    const graded = best && played ? grade(best, played) : "unknown";
    const delay = graded === "keeps" ? Math.abs(played.moves - best.moves) : 0, later = `${delay} move${delay === 1 ? "" : "s"}`;
    return {
      ply: index + 1, side: index % 2, move: names[column], grade: graded, mark: MARKS[graded] ?? "",
      comment: COMMENTS[graded] ?? (best.score > 0 ? `still wins, ${later} later` : `loses ${later} sooner`),
      best, played, ...found[index], opinion: thought && { value: thought.value, move: names[thought.column] },
    };
  };
  // The review so far; values for red at the start and after each move are null until they are known.
  const review = () => {
    const reviewed = moves.map(reviewMove), mistakes = reviewed.filter((move) => MISTAKES.includes(move.grade));
    return {
      moves: moves.map((column) => names[column]).join(""), reviewed, sides: [0, 1].map((side) => summary(reviewed, side)),
      mistakes: mistakes.map(({ ply }) => ply), mistakes_without_better: mistakes.filter((move) => !move.better.length).length,
      unjudged: reviewed.filter((move) => move.grade === "unknown").length,
      values: opinion ? thoughts.map((thought, ply) => (thought ? signFor(ply) * thought.value || 0 : ply < evaluated ? null : outcome)) : [],
    };
  };

  while (done < positions.length) {
    await Promise.race([solved, new Promise((resolve) => (wake = resolve))]);
    yield { done: Math.max(done - 1, 0), total: 2 * moves.length, ...review() };
  }
  const judgeBetter = timed(LINE_TIME_SHARE * seconds);
  for (const index of review().mistakes.map((ply) => ply - 1).reverse()) {
    const columns = await scoresOf(positions[index], judgeBetter), better = reaching(columns, scores[index]), line = [];
    let position = positions[index], target = scores[index], candidates = better;
    while (candidates.length && line.length < LINE_PLIES) { // best play by both sides, the most central of equal moves
      line.push(candidates[0]);
      position = board.play(position, candidates[0]);
      target = -target || 0;
      candidates = reaching(await scoresOf(position, judgeBetter), target);
    }
    found[index] = {
      columns: Object.fromEntries(columns.map(([column, each]) => [names[column], verdict(index, each)])),
      better: better.map((column) => names[column]), line: line.map((column) => names[column]),
    };
    yield { done: 2 * moves.length - index, total: 2 * moves.length, ...review() };
  }
  await opinions;
  yield review();
}

// Quality of one side's play; see `SideSummary` in game.py.
function summary(reviewed, side) {
  const own = reviewed.filter((move) => move.side === side && move.grade !== "unknown"), count = (is) => own.filter(is).length;
  const credits = own.map(({ best, played, grade: graded }) => {
    const given = Math.sign(best.score) - Math.sign(played.score), delay = graded === "keeps" ? Math.abs(played.moves - best.moves) : 0;
    return given ? OUTCOME_CREDIT[given] : Math.max(MIN_KEEPING_CREDIT, 1 - CREDIT_PER_MOVE * delay);
  });
  return {
    best: count((move) => move.grade === "best"), judged: own.length, mistakes: count((move) => MISTAKES.includes(move.grade)),
    accuracy: own.length ? (100 * credits.reduce((sum, credit) => sum + credit, 0)) / own.length : null,
  };
}
