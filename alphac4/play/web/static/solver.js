// What is known for certain of a position, by the exact solver, its book, or the certificate; it stays with the position.

import { $, COLOURS, announce, counted } from "./dom.js";

const SHORT = { wins: "win", loses: "loss", draw: "draw" };
const SOON = 2000; // milliseconds for which a look waits for the solver

export class Solver {
  // onChange() is called when there is more to show, onFail(error) when there is not.
  constructor({ rules, setup, engine }, onChange, onFail) {
    Object.assign(this, { rules, setup, engine, onChange, onFail });
    this.verdicts = new Map(); // move string -> columns
    this.certified = new Map(); // move string -> { side, plies to its win at the latest or null, column } or null
    this.asked = new Set(); // move strings whose verdict was asked for and given
  }

  // The best columns' verdict, null where it is not known.
  best(moves) { return this.verdicts.get(moves)?.filter((item) => item.best) ?? null; }

  // The best move as far as it is certain, null while none is.
  move(moves) {
    const columns = this.verdicts.get(moves);
    return columns ? this.rules.best(columns) : this.certified.get(moves)?.column ?? null;
  }

  // What is certain, for the side to move, such as "Red wins in 4 moves": { winner: 0, 1, null for a draw or undefined
  // for a draw at least, moves to the win or "", text, source }; null where nothing is known.
  truth(moves) {
    const side = moves.length % 2, best = this.best(moves), shown = this.certified.get(moves) ?? null, colour = COLOURS[side];
    if (best) {
      const [{ score, outcome }] = best, winner = score ? (score > 0 ? side : 1 - side) : null;
      const names = best.length > 1 && best.length === this.verdicts.get(moves).length ? "any column" : best.map(({ column }) => this.rules.name(column)).join(" or ");
      return { winner, moves: outcome.replace(/\D+/g, ""), text: `${colour} ${score ? outcome : "draws"}`, source: `exact; best: ${names}` };
    }
    if (!shown) return null;
    const { plies } = shown, own = shown.side === side, count = plies === null ? "" : Math.ceil(plies / 2);
    const does = plies === null ? (own ? "does not lose" : "does not win") : `${own ? "wins" : "loses"} in at most ${counted(count, "move")}`;
    return { winner: plies === null ? undefined : shown.side, moves: count, text: `${colour} ${does}`, source: "proven by the certificate" };
  }

  // Such as "Exact: Red wins in 17 moves with 4." Empty if nobody asked about this position.
  verdict(moves) {
    const best = this.asked.has(moves) && this.best(moves);
    if (!best) return "";
    const [{ score, outcome }] = best, names = best.map(({ column }) => this.rules.name(column)).join(" or ");
    return `Exact: ${COLOURS[moves.length % 2]} ${score ? outcome : "draws"} with ${names}.`;
  }

  // What the board says above its columns, such as "win 17".
  said(moves) {
    return new Map((this.verdicts.get(moves) ?? []).map(({ column, outcome, score, best }) => {
      const [word, , number] = outcome.split(" "), tone = score > 0 ? "win" : score < 0 ? "loss" : "draw";
      return [column, { text: [SHORT[word], number].filter(Boolean).join(" "), spoken: `${outcome}${best ? ", best" : ""}`, strong: best, tone }];
    }));
  }

  // Find out what is soon known of a position that somebody looks at.
  async look(moves) {
    this.looking?.abort();
    const { signal } = (this.looking = new AbortController());
    await Promise.all([this.shown(moves, signal), this.soon(moves, signal)].map((each) => each.catch(() => null)));
    if (!signal.aborted) this.onChange();
  }

  // Promises what the certificates say.
  async shown(moves, signal) {
    if (!this.certified.has(moves)) this.certified.set(moves, (await this.engine.certificate(moves, signal)).result);
    return this.certified.get(moves);
  }

  // Promises the verdicts where the solver knows them soon, which it does with the book's few stones and with many.
  async soon(moves, signal) {
    if (!this.setup.exact || this.verdicts.has(moves)) return this.verdicts.get(moves) ?? null;
    const late = AbortSignal.any([signal, AbortSignal.timeout(SOON)]);
    const found = await this.engine.exact(moves, late).catch(() => null);
    if (found) this.verdicts.set(moves, found.columns);
    if (found && !signal.aborted) this.onChange();
    return found?.columns ?? null;
  }

  // Promises { column, outcome, source }, such as "wins in 5 moves" and "exact"; an AbortError where it is stopped.
  async hint(moves) {
    this.hinting?.abort();
    const controller = (this.hinting = new AbortController()), columns = this.verdicts.get(moves);
    try {
      if (!columns) return await this.engine.hint(moves, controller.signal);
      const column = this.rules.best(columns), { score, outcome } = columns.find((item) => item.column === column);
      return { column, outcome: score ? outcome : "draws", source: "exact" };
    } finally {
      if (this.hinting === controller) this.hinting = null;
    }
  }

  get busy() { return Boolean(this.running); }

  // Stop whatever was asked for.
  stop() {
    for (const controller of [this.running, this.hinting, this.looking]) controller?.abort();
    this.running = this.hinting = this.looking = null;
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
      if (!this.verdicts.has(moves)) this.verdicts.set(moves, (await this.engine.exact(moves, controller.signal)).columns);
      this.asked.add(moves);
      if (this.running === controller) announce(this.verdict(moves));
    } catch (error) {
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle(moves));
    } finally {
      if (this.running === controller) {
        this.running = null;
        clearInterval(this.clock);
        $("exact").textContent = "Solve";
      }
      this.onChange();
    }
  }
}
