// A review of the game on the board: every move judged by the solver, and a way from mistake to mistake.

import { $, COLOURS, announce, enable, onPress } from "./dom.js";

export class Review {
  // onGo(ply) shows the position after so many moves, onAgain(ply) plays on from there, and onBack(moves, ply) shows it
  // in the game that was reviewed.
  constructor({ game, record, engine, offered }, { onGo, onAgain, onBack, onChange, onFail }) {
    Object.assign(this, { game, record, engine, offered, onChange, onFail });
    this.found = null;
    this.left = null; // the number of moves after which the reviewed game was left, to try another one
    onPress("review-ask", () => this.toggle());
    onPress("review-previous", () => onGo(this.mistake(-1)));
    onPress("review-next", () => onGo(this.mistake(1)));
    onPress("review-again", () => onAgain((this.left = this.game.ply - 1)));
    onPress("review-back", () => onBack(this.found.moves, this.left + 1));
  }

  // The judged moves, as far as the game is still the one that was reviewed.
  get reviewed() {
    const { rules, moves } = this.game, same = this.found && rules.write(moves).startsWith(this.found.moves);
    return same ? this.found.reviewed : [];
  }

  // Whether the game goes on from where the reviewed one was left.
  get away() {
    const { rules, shown } = this.game;
    return this.left !== null && !this.reviewed.length && rules.write(shown).startsWith(this.found.moves.slice(0, this.left));
  }

  get current() { return this.reviewed[this.game.ply - 1]; }

  // The number of moves after which the next mistake in this direction has been made; undefined if there is none.
  mistake(direction) {
    const plies = this.reviewed.filter((move) => move.slips).map((move) => move.ply);
    return direction > 0 ? plies.find((ply) => ply > this.game.ply) : plies.findLast((ply) => ply < this.game.ply);
  }

  // Where better moves than the one just made would have landed.
  get better() {
    const { rules, shown } = this.game, before = rules.grid(shown.slice(0, -1));
    return (this.current?.better ?? [])
      .map((name) => rules.names.indexOf(name))
      .map((column) => ({ column, row: before[column].length }));
  }

  stop() {
    this.running?.abort();
    this.running = null;
    $("review-ask").textContent = "Review";
  }

  async toggle() {
    if (this.running) return this.stop();
    const asked = this.game.rules.write(this.game.moves), controller = (this.running = new AbortController());
    $("review-ask").textContent = "Stop review";
    $("review-summary").textContent = "Reviewing …";
    try {
      for await (const line of this.engine.review(asked, controller.signal)) {
        if (this.running !== controller) return;
        if (line.reviewed) this.keep(line);
        else {
          const solved = line.done < line.total ? `${line.done} of ${line.total} positions solved` : "looking for better moves";
          $("review-summary").textContent = `Reviewing: ${solved} …`;
        }
      }
    } catch (error) {
      $("review-summary").textContent = "";
      if (error.name !== "AbortError") this.onFail(error, () => this.toggle());
    } finally {
      if (this.running === controller) this.stop();
      this.onChange();
    }
  }

  keep(review) {
    this.found = review;
    this.left = null;
    for (const move of review.reviewed) move.slips = review.turning_points.includes(move.ply);
    review.values.forEach((value, ply) => this.record.values.set(review.moves.slice(0, ply), value));
    announce(`The review is ready. ${this.summary()}`);
  }

  summary() {
    const { sides, turning_points: points, unjudged, unmended } = this.found;
    const accuracy = sides.map(({ accuracy: share }, side) => `${COLOURS[side]} ${share === null ? "not judged" : `${Math.round(share)}\u00a0%`}`).join(", ");
    const mistakes = points.length ? `${points.length} ${points.length === 1 ? "mistake" : "mistakes"}` : "no mistakes";
    return `Accuracy: ${accuracy}; ${mistakes}.${unjudged ? ` ${unjudged} of the first moves would have taken too long to judge.` : ""}${unmended ? ` For ${unmended} there was no time to find the better moves.` : ""}`;
  }

  show() {
    const { game, current } = this, reviewed = this.reviewed.length > 0;
    $("review-ask").classList.toggle("strong", Boolean(game.result));
    $("review-ask").hidden = !this.offered;
    enable("review-ask", this.running || (game.moves.length > 0 && !reviewed));
    for (const [id, ply] of [["review-previous", this.mistake(-1)], ["review-next", this.mistake(1)]]) {
      $(id).hidden = !this.found?.turning_points.length || !reviewed;
      enable(id, ply !== undefined);
    }
    $("review-again").hidden = !current?.slips;
    $("review-back").hidden = !this.away;
    if (!this.running) $("review-summary").textContent = reviewed ? this.summary() : "";
    $("review-move").textContent = current ? this.describe(current) : "";
  }

  describe({ ply, side, move, mark, comment, best, played, better, line, opinion }) {
    const who = COLOURS[side], parts = [`${ply}. ${who} ${move}${mark}: ${comment}.`];
    if (better.length) {
      parts.push(`It ${best.score ? best.text.replace("wins", "could win").replace("loses", "could last and lose") : "could draw"} with ${better.join(" or ")}; now ${who} ${played.score ? played.text : "draws"}.`);
      if (line.length > 1) parts.push(`For example ${line.join(" ")}.`);
    }
    if (opinion) parts.push(`The network gave ${who} ${Math.round(50 * (1 + opinion.value))}\u00a0% before it and would have played ${opinion.move}.`);
    return parts.join(" ");
  }
}
