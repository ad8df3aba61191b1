// Proven results of positions, by the exact solver, its opening book or proofs; they are cached by position.

import { COLOURS, announce, describeBound, eitherOf, relabel } from "./dom.js";

const SHORT = { wins: "win", loses: "loss", draw: "draw" };
const SOLVER_TIMEOUT_MS = 2000; // time for the proven result of a position that is analysed

// Text such as "3 holds out longest, for 11 moves", from the outcome "loses in 11 moves" of the best moves.
export const longestResistance = (names, outcome) => `${names} hold${names.includes(" or ") ? "" : "s"} out longest, for ${outcome.replace("loses in ", "")}`;

export class Solver {
  // onChange() is called when there is more to show, onFail(error) after an error.
  constructor({ rules, setup, engine }, onChange, onFail) {
    Object.assign(this, { rules, setup, engine, onChange, onFail });
    this.verdicts = new Map(); // move string -> columns
    this.proofs = new Map(); // move string -> { side, plies to its win at the latest or null, column } or null
    this.bounds = new Map(); // move string -> { side, plies }: the soonest proven win, or one from earlier positions
    this.requested = new Set(); // move strings whose verdict was requested and found
  }

  // The verdicts of the best columns, null if unknown.
  best(moves) { return this.verdicts.get(moves)?.filter((item) => item.best) ?? null; }

  // The proven best move, null if unknown.
  move(moves) {
    const columns = this.verdicts.get(moves);
    return columns ? this.rules.best(columns) : this.proofs.get(moves)?.column ?? null;
  }

  // Store the best proven result of a position, and what follows for the next ones: after any reply of the other side, and
  // after `column`, with which `side` wins within `plies`.
  learn(moves, side, plies, column = null) {
    if (!(this.bounds.get(moves)?.plies <= plies)) this.bounds.set(moves, { side, plies });
    const next = moves.length % 2 !== side ? this.rules.legal(this.rules.read(moves)) : column === null ? [] : [column];
    for (const each of next) this.learn(moves + this.rules.name(each), side, plies - 1);
  }

  // Store the proven outcome of a move, such as "wins in 5 moves" or "loses within 2 moves".
  learnOutcome(moves, column, outcome) {
    const [, verb, count] = outcome.match(/^(wins|loses) .*?(\d+)/) ?? [], side = moves.length % 2;
    if (verb === "wins") this.learn(moves, side, 2 * count - 1, column);
    else if (verb) this.learn(moves + this.rules.name(column), 1 - side, 2 * count - 1);
  }

  keepVerdicts(moves, columns) {
    this.verdicts.set(moves, columns);
    for (const { column, outcome } of columns) this.learnOutcome(moves, column, outcome);
  }

  // The proven result: { winner: 0, 1, null for a draw or undefined for at least a draw, text: for the side to move, such
  // as "Red wins in 4 moves", source }; null if unknown.
  provenResult(moves) {
    const side = moves.length % 2, best = this.best(moves), proof = this.proofs.get(moves), bound = this.bounds.get(moves), colour = COLOURS[side];
    if (best) {
      const [{ score, outcome }] = best, winner = score ? (score > 0 ? side : 1 - side) : null;
      const names = best.length > 1 && best.length === this.verdicts.get(moves).length ? "any column" : eitherOf(best.map(({ column }) => this.rules.name(column)));
      return { winner, text: `${colour} ${score ? outcome : "draws"}`, source: `exact; best: ${names}` };
    }
    if (bound) {
      const does = describeBound(bound.side === side ? "wins" : "loses", Math.ceil(bound.plies / 2));
      return { winner: bound.side, text: `${colour} ${does}`, source: "proven" };
    }
    return proof ? { winner: undefined, text: `${colour} ${proof.side === side ? "does not lose" : "does not win"}`, source: "proven" } : null;
  }

  // A sentence such as "Exact: Red wins in 17 moves with 4."; empty if it was not requested for this position.
  verdict(moves) {
    const best = this.requested.has(moves) && this.best(moves);
    if (!best) return "";
    const [{ score, outcome }] = best, names = eitherOf(best.map(({ column }) => this.rules.name(column)));
    if (score < 0) return `Exact: every move loses; ${longestResistance(names, outcome)}.`;
    return `Exact: ${COLOURS[moves.length % 2]} ${score ? outcome : "draws"} with ${names}.`;
  }

  // Labels above the columns, such as "win 17".
  labels(moves) {
    return new Map((this.verdicts.get(moves) ?? []).map(({ column, outcome, score, best }) => {
      const [word, , number] = outcome.split(" "), tone = score > 0 ? "win" : score < 0 ? "loss" : "draw";
      return [column, { text: [SHORT[word], number].filter(Boolean).join(" "), spoken: `${outcome}${best ? ", best" : ""}`, strong: best, tone }];
    }));
  }

  // Find the proven result of a position that is shown, within a short time.
  async findProof(moves) {
    this.finding?.abort();
    const { signal } = (this.finding = new AbortController());
    await Promise.all([this.proof(moves, signal), this.quickVerdicts(moves, signal)].map((each) => each.catch(() => null)));
    if (!signal.aborted) this.onChange();
  }

  // Resolve to the proven result.
  async proof(moves, signal) {
    if (!this.proofs.has(moves)) {
      const { result } = await this.engine.proof(moves, signal);
      this.proofs.set(moves, result);
      if (result?.plies) this.learn(moves, result.side, result.plies, result.column);
    }
    return this.proofs.get(moves);
  }

  // Resolve to the verdicts if the solver is quick, by its book with few stones or by search with many; else null.
  async quickVerdicts(moves, signal) {
    if (!this.setup.exact || this.verdicts.has(moves)) return this.verdicts.get(moves) ?? null;
    const late = AbortSignal.any([signal, AbortSignal.timeout(SOLVER_TIMEOUT_MS)]);
    const found = await this.engine.exact(moves, late).catch(() => null);
    if (found) this.keepVerdicts(moves, found.columns);
    if (found && !signal.aborted) this.onChange();
    return found?.columns ?? null;
  }

  // Resolve to { column, outcome, source }, such as "wins in 5 moves" and "exact"; reject with an AbortError if stopped.
  async hint(moves) {
    this.hinting?.abort();
    const controller = (this.hinting = new AbortController()), columns = this.verdicts.get(moves);
    try {
      if (!columns) return this.withBound(moves, await this.engine.hint(moves, controller.signal));
      const column = this.rules.best(columns), { score, outcome } = columns.find((item) => item.column === column);
      return { column, outcome: score ? outcome : "draws", source: "exact" };
    } finally {
      if (this.hinting === controller) this.hinting = null;
    }
  }

  // A hint without its number of moves, if a sooner win is proven, which another column may reach.
  withBound(moves, hint) {
    this.learnOutcome(moves, hint.column, hint.outcome);
    const count = Number(hint.outcome.replace(/\D+/g, "")), bound = this.bounds.get(moves);
    return hint.outcome.startsWith("wins") && bound && Math.ceil(bound.plies / 2) < count ? { ...hint, outcome: "wins" } : hint;
  }

  get busy() { return Boolean(this.running); }

  // Stop all requests.
  stop() {
    for (const controller of [this.running, this.hinting, this.finding]) controller?.abort();
    this.running = this.hinting = this.finding = null;
    clearInterval(this.clock);
    relabel("exact", "Solve");
  }

  // Request the verdict, or stop the running request.
  async toggle(moves) {
    if (this.running) {
      this.stop();
      return this.onChange();
    }
    const controller = (this.running = new AbortController()), started = Date.now();
    const tick = () => relabel("exact", `Stop (${Math.round((Date.now() - started) / 1000)} s)`);
    tick();
    this.clock = setInterval(tick, 1000);
    this.onChange();
    try {
      if (!this.verdicts.has(moves)) this.keepVerdicts(moves, (await this.engine.exact(moves, controller.signal)).columns);
      this.requested.add(moves);
      if (this.running === controller) announce(this.verdict(moves));
    } catch (error) {
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle(moves));
    } finally {
      if (this.running === controller) {
        this.running = null;
        clearInterval(this.clock);
        relabel("exact", "Solve");
      }
      this.onChange();
    }
  }
}
