// The exact solver's verdicts, which stay with the positions that it was asked about.

import { $, announce } from "./dom.js";

const SHORT = { wins: "win", loses: "loss", draw: "draw" };

export class Solver {
  // onChange() is called when there is more to show, onFail(error) when there is not.
  constructor({ rules, engine }, onChange, onFail) {
    Object.assign(this, { rules, engine, onChange, onFail });
    this.verdicts = new Map(); // move string -> columns
  }

  // Such as "The solver: wins in 17 moves with 4." Empty if it was not asked about this position.
  verdict(moves) {
    const best = this.verdicts.get(moves)?.filter((item) => item.best);
    return best ? `The solver: ${best[0].outcome} with ${best.map(({ column }) => this.rules.name(column)).join(" or ")}.` : "";
  }

  // What the board says above its columns, such as "win 17".
  said(moves) {
    return new Map((this.verdicts.get(moves) ?? []).map(({ column, outcome, best }) => {
      const [word, , number] = outcome.split(" ");
      return [column, { text: [SHORT[word], number].filter(Boolean).join(" "), spoken: `${outcome}${best ? ", best" : ""}`, strong: best }];
    }));
  }

  get busy() { return Boolean(this.running); }

  stop() {
    this.running?.abort();
    this.running = null;
    clearInterval(this.clock);
    $("exact").textContent = "Solve";
  }

  // Ask, or stop asking.
  async toggle(moves) {
    if (this.running) {
      this.stop();
      return this.onChange();
    }
    const controller = (this.running = new AbortController()), started = Date.now();
    const tick = () => ($("exact").textContent = `Stop (${Math.round((Date.now() - started) / 1000)} s)`);
    tick();
    this.clock = setInterval(tick, 1000);
    this.onChange();
    try {
      const { columns } = await this.engine.exact(moves, controller.signal);
      if (this.running !== controller) return;
      this.verdicts.set(moves, columns);
      announce(this.verdict(moves));
    } catch (error) {
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle(moves));
    } finally {
      if (this.running === controller) this.stop();
      this.onChange();
    }
  }
}
