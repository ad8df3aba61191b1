// Notes on a reviewed game: grades of the moves, exact results below the curve, a text about a move, and the way from
// mistake to mistake. The page's panel and the file of `alphac4 review --html` share them.

import { $, COLOURS, chance, clickByKeys, counted, element, enable, makeButton, onPress, percent, svg } from "../dom.js";
import { Reasons } from "../reasons.js";
import { BOTTOM, WIDTH } from "../record.js";

const BARS = BOTTOM + 18; // place of the exact results in the chart
const MARKS = { best: "✓", keeps: "~", unknown: "·" };

const does = (verdict) => (verdict.score ? verdict.text : "draws");

// Cells of the moves that are better than a reviewed one.
export function betterCells(rules, moves, { ply, side, better }) {
  const before = rules.grid(moves.slice(0, ply - 1));
  return better.map((name) => rules.names.indexOf(name)).map((column) => ({ column, row: before[column].length, side }));
}

export class Notes {
  // onMistake(ply) shows the mistake of that move, and onLine(ply, line, shown) the first `shown` moves of a line, columns,
  // instead of the moves from `ply` on.
  constructor(record, { onMistake, onLine }) {
    Object.assign(this, { record, onLine, review: null });
    for (const [id, direction] of [["previous", -1], ["next", 1]]) onPress(id, () => onMistake(this.mistake(direction)));
    clickByKeys({ ArrowUp: "previous", ArrowDown: "next" });
  }

  get reviewed() { return this.review?.reviewed ?? []; }
  get isUnfinished() { return this.review.done !== undefined; }

  // The next lesson in this direction; the first follows the last.
  mistake(direction) {
    const points = this.lessons, at = this.described;
    if (direction > 0) return points.find((ply) => ply > at) ?? points[0];
    return points.findLast((ply) => ply < at) ?? points.at(-1);
  }

  // review: of the record's moves, or null; with `done`, it is not finished. described: the move that the text describes;
  // isRevealed: whether it has the better moves; lessons: the mistakes to step through, and `noun` their name.
  show({ review, described, isRevealed = true, lessons = review?.mistakes ?? [], noun = "Mistake" }) {
    Object.assign(this, { review, described, lessons });
    this.record.mark(described);
    this.markMoves();
    this.describe(isRevealed);
    for (const id of ["sides", "legend"]) $(id).hidden = !review;
    const place = lessons.indexOf(described) + 1;
    $("mistakes").hidden = !lessons.length;
    for (const id of ["previous", "next"]) enable(id, lessons.length > 1 || !place);
    $("mistake-number").textContent = place ? `${noun} ${place} of ${lessons.length}` : `${noun}s: ${lessons.length}`;
    $("unjudged").textContent = "";
    if (!review) return;
    this.summarize();
    this.drawResults();
  }

  markMoves() {
    this.record.buttons.forEach((button, index) => {
      const move = this.reviewed[index];
      button.querySelector(".mark")?.remove();
      if (move) button.append(element("span", `mark ${move.grade}`, MARKS[move.grade] ?? move.mark));
      button.setAttribute("aria-label", `${this.record.label(index)}${move ? `, ${move.comment}` : ""}`);
    });
  }

  summarize() {
    const { review } = this;
    $("sides").replaceChildren(...review.sides.map(({ accuracy, best, judged, mistakes }, side) => element("div", "",
      element("span", `dot ${COLOURS[side].toLowerCase()}`), element("b", "", accuracy === null ? "–" : percent(accuracy / 100)),
      element("span", "quiet", `${COLOURS[side]}: ${best} of ${judged} best, ${counted(mistakes, "mistake")}`))));
    if (this.isUnfinished) return;
    const notes = review.mistakes.length ? [] : [review.unjudged || review.moves.length < this.record.moves.length ? "No mistakes among the judged moves." : "Neither side made a mistake."];
    if (review.unjudged) notes.push(`Time ran out before ${counted(review.unjudged, "move")} could be judged.`);
    if (review.mistakes_without_better) notes.push(`Time ran out before a better move was found for ${counted(review.mistakes_without_better, "mistake")}.`);
    $("unjudged").textContent = notes.join(" ");
  }

  drawResults() {
    const { record, review } = this, { step } = record, chart = $("chart");
    chart.removeAttribute("hidden");
    chart.setAttribute("viewBox", `0 0 ${WIDTH} ${BARS + 52}`);
    chart.querySelector(".cursor").setAttribute("y2", BARS + 26);
    svg("text", { x: 0, y: BARS + 16 }, chart).textContent = "exact";
    for (const { ply: at, played, side, grade } of this.reviewed) {
      const sign = played && Math.sign(played.score) * (side ? -1 : 1), base = BARS + (sign ? 0 : 7), x = record.x(at);
      const kind = played ? ["yellow", "draw", "red"][sign + 1] : "unknown";
      svg("rect", { class: `outcome ${kind}`, x: x - step / 2 + 0.75, y: base, width: Math.max(1, step - 1.5), height: sign ? 22 : 8, rx: 2 }, chart);
      if (review.mistakes.includes(at)) svg("path", { class: "flag", d: `M${x - 5} ${BARS + 36}h10l-5 -9z`, "data-grade": grade }, chart);
    }
    chart.append(chart.querySelector(".cursor")); // in front of the bars
  }

  // Buttons of the line after a better move; each shows the position after its move.
  lineButtons({ ply, line }) {
    const columns = line.map((name) => this.record.rules.names.indexOf(name));
    return line.map((name, index) => makeButton(name, () => this.onLine(ply, columns, index + 1), { "aria-label": `Show the line up to ${name}, stone ${index + 1} of it` }));
  }

  // What is wrong with a mistake and right with a better move, or what another move does.
  reasons({ ply, move, better }) {
    const { rules, moves } = this.record, before = moves.slice(0, ply - 1), reasons = new Reasons(rules);
    const [played, ...best] = [move, ...better.slice(0, 1)].map((name) => rules.names.indexOf(name)), weakness = reasons.weakness(before, played);
    if (!this.review.mistakes.includes(ply)) return reasons.strength(before, played) || weakness;
    return [weakness, ...best.map((column) => reasons.strength(before, column))].filter(Boolean).join(" ");
  }

  // Write the review of the described move.
  describe(isRevealed) {
    const { review } = this, move = this.reviewed[this.described - 1], lines = [];
    document.body.classList.toggle("reviewed", Boolean(review)); // reserves space for the longest text
    if (!review) return $("now").replaceChildren();
    if (!move) return $("now").replaceChildren(element("p", "quiet", this.described ? "This move is not judged." : "Start of the game."));
    const who = COLOURS[move.side], tag = element("span", `tag ${move.grade}`, `${move.mark} ${move.comment}`.trim());
    lines.push(element("p", "what", `${move.ply}. ${who} plays ${move.move} `, tag));
    if (!move.best || !move.played) lines.push(element("p", "", this.isUnfinished ? "This move is judged later." : "This move was not judged in time."));
    else if (move.best.text === move.played.text) lines.push(element("p", "", `${who} ${does(move.played)} with best play${move.played.score ? ", counting this move" : ""}.`));
    else lines.push(element("p", "", `With best play, ${who} ${does(move.best)}; after this move it ${does(move.played)}.`));
    if (move.better.length && isRevealed) {
      const names = move.better.join(" or ");
      if (move.line.length < 2) lines.push(element("p", "", `Best: ${names}.`));
      else lines.push(element("p", "line", `Best: ${names}, for example `, ...this.lineButtons(move)));
    }
    if (this.explained?.move !== move) this.explained = { move, text: this.reasons(move) };
    if (isRevealed && this.explained.text) lines.push(element("p", "", this.explained.text));
    if (move.opinion && isRevealed) lines.push(element("p", "quiet", `The network estimated ${chance(move.opinion.value)} for ${who} and would have played ${move.opinion.move}.`));
    $("now").replaceChildren(...lines);
  }
}
