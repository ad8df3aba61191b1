// Record of a game: a curve of its evaluation, its moves, their review, and the controls to step through it. The page and
// the review file share it.

import { $, COLOURS, counted, element, enable, makeButton, onPress, percent, svg } from "./dom.js";

const LEFT = 66, WIDTH = 560, TOP = 10, TALL = 130, BARS = TOP + TALL + 18;
const MIN_PLIES = 10; // minimum width of the curve
const MARKS = { best: "✓", keeps: "~", unknown: "·" };
const ARROWS = { ArrowLeft: "back", ArrowRight: "forward", ArrowUp: "previous", ArrowDown: "next", Home: "to-start", End: "to-end" };

const does = (verdict) => (verdict.score ? verdict.text : "draws");
const chance = (value) => percent((1 + value) / 2);

// Split the points of a curve into runs of consecutive plies.
function runs(points) {
  const found = [];
  for (const point of points) {
    if (found.at(-1)?.at(-1)[0] === point[0] - 1) found.at(-1).push(point);
    else found.push([point]);
  }
  return found;
}

export class Record {
  // onGo(ply) shows the position after `ply` moves, onMistake(ply) the mistake of that move, and onLine(ply, line, shown)
  // the first `shown` moves of a line, columns, instead of the moves from `ply` on.
  constructor(rules, { onGo, onLine, onMistake = onGo }) {
    Object.assign(this, { rules, onGo, onLine, moves: [], ply: 0, review: null, value: () => undefined });
    const steps = { "to-start": () => 0, back: () => this.ply - 1, forward: () => this.ply + 1, "to-end": () => this.moves.length };
    for (const [id, to] of Object.entries(steps)) onPress(id, () => onGo(to()));
    for (const [id, direction] of [["previous", -1], ["next", 1]]) onPress(id, () => onMistake(this.mistake(direction)));
    $("chart").addEventListener("click", (event) => {
      const { left, width } = $("chart").getBoundingClientRect(), inside = ((event.clientX - left) / width) * WIDTH;
      onGo(Math.max(0, Math.min(this.moves.length, Math.floor((inside - LEFT) / this.step))));
    });
    document.addEventListener("keydown", (event) => {
      const id = ARROWS[event.key], { target } = event;
      if (!id || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.tagName === "SELECT") return;
      if (!$(id).offsetParent) return; // hidden
      event.preventDefault();
      $(id).click();
    });
  }

  get reviewed() { return this.review?.reviewed ?? []; }
  // The move that the text describes: the mistake of the exercise, else the last move.
  get described() { return this.exercise ?? this.ply; }
  get current() { return this.reviewed[this.described - 1]; }
  get step() { return (WIDTH - LEFT - 10) / (Math.max(this.moves.length, MIN_PLIES) + 1); }

  // The next mistake in this direction; the first follows the last.
  mistake(direction) {
    const points = this.review.mistakes, at = this.described;
    if (direction > 0) return points.find((ply) => ply > at) ?? points[0];
    return points.findLast((ply) => ply < at) ?? points.at(-1);
  }

  // Cells of better moves than the described one, unless they are hidden.
  get better() {
    if (!this.current || !this.isRevealed) return [];
    const before = this.rules.grid(this.moves.slice(0, this.described - 1));
    return this.current.better
      .map((name) => this.rules.names.indexOf(name))
      .map((column) => ({ column, row: before[column].length, side: this.current.side }));
  }

  // moves: all moves of the game, of which `ply` are on the board; value(ply): evaluation after `ply` moves in [-1, 1] for
  // red, or undefined; review: review of these moves, or null; exercise: number of the exercise's move, or null;
  // isRevealed: whether better moves are shown.
  show({ moves, ply, value, review, exercise = null, isRevealed = true }) {
    const same = review === this.review && String(moves) === String(this.moves);
    Object.assign(this, { moves, ply, value, review, exercise, isRevealed });
    if (!same) this.drawLists();
    [...$("moves").children].forEach(({ firstChild }, index) => firstChild.setAttribute("aria-current", String(index + 1 === this.described)));
    this.drawChart();
    this.describe();
    enable("to-start", ply > 0);
    enable("back", ply > 0);
    enable("forward", ply < moves.length);
    enable("to-end", ply < moves.length);
    const points = review?.mistakes ?? [], place = points.indexOf(this.described) + 1;
    $("mistakes").hidden = !points.length;
    for (const id of ["previous", "next"]) enable(id, points.length > 1 || !place);
    $("mistake-number").textContent = place ? `Mistake ${place} of ${points.length}` : counted(points.length, "mistake");
  }

  drawLists() {
    $("moves").replaceChildren(...this.moves.map((column, index) => {
      const review = this.reviewed[index], name = this.rules.name(column), colour = COLOURS[index % 2];
      const button = makeButton("", () => this.onGo(index + 1), {
        "aria-label": `Move ${index + 1}: ${colour} plays ${name}${review ? `, ${review.comment}` : ""}`,
      });
      button.append(element("small", "", index + 1), element("span", `dot ${colour.toLowerCase()}`), name);
      if (review) button.append(element("span", `mark ${review.grade}`, MARKS[review.grade] ?? review.mark));
      return element("li", "", button);
    }));
    const { review } = this;
    for (const id of ["sides", "legend"]) $(id).hidden = !review;
    $("unjudged").textContent = "";
    if (!review) return;
    $("sides").replaceChildren(...review.sides.map(({ accuracy, best, judged, mistakes }, side) => element("div", "",
      element("span", `dot ${COLOURS[side].toLowerCase()}`), element("b", "", accuracy === null ? "–" : percent(accuracy / 100)),
      element("span", "quiet", `${COLOURS[side]}: ${best} of ${judged} best, ${counted(mistakes, "mistake")}`))));
    const notes = review.mistakes.length ? [] : [review.unjudged || review.moves.length < this.moves.length ? "No mistakes among the judged moves." : "Neither side made a mistake."];
    if (review.unjudged) notes.push(`Time ran out before ${counted(review.unjudged, "move")} could be judged.`);
    if (review.mistakes_without_better) notes.push(`Time ran out before a better move was found for ${counted(review.mistakes_without_better, "mistake")}.`);
    $("unjudged").textContent = notes.join(" ");
  }

  drawChart() {
    const chart = $("chart"), { step, ply, review } = this, count = this.moves.length;
    const x = (at) => LEFT + (at + 0.5) * step, y = (value) => TOP + (TALL * (1 - value)) / 2;
    const points = [...Array(count + 1).keys()].map((at) => [at, this.value(at)]).filter(([, value]) => value !== undefined);
    chart.toggleAttribute("hidden", !review && points.length < 2); // until analysis or a review fills it
    chart.replaceChildren();
    chart.setAttribute("viewBox", `0 0 ${WIDTH} ${review ? BARS + 52 : TOP + TALL + 10}`);
    const words = (text, at) => (svg("text", { x: 0, y: at }, chart).textContent = text);
    for (const [name, value] of [["Red", 1], ["even", 0], ["Yellow", -1]]) {
      svg("line", { class: value ? "axis" : "axis middle", x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }, chart);
      words(name, y(value) + (value > 0 ? 10 : value < 0 ? 0 : 4));
    }
    const clips = svg("defs", {}, chart);
    for (const [name, start] of [["red", y(1)], ["yellow", y(0)]])
      svg("rect", { x: LEFT, y: start, width: WIDTH, height: TALL / 2 }, svg("clipPath", { id: `half-${name}` }, clips));
    for (const run of runs(points)) { // unevaluated positions interrupt the curve
      const [from, to] = [run[0][0], run.at(-1)[0]], line = run.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      for (const name of ["red", "yellow"])
        svg("polygon", { class: `area ${name}`, points: `${x(from)},${y(0)} ${line} ${x(to)},${y(0)}`, "clip-path": `url(#half-${name})` }, chart);
      if (run.length > 1) svg("polyline", { class: "curve", points: line }, chart);
      else svg("circle", { class: "curve-point", cx: x(from), cy: y(run[0][1]), r: 3 }, chart);
    }
    if (review) words("exact", BARS + 16);
    this.reviewed.forEach(({ ply: at, played, side, grade }) => {
      const sign = played && Math.sign(played.score) * (side ? -1 : 1), base = BARS + (sign ? 0 : 7);
      const kind = played ? ["yellow", "draw", "red"][sign + 1] : "unknown";
      svg("rect", { class: `outcome ${kind}`, x: LEFT + at * step + 0.75, y: base, width: Math.max(1, step - 1.5), height: sign ? 22 : 8, rx: 2 }, chart);
      if (review.mistakes.includes(at)) svg("path", { class: "flag", d: `M${x(at) - 5} ${BARS + 36}h10l-5 -9z`, "data-grade": grade }, chart);
    });
    svg("line", { class: "cursor", x1: x(ply), x2: x(ply), y1: TOP, y2: review ? BARS + 26 : TOP + TALL }, chart);
    const chances = points.map(([at, value]) => `${at}: ${chance(value)}`).join(", ");
    chart.setAttribute("aria-label", `Chances of Red after each move${chances ? `. ${chances}` : ": not known yet"}`);
  }

  // Buttons of the line after a better move; each shows the position after its move.
  lineButtons({ ply, line }) {
    const columns = line.map((name) => this.rules.names.indexOf(name));
    return line.map((name, index) => makeButton(name, () => this.onLine(ply, columns, index + 1), { "aria-label": `Show the line up to ${name}, move ${index + 1} of it` }));
  }

  // Write the review of the described move.
  describe() {
    const { review, current: move, ply, isRevealed } = this, lines = [];
    document.body.classList.toggle("reviewed", Boolean(review)); // reserves space for the longest text
    if (!review) return $("now").replaceChildren();
    if (!move) return $("now").replaceChildren(element("p", "quiet", ply ? "This move is not judged." : "Start of the game."));
    const who = COLOURS[move.side], tag = element("span", `tag ${move.grade}`, `${move.mark} ${move.comment}`.trim());
    lines.push(element("p", "what", `${move.ply}. ${who} plays ${move.move} `, tag));
    if (!move.best || !move.played) lines.push(element("p", "", "This move was not judged in time."));
    else if (move.best.text === move.played.text) lines.push(element("p", "", `${who} ${does(move.played)} with best play${move.played.score ? ", counting this move" : ""}.`));
    else lines.push(element("p", "", `With best play, ${who} ${does(move.best)}; after this move it ${does(move.played)}.`));
    if (move.better.length && isRevealed) {
      const names = move.better.join(" or ");
      if (move.line.length < 2) lines.push(element("p", "", `Best: ${names}.`));
      else lines.push(element("p", "line", `Best: ${names}, for example `, ...this.lineButtons(move)));
    }
    if (move.opinion && isRevealed) lines.push(element("p", "quiet", `The network estimated ${chance(move.opinion.value)} for ${who} and would have played ${move.opinion.move}.`));
    $("now").replaceChildren(...lines);
  }
}
