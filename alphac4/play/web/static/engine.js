// The page's engine on the server.

class Remote {
  constructor() {
    this.session = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
  }

  async ask(name, body, signal) {
    const response = await fetch(`api/${name}`, {
      method: body ? "POST" : "GET",
      body: body && JSON.stringify({ ...body, session: this.session }),
      headers: body ? { "Content-Type": "application/json" } : {},
      signal,
    }).catch((error) => lost(error, signal));
    if (!response.ok) {
      const { error } = await response.json().catch(() => ({ error: response.statusText }));
      throw new Error(error);
    }
    return response;
  }

  async setup() { return (await this.ask("setup")).json(); }
  async move(moves, level, signal) { return (await this.ask("move", { moves, level }, signal)).json(); }
  async exact(moves, signal) { return (await this.ask("exact", { moves }, signal)).json(); }
  async hint(moves, signal) { return (await this.ask("hint", { moves }, signal)).json(); }
  async proof(moves, signal) { return (await this.ask("proof", { moves }, signal)).json(); }
  async node(moves, path) { return (await this.ask("node", { moves, path })).json(); }

  // Yield analyses during the search; the last one is `finished`.
  analyze(moves, simulations, signal) { return this.lines("analyze", { moves, simulations }, signal); }

  // Yield the objects of a streamed answer.
  async *lines(name, body, signal) {
    const response = await this.ask(name, body, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch((error) => lost(error, signal));
      if (done) return;
      text += value;
      const lines = text.split("\n");
      text = lines.pop();
      for (const line of lines.filter(Boolean)) {
        const item = JSON.parse(line);
        if (item.error) throw new Error(item.error);
        yield item;
      }
    }
  }
}

// Throw an AbortError for a stopped request, and another error for an unreachable server.
function lost(error, signal) {
  if (signal?.aborted || error.name === "AbortError") throw new DOMException("stopped", "AbortError");
  throw new Error("The server does not answer. Is it still running?");
}

export const engine = new Remote();
