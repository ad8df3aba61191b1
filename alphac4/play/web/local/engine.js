// The engine behind the page, in the page itself: the opponent and the analysis search in a worker each.

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

const EXACT_SECONDS = 120;

// The exact solver in a worker, which keeps what it has found until it is stopped.
class Judge {
  constructor(setup, book) {
    Object.assign(this, { setup, book });
  }

  solve(moves, signal) {
    this.worker ??= new Worker(new URL("./exact_worker.js", import.meta.url), { type: "module" });
    return new Promise((resolve, reject) => {
      const end = (error) => {
        clearTimeout(clock);
        signal?.removeEventListener("abort", stop);
        if (!error) return;
        this.worker.terminate();
        this.worker = null;
        reject(error);
      };
      const stop = () => end(new DOMException("stopped", "AbortError"));
      const clock = setTimeout(() => end(new Error(`no answer within ${EXACT_SECONDS} seconds`)), 1000 * EXACT_SECONDS);
      signal?.addEventListener("abort", stop);
      this.worker.onmessage = ({ data }) => (end(), resolve(data));
      this.worker.onerror = (event) => end(new Error(event.message));
      this.worker.postMessage({ setup: this.setup, book: this.book, moves });
    });
  }
}

class Local {
  async setup() {
    this.opponent = new Searcher();
    const [setup] = await Promise.all([this.file("setup.json"), this.opponent.ready]);
    this.names = setup.column_names;
    this.told = setup;
    return setup;
  }

  // Made at its first use: it loads the network once more.
  get analyst() { return (this.searcher ??= new Searcher()); }

  async file(name) { return (await fetch(new URL(`../${name}`, import.meta.url))).json(); }
  puzzles() { return this.file("puzzles.json"); }

  columns(moves) { return [...moves].map((name) => this.names.indexOf(name)); }

  // One question after the other.
  exact(moves, signal) {
    const asked = Promise.resolve(this.lastAsked).catch(() => {}).then(async () => {
      if (signal?.aborted) throw new DOMException("stopped", "AbortError");
      this.judge ??= new Judge(this.told, await this.file("book.json"));
      return { columns: await this.judge.solve(this.columns(moves), signal) };
    });
    this.lastAsked = asked;
    return asked;
  }

  move(moves, level, signal) { return this.opponent.ask("move", { moves: this.columns(moves), level }, signal); }
  node(moves, path) { return this.analyst.ask("node", { moves: this.columns(moves), path }); }

  async *analyze(moves, simulations, signal) {
    for await (const { analysis } of this.analyst.messages("analyze", { moves: this.columns(moves), simulations }, signal)) {
      if (analysis) yield analysis;
    }
  }
}

export const engine = new Local();
