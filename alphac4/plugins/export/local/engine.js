// The page's engine in the browser: one worker for the opponent, one for the analysis, and several for the exact solver.

import { describeBound } from "./dom.js";
import { Judge } from "./judge.js";
import { Rules } from "./rules.js";

const WIN_SECONDS = 10; // time for the exact move of the master in positions that are proven won
const SOLVER_TIMEOUT_S = 2; // time for the exact move of the master in other positions
const HINT_SECONDS = 0.5; // time for exact scores of all columns, which include the distance to the win
const OUTCOME_SECONDS = 4; // time for a move that keeps the outcome, while the network searches
const within = (signal, seconds) => AbortSignal.any([signal, AbortSignal.timeout(1000 * seconds)]);

class Searcher {
  constructor() {
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.listeners = new Map();
    this.count = 0;
    this.ready = new Promise((resolve, reject) => {
      this.worker.addEventListener("message", ({ data }) => (data.ready ? resolve() : this.listeners.get(data.id)?.(data)));
      this.worker.addEventListener("error", (event) => reject(new Error(event.message?.replace("Uncaught Error: ", "") || "The network cannot be loaded.")));
    });
  }

  // Yield the worker's messages for a request, up to its answer.
  async *messages(kind, request, signal) {
    await this.ready;
    const id = ++this.count, waiting = [];
    let wake = () => {};
    const stop = () => {
      this.worker.postMessage({ id, kind: "stop" });
      waiting.push({ aborted: true });
      wake();
    };
    if (signal?.aborted) throw new DOMException("stopped", "AbortError");
    this.listeners.set(id, (data) => { waiting.push(data); wake(); });
    signal?.addEventListener("abort", stop);
    this.worker.postMessage({ id, kind, ...request });
    try {
      for (;;) {
        while (!waiting.length) await new Promise((resolve) => (wake = resolve));
        const data = waiting.shift();
        if (data.aborted) throw new DOMException("stopped", "AbortError");
        if (data.error) throw new Error(data.error);
        yield data;
        if (data.answer) return;
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      this.listeners.delete(id);
    }
  }

  async ask(kind, request, signal) {
    for await (const { answer } of this.messages(kind, request, signal)) if (answer) return answer;
  }
}

class Local {
  loaded = {}; // promises; see `once`

  async setup() {
    const worker = new URL("../offline.js", import.meta.url);
    navigator.serviceWorker?.register(worker).catch(() => {}); // disabled in this browser, which must then be online
    this.opponent = new Searcher();
    const [setup] = await Promise.all([this.file("setup.json"), this.opponent.ready]);
    this.rules = new Rules(setup);
    this.settings = setup;
    return setup;
  }

  // Created at its first use, because it loads the network a second time.
  get analyst() {
    if (!this.searcher) {
      this.searcher = new Searcher();
      this.searcher.ready.catch(() => (this.searcher = null));
    }
    return this.searcher;
  }

  async file(name) {
    const response = await fetch(new URL(`../${name}`, import.meta.url));
    if (!response.ok) throw new Error(`${name} cannot be loaded (${response.status}).`);
    return response.json();
  }

  // Call `load` once and cache its promise; after an error, the next call tries again.
  once(name, load) {
    return (this.loaded[name] ??= load().catch((error) => {
      delete this.loaded[name];
      throw error;
    }));
  }

  columns(moves) { return [...moves].map((name) => this.rules.names.indexOf(name)); }

  async exact(moves, signal) { return { columns: await (await this.judge()).columns(this.columns(moves), signal) }; }

  judge() {
    return this.once("judge", async () => new Judge(this.settings, await this.file("book.json")));
  }

  // onSolved(done, total) counts the moves that the solver has scored for the level perfect.
  async move(moves, level, signal, onSolved) {
    const request = { moves: this.columns(moves), level }, { perfect, proven } = this.settings.levels.find(({ name }) => name === level);
    if (perfect) return { column: this.any(await (await this.judge()).columns(request.moves, signal, onSolved)), player: level };
    if (proven) {
      // The first player wins, and so does the second after a losing first move.
      const seconds = moves.length % 2 === 0 || (await this.entry(request.moves.slice(0, 1))) ? WIN_SECONDS : SOLVER_TIMEOUT_S;
      const column = (await this.entry(request.moves))?.column ?? (await this.quickExact(request.moves, signal, seconds).then((found) => found && this.any(found)));
      if (Number.isInteger(column)) return { column, player: level };
    }
    return this.opponent.ask("move", request, signal);
  }

  any(verdicts) {
    const best = verdicts.filter((item) => item.best);
    return best[Math.floor(best.length * Math.random())].column;
  }

  // Resolve to the solver's verdicts, or to null after `seconds`.
  async quickExact(moves, signal, seconds) {
    if (!this.settings.exact) return null;
    const verdicts = await (await this.judge()).columns(moves, within(signal, seconds)).catch(() => null);
    signal.throwIfAborted();
    return verdicts;
  }

  // Resolve to { column, outcome, source }, like the server's `SearchService.hint`.
  async hint(moves, signal) {
    const played = this.columns(moves), entry = await this.entry(played);
    const columns = await this.quickExact(played, signal, HINT_SECONDS);
    if (columns) {
      const column = this.rules.best(columns), { score, outcome } = columns.find((item) => item.column === column);
      return { column, outcome: score ? outcome : "draws", source: "exact" };
    }
    if (entry) return { column: entry.column, outcome: describeBound("wins", Math.ceil(entry.plies / 2)), source: "proven" };
    const finished = new AbortController(), both = AbortSignal.any([signal, finished.signal]);
    const ranked = this.opponent.ask("rank", { moves: played }, both);
    ranked.catch(() => {}); // errors are thrown where it is awaited
    try {
      const { kept, lost } = await this.outcomes(played, within(both, OUTCOME_SECONDS));
      signal.throwIfAborted();
      if (kept) return { ...kept, source: "exact" };
      const order = await ranked;
      return { column: order.find((column) => !lost.includes(column)) ?? order[0], outcome: "", source: "the network's opinion" };
    } finally {
      finished.abort();
    }
  }

  // Resolve to the solver's results once they suffice or it is stopped: { kept: { column, outcome } of a move that keeps
  // the outcome, or null; lost: columns that lose }.
  async outcomes(moves, signal) {
    if (!this.settings.exact) return { kept: null, lost: [] };
    const judge = await this.judge(), position = this.rules.at(moves), enough = new AbortController();
    const found = new Map(), stopped = AbortSignal.any([signal, enough.signal]), legal = this.rules.legal(moves); // column -> 1, 0, -1
    const keeps = () => legal.find((column) => found.get(column) === 1 || (found.has(column) && found.get(column) === found.get("best")));
    const ask = async (key, sign, reached) => {
      found.set(key, sign * Math.sign(await judge.score(reached, stopped, true)) || 0);
      if (keeps() !== undefined) enough.abort();
    };
    const middle = (this.rules.columns - 1) / 2;
    const fromTheCentre = [...legal].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    await Promise.allSettled([ask("best", 1, position), ...fromTheCentre.map((column) => ask(column, -1, this.rules.play(position, column)))]);
    const column = keeps();
    return {
      kept: column === undefined ? null : { column, outcome: { 1: "wins", 0: "draws", "-1": "loses" }[found.get(column)] },
      lost: legal.filter((each) => found.get(each) === -1),
    };
  }

  // Resolve to the proof of a position that the side to move wins: { column, plies: maximum number to the win }, or
  // undefined. The export contains positions of few stones.
  async entry(moves) {
    const entries = await this.once("proofs", async () => new Map((await this.file("proofs.json")).map(([key, ...rest]) => [key, rest])));
    const position = this.rules.at(moves), image = this.rules.mirrored(position), { own, occupied } = image ?? position;
    const found = entries.get(Number(own + occupied));
    if (!found) return undefined;
    const [column, plies] = found;
    if (column >= 0) return { column: image ? this.rules.columns - 1 - column : column, plies };
    const wins = this.rules.winning(position.own, position.occupied);
    return { column: this.rules.legal(moves).find((each) => wins & this.rules.landing(position.occupied, each)), plies };
  }

  async proof(moves) {
    const played = this.columns(moves), side = played.length % 2, entry = await this.entry(played);
    if (entry) return { result: { side, ...entry } };
    const entries = await Promise.all(this.rules.legal(played).map((column) => this.entry([...played, column])));
    const known = entries.length && entries.every(Boolean);
    return { result: known ? { side: 1 - side, plies: 1 + Math.max(...entries.map(({ plies }) => plies)), column: null } : null };
  }

  node(moves, path) { return this.analyst.ask("node", { moves: this.columns(moves), path }); }

  async *analyze(moves, simulations, signal) {
    for await (const { analysis } of this.analyst.messages("analyze", { moves: this.columns(moves), simulations }, signal)) {
      if (analysis) yield analysis;
    }
  }
}

export const engine = new Local();
