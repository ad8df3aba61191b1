// The engine behind the page, in the page itself: a worker with the network and the search.

class Local {
  constructor() {
    this.worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    this.listeners = new Map();
    this.count = 0;
    this.ready = new Promise((resolve, reject) => {
      this.worker.addEventListener("message", ({ data }) => (data.ready ? resolve() : this.listeners.get(data.id)?.(data)));
      this.worker.addEventListener("error", (event) => reject(new Error(event.message?.replace("Uncaught Error: ", "") || "The network cannot be loaded.")));
    });
  }

  async setup() {
    const response = await fetch(new URL("../setup.json", import.meta.url));
    await this.ready;
    const setup = await response.json();
    this.names = setup.column_names;
    return setup;
  }

  // Messages of the worker for this request, until its answer.
  async *messages(kind, request, signal) {
    const id = ++this.count, waiting = [];
    let wake = () => {};
    const stop = () => {
      this.worker.postMessage({ id, kind: "stop" });
      waiting.push({ aborted: true });
      wake();
    };
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

  columns(moves) { return [...moves].map((name) => this.names.indexOf(name)); }

  move(moves, level, signal) { return this.ask("move", { moves: this.columns(moves), level }, signal); }
  node(moves, path) { return this.ask("node", { moves: this.columns(moves), path }); }

  async *analyze(moves, simulations, signal) {
    for await (const { analysis } of this.messages("analyze", { moves: this.columns(moves), simulations }, signal)) {
      if (analysis) yield analysis;
    }
  }
}

export const engine = new Local();
