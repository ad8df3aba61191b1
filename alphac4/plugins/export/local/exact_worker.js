// Worker of the exact solver, for one position at a time; its table is kept between positions.

import { ExactSolver } from "./exact.js";

let solver = null, current = null;

async function prepare({ setup, book }) {
  const response = await fetch(new URL("./solver.wasm", import.meta.url));
  if (!response.ok) throw new Error(`solver.wasm cannot be loaded (${response.status}).`);
  return new ExactSolver(await WebAssembly.compile(await response.arrayBuffer()), setup, book);
}

// The first message has the board and the book; later ones have a position, or none to stop.
addEventListener("message", async ({ data }) => {
  if (!solver) return (solver = prepare(data)).catch(() => {}); // the first request reports the error
  current = data;
  try {
    const exact = await solver;
    if (current !== data || !data.position) return;
    exact.abandon();
    while (current === data) {
      const score = exact.advance(data.position, data.weak);
      if (score !== null) return postMessage({ id: data.id, score });
      await new Promise((resolve) => setTimeout(resolve)); // lets messages arrive
    }
  } catch (error) {
    postMessage({ id: data.id, error: error.message });
  }
});
