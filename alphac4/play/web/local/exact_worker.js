// Runs the exact solver, one position at a time; what it has proven stays for the next.

import { ExactSolver } from "./exact.js";

let solver = null, asked = null;

async function prepare({ setup, book }) {
  const response = await fetch(new URL("./solver.wasm", import.meta.url));
  if (!response.ok) throw new Error(`solver.wasm cannot be loaded (${response.status}).`);
  return new ExactSolver(await WebAssembly.compile(await response.arrayBuffer()), setup, book);
}

// The first message says what the solver needs; later ones a position, or none to stop.
addEventListener("message", async ({ data }) => {
  if (!solver) return (solver = prepare(data)).catch(() => {}); // told to who asks
  asked = data;
  try {
    const exact = await solver;
    if (asked !== data || !data.position) return;
    exact.abandon();
    while (asked === data) {
      const score = exact.advance(data.position, data.weak);
      if (score !== null) return postMessage({ id: data.id, score });
      await new Promise((resolve) => setTimeout(resolve)); // so that a message can come in
    }
  } catch (error) {
    postMessage({ id: data.id, error: error.message });
  }
});
