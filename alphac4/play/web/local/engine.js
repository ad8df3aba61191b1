// The engine behind the page, in the page itself: the opponent and the analysis search in a worker each, the exact
// solver in a few.

import { Judge } from "./judge.js";
import { reviewGame } from "./reviewer.js";
import { Rules } from "./rules.js";

const MASTER_SECONDS = 10; // for which it looks for a certain win where the certificate ends

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

  // Messages of the worker for this request, until its answer.
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
  made = {}; // promises, see `once`

  async setup() {
    const worker = new URL("../offline.js", import.meta.url);
    navigator.serviceWorker?.register(worker).catch(() => {}); // forbidden in this browser: the page needs the network then
    this.opponent = new Searcher();
    const [setup] = await Promise.all([this.file("setup.json"), this.opponent.ready]);
    this.rules = new Rules(setup);
    this.told = setup;
    return setup;
  }

  // Made at its first use: it loads the network once more.
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

  // What `make` promises, made once; what failed is made anew for whoever asks next.
  once(name, make) {
    return (this.made[name] ??= make().catch((error) => {
      delete this.made[name];
      throw error;
    }));
  }

  puzzles() { return this.file("puzzles.json"); }

  columns(moves) { return [...moves].map((name) => this.rules.names.indexOf(name)); }

  async exact(moves, signal) { return { columns: await (await this.judge()).columns(this.columns(moves), signal) }; }

  judge() {
    return this.once("judge", async () => new Judge(this.told, await this.file("book.json")));
  }

  async move(moves, level, signal) {
    const asked = { moves: this.columns(moves), level }, { perfect, certified } = this.told.levels.find(({ name }) => name === level);
    if (perfect) return { column: this.any(await (await this.judge()).columns(asked.moves, signal)), player: level };
    // The first player, and the second after a first move that gives the game away, plays on to a win.
    if (certified && (moves.length % 2 === 0 || (await this.entry(asked.moves.slice(0, 1))))) {
      const column = (await this.entry(asked.moves))?.column ?? (await this.certainWin(asked.moves, signal));
      if (column !== undefined) return { column, player: level };
    }
    return this.opponent.ask("move", asked, signal);
  }

  any(verdicts) {
    const best = verdicts.filter((item) => item.best);
    return best[Math.floor(best.length * Math.random())].column;
  }

  // A winning move that the solver finds soon; undefined if it does not.
  async certainWin(moves, signal) {
    if (!this.told.exact) return undefined;
    const late = AbortSignal.any([signal, AbortSignal.timeout(1000 * MASTER_SECONDS)]);
    const verdicts = await (await this.judge()).columns(moves, late).catch(() => []);
    signal.throwIfAborted();
    return verdicts.some((item) => item.best && item.score > 0) ? this.any(verdicts) : undefined;
  }

  // What the certificates say of a position in which the player of one of them is to move: { column, plies } to the win
  // at the latest. They come with the positions of few stones.
  async entry(moves) {
    const entries = await this.once("certificate", async () => new Map((await this.file("certificate.json")).map(([key, ...rest]) => [key, rest])));
    const position = this.rules.at(moves), image = this.rules.mirrored(position), { own, occupied } = image ?? position;
    const found = entries.get(Number(own + occupied));
    if (!found) return undefined;
    const [column, plies] = found;
    if (column >= 0) return { column: image ? this.rules.columns - 1 - column : column, plies };
    const wins = this.rules.winning(position.own, position.occupied);
    return { column: this.rules.legal(moves).find((each) => wins & this.rules.landing(position.occupied, each)), plies };
  }

  async certificate(moves) {
    const played = this.columns(moves), side = played.length % 2, entry = await this.entry(played);
    if (entry) return { result: { side, ...entry } };
    const entries = await Promise.all(this.rules.legal(played).map((column) => this.entry([...played, column])));
    const known = entries.length && entries.every(Boolean);
    return { result: known ? { side: 1 - side, plies: 1 + Math.max(...entries.map(({ plies }) => plies)), column: null } : null };
  }

  async *review(moves, signal) {
    const judge = await this.judge();
    yield* reviewGame(this.columns(moves), this.told, {
      score: (position) => judge.score(position, signal),
      opinion: (before) => this.opponent.ask("opinion", { moves: before }, signal),
    });
  }

  node(moves, path) { return this.analyst.ask("node", { moves: this.columns(moves), path }); }

  async *analyze(moves, simulations, signal) {
    for await (const { analysis } of this.analyst.messages("analyze", { moves: this.columns(moves), simulations }, signal)) {
      if (analysis) yield analysis;
    }
  }
}

export const engine = new Local();
