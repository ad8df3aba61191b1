// A review of the game on the board, from asking for it to another try from a mistake, and back.

import { $, COLOURS, announce, counted, enable, onPress, percent } from "./dom.js";

export class Review {
  // onAgain(ply) plays on from there, onBack(moves, ply) shows it in the game that was reviewed.
  constructor({ game, values, engine, offered }, { onAgain, onBack, onChange, onFail }) {
    Object.assign(this, { game, values, engine, offered, onChange, onFail });
    this.found = null;
    this.left = null; // the number of moves after which the reviewed game was left, to try another one
    this.verdict = ""; // on that try
    onPress("review-ask", () => this.toggle());
    onPress("review-again", () => onAgain((this.left = this.game.ply - 1)));
    onPress("review-back", () => onBack(this.found.moves, this.left + 1));
  }

  // The review, as far as the game is still the one that was reviewed; else null.
  get current() {
    const { rules, moves } = this.game;
    return this.found && rules.write(moves).startsWith(this.found.moves) ? this.found : null;
  }

  // Whether another move is to be found where the reviewed game was left; also once a try has been taken back.
  get again() { return this.left === this.game.ply && this.game.text === this.found.moves.slice(0, this.left); }

  // Somebody tries another move there, of which the review knows whether it is better.
  judge(column) {
    const { better } = this.found.reviewed[this.left], name = this.game.rules.name(column);
    this.verdict = !better.length ? "" : better.includes(name) ? `Yes, ${name} is better. ` : `No, ${name} is no better. `;
  }

  // What is said of the try, until the answer to it is answered.
  get tried() { return this.away && this.game.ply <= this.left + 2 ? this.verdict : ""; }

  // Somebody steps through the reviewed game.
  stay() { if (this.current) this.left = null; }

  // Whether the game goes on from where the reviewed one was left.
  get away() {
    const { rules, shown } = this.game;
    return this.left !== null && !this.current && rules.write(shown).startsWith(this.found.moves.slice(0, this.left));
  }

  stop() {
    this.running?.abort();
    this.running = null;
    $("review-ask").textContent = "Review";
  }

  async toggle() {
    if (this.running) return this.stop();
    const asked = this.game.rules.write(this.game.moves), controller = (this.running = new AbortController());
    $("review-ask").textContent = "Stop";
    try {
      for await (const line of this.engine.review(asked, controller.signal)) {
        if (this.running !== controller) return;
        if (line.reviewed) this.keep(line);
        else $("review-ask").textContent = `Stop ${line.done}/${line.total}`;
      }
    } catch (error) {
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle());
    } finally {
      if (this.running === controller) this.stop();
      this.onChange();
    }
  }

  keep(review) {
    this.found = review;
    this.left = null;
    review.values.forEach((value, ply) => this.values.set(review.moves.slice(0, ply), value));
    const accuracy = review.sides.map(({ accuracy: share }, side) => `${COLOURS[side]} ${share === null ? "not judged" : percent(share / 100)}`);
    announce(`The review is ready. Accuracy: ${accuracy.join(", ")}; ${counted(review.turning_points.length, "mistake")}.`);
  }

  show() {
    const { game, current } = this;
    $("review-ask").classList.toggle("strong", Boolean(game.result) && !current);
    $("review-ask").hidden = !this.offered;
    enable("review-ask", this.running || (game.moves.length > 0 && current?.moves !== game.rules.write(game.moves)));
    $("review-again").hidden = this.again || !current?.turning_points.includes(game.ply);
    $("review-back").hidden = !this.away;
  }
}
