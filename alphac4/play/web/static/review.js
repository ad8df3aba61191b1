// Review of the game on the board, with an exercise for each mistake: the board shows the position before it, and the
// best move is hidden until it is found or requested.

import { $, COLOURS, announce, counted, enable, onPress, percent } from "./dom.js";

export class Review {
  // onGo(ply) shows the position after `ply` moves, onBack(moves) the reviewed game.
  constructor({ game, values, engine, offered }, { onGo, onBack, onChange, onFail }) {
    Object.assign(this, { game, values, engine, offered, onGo, onChange, onFail });
    this.found = null;
    this.exercise = null; // number of the mistake, while the position before it is shown
    this.answered = new Set(); // mistakes whose better moves were found or shown
    this.wrong = new Set(); // columns tried for the current mistake
    this.verdict = ""; // on the last attempt
    onPress("review-ask", () => this.toggle());
    onPress("review-rest", () => this.toggle());
    onPress("review-show", () => this.reveal(""));
    onPress("review-again", () => {
      this.answered.delete(this.mistake.ply);
      this.ask(this.mistake.ply);
    });
    onPress("review-back", () => {
      const { found } = this, shared = game.moves.findIndex((column, ply) => found.moves[ply] !== game.rules.name(column));
      onBack(found.moves);
      if (found.mistakes.includes(shared + 1)) this.ask(shared + 1);
      else onGo(shared < 0 ? game.moves.length : shared);
    });
  }

  // The review if the game starts with the reviewed moves; else null.
  get current() { return this.found && this.game.rules.write(this.game.moves).startsWith(this.found.moves) ? this.found : null; }
  get isComplete() { return this.current?.moves.length === this.game.moves.length; }

  // The mistake of the exercise, or the one just made; else null.
  get mistake() {
    const ply = this.exercise ?? this.game.ply, { current } = this;
    return current?.mistakes.includes(ply) ? current.reviewed[ply - 1] : null;
  }

  // Whether the better moves are shown; some mistakes have none, because the solver's time ran out.
  get isRevealed() { return !this.mistake?.better.length || this.answered.has(this.mistake.ply); }
  get isOpen() { return this.exercise !== null && !this.isRevealed; }

  get question() {
    const verdict = this.verdict && `${this.verdict} `;
    return this.isOpen ? `${verdict}Find the best move for ${COLOURS[this.mistake.side]}.` : verdict.trim();
  }

  // Labels above the columns during an exercise.
  get labels() {
    const { mistake, wrong, game } = this, no = { text: "no", tone: "loss", spoken: "not best", isDisabled: true };
    const labels = new Map([...wrong].map((column) => [column, no]));
    const played = { text: mistake.mark, tone: "loss", spoken: `played, ${mistake.comment}`, isDisabled: this.isOpen };
    return labels.set(game.rules.names.indexOf(mistake.move), played);
  }

  ask(ply) {
    this.leave();
    this.exercise = ply;
    this.onGo(ply - 1);
  }

  // End the exercise.
  leave() {
    this.exercise = null;
    this.wrong.clear();
    this.verdict = "";
  }

  forget() {
    this.stop();
    this.leave();
    this.found = null;
    this.answered.clear();
  }

  guess(column) {
    const name = this.game.rules.name(column);
    if (this.mistake.better.includes(name)) return this.reveal(`Yes, ${name} is best.`);
    this.wrong.add(column);
    this.verdict = `No, ${name} is not best.`;
    this.onChange();
    announce(this.question);
  }

  reveal(verdict) {
    this.answered.add(this.mistake.ply);
    this.verdict = verdict;
    this.onChange();
    announce(`${verdict} Best: ${this.mistake.better.join(" or ")}.`);
  }

  stop() {
    this.running?.abort();
    this.running = null;
    $("review-ask").textContent = "Review";
  }

  async toggle() {
    if (this.running) return this.stop();
    const reviewed = this.game.rules.write(this.game.moves), controller = (this.running = new AbortController());
    $("review-ask").textContent = "Stop";
    this.onChange();
    try {
      for await (const line of this.engine.review(reviewed, controller.signal)) {
        if (this.running !== controller) return;
        if (line.reviewed) this.keep(line);
        else $("review-ask").textContent = `Stop (${Math.round((100 * line.done) / line.total)} %)`;
      }
    } catch (error) {
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle());
    } finally {
      if (this.running === controller) this.stop();
      this.onChange();
    }
  }

  // Store a review, and ask about the first mistake among the newly judged moves; with one person, only about theirs.
  keep(review) {
    const judged = this.current?.moves.length ?? 0, { people } = this.game;
    this.found = review;
    review.values.forEach((value, ply) => this.values.set(review.moves.slice(0, ply), value));
    if (!this.current) return;
    if (!judged) this.answered.clear();
    const first = review.mistakes.find((ply) => ply > judged && (people.length !== 1 || people[0] === review.reviewed[ply - 1].side));
    if (first) this.ask(first);
    const accuracy = review.sides.map(({ accuracy: share }, side) => `${COLOURS[side]} ${share === null ? "not judged" : percent(share / 100)}`);
    announce(`The review is ready. Accuracy: ${accuracy.join(", ")}; ${counted(review.mistakes.length, "mistake")}. ${this.question}`);
  }

  show() {
    const { game, current, running, isRevealed, mistake } = this, length = game.moves.length;
    $("review-ask").hidden = !this.offered;
    enable("review-ask", running || (length > 0 && !this.isComplete));
    $("outdated").hidden = !current || this.isComplete || Boolean(running);
    if (current) $("outdated").firstElementChild.textContent = `Judged up to move ${current.moves.length} of ${length}.`;
    $("review-show").hidden = !mistake || isRevealed;
    $("review-again").hidden = !mistake?.better.length || this.isOpen;
    $("review-back").hidden = !this.found || Boolean(current);
  }
}
