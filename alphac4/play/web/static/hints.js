// Hints: by exact play where the solver knows it soon, which it does with the book's few stones and with many; else what
// the network would play.

const MILLISECONDS = 2000; // for the solver

export class Hints {
  constructor({ rules, setup, engine }) {
    Object.assign(this, { rules, setup, engine });
  }

  stop() { this.running?.abort(); }

  // Promises { column, outcome }, such as " wins in 5 moves"; an AbortError where it is stopped, or asked anew.
  async find(moves) {
    this.stop();
    const { signal } = (this.running = new AbortController()), late = new AbortController();
    signal.addEventListener("abort", () => late.abort());
    setTimeout(() => late.abort(), MILLISECONDS);
    const truth = this.setup.exact ? this.engine.exact(moves, late.signal).catch(() => null) : null;
    let best = null;
    for await (const found of this.engine.analyze(moves, this.setup.simulations, signal)) best = { column: found.best, outcome: "" };
    const known = await truth;
    signal.throwIfAborted();
    return known ? this.solved(known.columns) : best;
  }

  // A hint from the solver's verdicts.
  solved(verdicts) {
    const column = this.rules.best(verdicts), { score, outcome } = verdicts.find((item) => item.column === column);
    return { column, outcome: score ? ` ${outcome}` : " draws" };
  }
}
