// Review of the game on the board, with an exercise for each mistake: the board shows the position before it, and the
// best move is hidden until it is found or requested.

import { $, COLOURS, announce, counted, enable, onPress, percent, relabel } from "../dom.js";
import { Notes, betterCells } from "./notes.js";
import { requestReview } from "./source.js";

export const create = (page) => new Review(page);

class Review {
  constructor(page) {
    Object.assign(this, { page, game: page.game });
    this.notes = new Notes(page.record, { onMistake: (ply) => this.ask(ply), onLine: (...line) => this.showLine(...line) });
    this.found = null;
    this.asked = null; // number of the mistake, while the position before it is shown
    this.answered = new Set(); // mistakes whose better moves were found or shown
    this.wrong = new Map(); // column tried for the current mistake -> its label
    this.verdict = ""; // on the last attempt
    onPress("review-ask", () => this.toggle());
    onPress("review-rest", () => this.toggle());
    onPress("review-show", () => this.reveal(""));
    onPress("review-again", () => {
      this.answered.delete(this.mistake.ply);
      this.ask(this.mistake.ply);
    });
    onPress("review-back", () => this.goBack());
  }

  // The review if the game starts with the reviewed moves; else null.
  get current() { return this.found && this.game.rules.write(this.game.moves).startsWith(this.found.moves) ? this.found : null; }
  get isComplete() { return this.current?.moves.length === this.game.moves.length; }

  // The mistake of the exercise, or the one just made; else null.
  get mistake() {
    const { current, described } = this;
    return current?.mistakes.includes(described) ? current.reviewed[described - 1] : null;
  }

  // The move that the text describes: the mistake of the exercise, else the last move.
  get described() { return this.asked ?? this.game.ply; }

  // Whether the better moves are shown; some mistakes have none, because the solver's time ran out.
  get isRevealed() { return !this.mistake?.better.length || this.answered.has(this.mistake.ply); }
  get isOpen() { return this.asked !== null && !this.isRevealed; }

  get exercise() {
    if (this.asked === null) return null;
    return { text: this.question, labels: this.labels, guess: this.isOpen ? (column) => this.guess(column) : null };
  }

  get marks() { return this.mistake && this.isRevealed ? betterCells(this.game.rules, this.game.moves, this.mistake) : []; }

  get state() { return this.found ?? undefined; }

  set state(found) {
    this.stop();
    if (found?.moves !== this.found?.moves) this.answered.clear();
    this.store(Array.isArray(found?.reviewed) ? found : null); // another version of the page may have stored something else
  }

  store(review) {
    this.found = review;
    review?.values.forEach((value, ply) => this.page.values.set(review.moves.slice(0, ply), value));
  }

  get question() {
    const verdict = this.verdict && `${this.verdict} `;
    return this.isOpen ? `${verdict}Find a better move for ${COLOURS[this.mistake.side]}.` : verdict.trim();
  }

  // Labels above the columns during an exercise.
  get labels() {
    const { mistake, wrong, game } = this, labels = new Map(wrong);
    const played = { text: mistake.mark, tone: "loss", spoken: `played, ${mistake.comment}`, isDisabled: this.isOpen };
    return labels.set(game.rules.names.indexOf(mistake.move), played);
  }

  ask(ply) {
    this.leave();
    this.asked = ply;
    this.page.go(ply - 1);
  }

  showLine(ply, line, shown) {
    const { game, page } = this;
    this.leave();
    game.load([...game.moves.slice(0, ply - 1), ...line], { ply: ply - 1 + shown, paused: true, shared: false });
    page.update();
    $("forward").focus(); // the arrow keys step through the line
    announce($("status").textContent);
  }

  // Show the reviewed game again.
  goBack() {
    const { found, game, page } = this, shared = game.moves.findIndex((column, ply) => found.moves[ply] !== game.rules.name(column));
    game.load(game.rules.read(found.moves), { paused: false });
    if (found.mistakes.includes(shared + 1)) this.ask(shared + 1);
    else page.go(shared < 0 ? game.moves.length : shared);
  }

  // End the exercise.
  leave() {
    this.asked = null;
    this.wrong.clear();
    this.verdict = "";
  }

  // Accept a move that keeps the outcome; label another one with its result.
  guess(column) {
    const name = this.game.rules.name(column), { better, best, columns } = this.mistake, found = columns[name];
    if (better.includes(name)) return this.reveal(`Yes, ${name} is best.`);
    if (found && Math.sign(found.score) === Math.sign(best.score))
      return this.reveal(`Yes, ${name} also wins, ${counted(found.moves - best.moves, "move")} later.`);
    const text = found?.score ? found.text : found ? "only draws" : "is not best"; // without a result, time ran out
    const label = found?.score ? `loss ${found.moves}` : found ? "draw" : "no";
    this.wrong.set(column, { text: label, tone: found && !found.score ? "draw" : "loss", spoken: text, isDisabled: true });
    this.verdict = `No, ${name} ${text}.`;
    this.change();
    announce(this.question);
  }

  reveal(verdict) {
    this.answered.add(this.mistake.ply);
    this.verdict = verdict;
    this.change();
    announce(`${verdict} Best: ${this.mistake.better.join(" or ")}.`);
  }

  change() {
    this.page.show();
    this.page.analyse();
  }

  stop() {
    this.running?.abort();
    this.running = null;
    relabel("review-ask", "Review");
  }

  async toggle() {
    if (this.running) return this.stop();
    const reviewed = this.game.rules.write(this.game.moves), controller = (this.running = new AbortController());
    relabel("review-ask", "Stop");
    this.change();
    try {
      for await (const line of requestReview(this.page.engine, reviewed, controller.signal)) {
        if (this.running !== controller) return;
        if (line.reviewed) this.keep(line);
        else relabel("review-ask", `Stop (${Math.round((100 * line.done) / line.total)} %)`);
      }
    } catch (error) {
      if (error.name !== "AbortError") this.page.fail(error, () => this.toggle());
    } finally {
      if (this.running === controller) this.stop();
      this.change();
    }
  }

  // Store a review, and ask about the first mistake among the newly judged moves; with one person, only about theirs.
  keep(review) {
    const judged = this.current?.moves.length ?? 0, { people } = this.game;
    this.store(review);
    if (!this.current) return;
    if (!judged) this.answered.clear();
    const first = review.mistakes.find((ply) => ply > judged && (people.length !== 1 || people[0] === review.reviewed[ply - 1].side));
    if (first) this.ask(first);
    else this.page.update(); // which stores the review
    const accuracy = review.sides.map(({ accuracy: share }, side) => `${COLOURS[side]} ${share === null ? "not judged" : percent(share / 100)}`);
    announce(`The review is ready. Accuracy: ${accuracy.join(", ")}; ${counted(review.mistakes.length, "mistake")}. ${this.question}`);
  }

  show() {
    const { game, current, running, isRevealed, mistake, described } = this, length = game.moves.length;
    this.notes.show({ review: current, described, isRevealed });
    $("review-ask").hidden = !this.page.setup.exact;
    enable("review-ask", running || (length > 0 && !this.isComplete));
    $("outdated").hidden = !current || this.isComplete || Boolean(running);
    if (current) $("outdated").firstElementChild.textContent = `Judged up to stone ${current.moves.length} of ${length}.`;
    $("review-show").hidden = !mistake || isRevealed;
    $("review-again").hidden = !mistake?.better.length || this.isOpen;
    $("review-back").hidden = !this.found || Boolean(current);
  }
}
