// Queue of positions for the exact solver, whose workers solve the moves of a position in parallel.

import { Rules } from "./rules.js";
import { describe, movesToEnd } from "./exact.js";

const MAX_WORKERS = 4; // each with its own table

export class Judge {
  constructor(setup, book) {
    Object.assign(this, { setup, book, board: new Rules(setup) });
    this.waiting = []; // { position, weak, signal, leave, resolve, reject }, first in, first out
    this.idle = [];
    this.workers = this.count = 0;
  }

  // Resolve to the exact score of { own, occupied } for the side to move; if weak, only its sign is exact.
  score(position, signal, weak = false) {
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.waiting.splice(this.waiting.indexOf(question), 1);
        reject(new DOMException("stopped", "AbortError"));
      };
      const question = { position, weak, signal, leave, resolve, reject };
      this.waiting.push(question);
      if (signal?.aborted) return leave();
      signal?.addEventListener("abort", leave);
      this.serve();
    });
  }

  serve() {
    while (this.waiting.length) {
      if (!this.idle.length && this.workers < Math.min(MAX_WORKERS, navigator.hardwareConcurrency || 2)) {
        const worker = new Worker(new URL("./exact_worker.js", import.meta.url), { type: "module" });
        worker.postMessage({ setup: this.setup, book: this.book });
        this.idle.push(worker);
        this.workers += 1;
      }
      if (!this.idle.length) return;
      this.hand(this.idle.pop(), this.waiting.shift());
    }
  }

  hand(worker, { position, weak, signal, leave, resolve, reject }) {
    const id = ++this.count;
    signal?.removeEventListener("abort", leave);
    const end = (settle, value) => {
      signal?.removeEventListener("abort", stop);
      worker.onmessage = worker.onerror = null;
      settle(value);
      this.serve();
    };
    const fail = (message) => { // the next position gets a new worker
      worker.terminate();
      this.workers -= 1;
      end(reject, new Error(message));
    };
    const stop = () => {
      worker.postMessage({});
      this.idle.push(worker);
      end(reject, new DOMException("stopped", "AbortError"));
    };
    signal?.addEventListener("abort", stop);
    worker.onmessage = ({ data }) => {
      if (data.id !== id) return; // answer to a stopped request
      if (data.error) return fail(data.error);
      this.idle.push(worker);
      end(resolve, data.score);
    };
    worker.onerror = (event) => fail(event.message || "The solver cannot be loaded.");
    worker.postMessage({ id, position, weak });
  }

  // Resolve to { column, score, outcome, best } of each legal move, like the server's solver. onSolved(done, total) is
  // called after each of them.
  async columns(moves, signal, onSolved) {
    const { board, setup } = this, position = board.at(moves);
    const legal = [...Array(setup.columns).keys()].filter((column) => board.landing(position.occupied, column));
    let done = 0;
    const scores = await Promise.all(legal.map(async (column) => {
      const score = await this.score(board.play(position, column), signal);
      onSolved?.(++done, legal.length);
      return -score || 0;
    }));
    return legal.map((column, index) => {
      const score = scores[index];
      return { column, score, outcome: describe(score, movesToEnd(setup, moves.length, score)), best: score === Math.max(...scores) };
    });
  }
}
