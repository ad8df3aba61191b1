// Review of the game on the board, with an exercise for each mistake of the person: the board shows the position before
// it, and the best move is hidden until it is found or requested.

import { $, COLOURS, announce, counted, enable, onPress, percent, relabel } from "../dom.js";
import { KeptReviews } from "./kept.js";
import { Notes, betterCells } from "./notes.js";
import { requestReview } from "./source.js";

export const create = (page) => new Review(page);

class Review {
  constructor(page) {
    Object.assign(this, { page, game: page.game, kept: new KeptReviews(page.setup) });
    this.notes = new Notes(page.record, { onMistake: (ply) => this.ask(ply), onLine: (...line) => this.showLine(...line) });
    this.found = null; // finished review, with the answers: whether the person found a better move, by mistake
    this.partial = null; // the review so far, while it is running
    this.asked = null; // number of the mistake, while the position before it is shown
    this.wrong = new Map(); // column tried for the current mistake -> its label
    this.verdict = ""; // on the last attempt
    onPress("review-ask", () => this.toggle());
    onPress("review-rest", () => this.toggle());
    onPress("review-show", () => this.reveal("", false));
    onPress("review-again", () => {
      delete this.answers[this.mistake.ply];
      this.ask(this.mistake.ply);
    });
    onPress("review-play", () => {
      page.open(this.game.shown);
      page.board.focus();
    });
    onPress("review-back", () => this.goBack());
  }

  // The review if the game starts with the reviewed moves; else null.
  get current() {
    const review = this.partial ?? this.found;
    return review && this.game.rules.write(this.game.moves).startsWith(review.moves) ? review : null;
  }
  get isComplete() { return this.current?.moves.length === this.game.moves.length; }
  get answers() { return this.current?.answers ?? {}; }

  // The person's side; null if there is none, or if two people play.
  get own() { return this.game.people.length === 1 ? this.game.people[0] : null; }

  // The person's mistakes, or else those of both sides.
  get mistakes() {
    const { current, own } = this;
    return (current?.mistakes ?? []).filter((ply) => own === null || current.reviewed[ply - 1].side === own);
  }

  // The mistakes with a known better move, which some lack because the solver's time ran out.
  get lessons() { return this.mistakes.filter((ply) => this.current.reviewed[ply - 1].better.length); }

  // The mistake of the exercise, or the one just made; else null.
  get mistake() {
    const { current, described } = this;
    return current?.mistakes.includes(described) ? current.reviewed[described - 1] : null;
  }

  // The move that the text describes: the mistake of the exercise, else the last move.
  get described() { return this.asked ?? this.game.ply; }

  // Whether the better moves are shown: of the other side's mistakes, and of answered ones.
  get isRevealed() { return !this.lessons.includes(this.described) || this.described in this.answers; }
  get isOpen() { return this.asked !== null && !this.isRevealed; }

  get exercise() {
    const { partial } = this;
    if (this.asked === null) return this.running && { text: `Reviewing … ${partial ? percent(partial.done / partial.total) : ""}` };
    return { text: this.question, labels: this.labels, guess: this.isOpen ? (column) => this.guess(column) : null };
  }

  get marks() { return this.mistake && this.isRevealed ? betterCells(this.game.rules, this.game.moves, this.mistake) : []; }

  // The moves of the finished review. A game without state, such as that of a link, may have been reviewed earlier.
  get state() { return this.found?.moves; }
  set state(moves) {
    this.stop();
    this.found = this.kept.find(moves) ?? this.kept.find(this.game.rules.write(this.game.moves));
    if (this.found) this.showValues(this.found);
  }

  // Add the network's values to the curve; those of an unfinished review may be null.
  showValues({ moves, values }) {
    values.forEach((value, ply) => value !== null && this.page.values.set(moves.slice(0, ply), value));
  }

  get question() {
    const verdict = this.verdict && `${this.verdict} `;
    return this.isOpen ? `${verdict}Find a better move for ${COLOURS[this.mistake.side]}.` : `${verdict}${this.summary}`.trim();
  }

  // The result of the lessons, once all are answered; else empty.
  get summary() {
    const { current, own, lessons, answers } = this;
    if (!current || this.partial) return "";
    if (own !== null && !this.mistakes.length) return current.unjudged || !this.isComplete ? "You made no mistake among the judged moves." : "You made no mistake.";
    if (!lessons.length || !lessons.every((ply) => ply in answers)) return "";
    return `You found ${lessons.filter((ply) => answers[ply]).length} of ${lessons.length}.`;
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
    if (better.includes(name)) return this.reveal(`Yes, ${name} is best.`, true);
    if (found && Math.sign(found.score) === Math.sign(best.score))
      return this.reveal(`Yes, ${name} also wins, ${counted(found.moves - best.moves, "move")} later.`, true);
    const text = found?.score ? found.text : found ? "only draws" : "is not best"; // without a result, time ran out
    const label = found?.score ? `loss ${found.moves}` : found ? "draw" : "no";
    this.wrong.set(column, { text: label, tone: found && !found.score ? "draw" : "loss", spoken: text, isDisabled: true });
    this.verdict = `No, ${name} ${text}.`;
    this.change();
    announce(this.question);
  }

  reveal(verdict, isFound) {
    this.answers[this.mistake.ply] = isFound;
    if (!this.partial) this.kept.keep(this.found);
    this.verdict = verdict;
    this.change();
    announce(`${verdict} Best: ${this.mistake.better.join(" or ")}. ${this.summary}`);
  }

  change() {
    this.page.show();
    this.page.analyse();
  }

  stop() {
    this.running?.abort();
    this.running = this.partial = null;
    relabel("review-ask", "Review");
  }

  async toggle() {
    if (this.running) {
      this.stop();
      return this.change();
    }
    const reviewed = this.game.rules.write(this.game.moves), controller = (this.running = new AbortController());
    const { answers } = this;
    relabel("review-ask", "Stop");
    this.change();
    try {
      for await (const line of requestReview(this.page.engine, reviewed, controller.signal)) {
        if (this.running !== controller) return;
        const review = { ...line, answers };
        this.showValues(review);
        if (line.done === undefined) this.finish(review);
        else this.partial = review;
        this.page.show();
      }
    } catch (error) {
      if (error.name !== "AbortError") this.page.fail(error, () => this.toggle());
    } finally {
      if (this.running === controller) {
        this.stop();
        this.change();
      }
    }
  }

  // Keep a review, and begin with the first lesson of the newly judged moves.
  finish(review) {
    const judged = this.found && review.moves.startsWith(this.found.moves) ? this.found.moves.length : 0;
    this.stop();
    this.found = review;
    this.kept.keep(review);
    if (!this.current || $("tools").hidden) return; // another game or another mode is shown
    const { lessons, own } = this, first = lessons.find((ply) => ply > judged);
    if (first && this.asked === null) this.ask(first);
    else this.page.update(); // which stores the review's moves
    const accuracy = review.sides.map(({ accuracy: share }, side) => `${COLOURS[side]} ${share === null ? "not judged" : percent(share / 100)}`);
    announce(`The review is ready. Accuracy: ${accuracy.join(", ")}; ${counted(this.mistakes.length, "mistake")}${own === null ? "" : " of yours"}. ${this.question}`);
  }

  show() {
    const { game, current, partial, running, isRevealed, mistake, described, lessons, answers } = this, length = game.moves.length;
    this.notes.show({ review: current, described, isRevealed, lessons, noun: this.own === null ? "Mistake" : "Your mistake" });
    $("review-ask").hidden = !this.page.setup.exact;
    enable("review-ask", running || (length > 0 && !this.isComplete));
    $("outdated").hidden = !current || this.isComplete || Boolean(running);
    if (current) $("outdated").firstElementChild.textContent = `Judged up to stone ${current.moves.length} of ${length}.`;
    $("review-summary").textContent = this.summary;
    $("review-show").hidden = !mistake || isRevealed;
    $("review-again").hidden = !mistake || this.isOpen || !(mistake.ply in answers);
    $("review-play").hidden = this.asked === null || this.isOpen;
    $("review-back").hidden = !this.found || Boolean(partial) || Boolean(current);
  }
}
