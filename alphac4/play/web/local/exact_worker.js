// Runs the exact solver. Nothing can interrupt it: who no longer waits ends the whole worker.

import { ExactSolver } from "./exact.js";

let solver = null;

addEventListener("message", ({ data: { setup, book, moves } }) => {
  solver ??= new ExactSolver(setup, book);
  postMessage(solver.columnScores(moves));
});
