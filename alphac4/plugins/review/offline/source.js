// Reviews by the exact solver and the network in the browser.

import { reviewGame } from "./reviewer.js";

const SIMULATIONS = 50; // per position of the game

// Yield { done, total } during the review, then the review.
export async function* requestReview(engine, moves, signal) {
  const judge = await engine.judge();
  yield* reviewGame(engine.columns(moves), engine.settings, {
    score: (position, late) => judge.score(position, AbortSignal.any([signal, late])),
    opinion: (before) => engine.opponent.ask("opinion", { moves: before, simulations: SIMULATIONS }, signal),
  });
}
