// The record of a game: how it went as a curve, its moves, and what a review says of them, with the ways to step through
// it. The page and the file of a review are one in this.

import { $, COLOURS, counted, element, enable, makeButton, onPress, percent, svg } from "./dom.js";

const LEFT = 66, WIDTH = 560, TOP = 10, TALL = 130, BARS = TOP + TALL + 18;
const MIN_PLIES = 10; // for which the curve has room
const MARKS = { best: "✓", keeps: "~", unknown: "·" };
const ARROWS = { ArrowLeft: "back", ArrowRight: "forward", ArrowUp: "previous", ArrowDown: "next", Home: "to-start", End: "to-end" };

const does = (verdict) => (verdict.score ? verdict.text : "draws");
const chance = (value) => percent((1 + value) / 2);

export class Record {
  // onGo(ply) shows the position after so many moves.
  constructor(rules, onGo) {
    Object.assign(this, { rules, onGo, moves: [], ply: 0, review: null, value: () => undefined });
    const steps = {
      "to-start": () => 0, back: () => this.ply - 1, forward: () => this.ply + 1, "to-end": () => this.moves.length,
      previous: () => this.mistake(-1), next: () => this.mistake(1),
    };
    for (const [id, to] of Object.entries(steps)) onPress(id, () => onGo(to()));
    $("chart").addEventListener("click", (event) => {
      const { left, width } = $("chart").getBoundingClientRect(), inside = ((event.clientX - left) / width) * WIDTH;
      onGo(Math.max(0, Math.min(this.moves.length, Math.floor((inside - LEFT) / this.step))));
    });
    document.addEventListener("keydown", (event) => {
      const id = ARROWS[event.key], { target } = event;
      if (!id || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.tagName === "SELECT") return;
      if (!$(id).offsetParent) return; // it is not shown
      event.preventDefault();
      $(id).click();
    });
  }

  get reviewed() { return this.review?.reviewed ?? []; }
  get current() { return this.reviewed[this.ply - 1]; }
  get step() { return (WIDTH - LEFT - 10) / (Math.max(this.moves.length, MIN_PLIES) + 1); }

  // The number of moves after which the next mistake in this direction has been made; undefined if there is none.
  mistake(direction) {
    const points = this.review?.turning_points ?? [];
    return direction > 0 ? points.find((ply) => ply > this.ply) : points.findLast((ply) => ply < this.ply);
  }

  // Where better moves than the one just made would have landed.
  get better() {
    const before = this.rules.grid(this.moves.slice(0, Math.max(this.ply - 1, 0)));
    return (this.current?.better ?? [])
      .map((name) => this.rules.names.indexOf(name))
      .map((column) => ({ column, row: before[column].length }));
  }

  // moves: of the whole game, ply of which are on the board; value(ply): what is known for red after so many of them, in
  // [-1, 1], or undefined; review: of these moves, or null.
  show({ moves, ply, value, review }) {
    const same = review === this.review && String(moves) === String(this.moves);
    Object.assign(this, { moves, ply, value, review });
    if (!same) this.drawLists();
    [...$("moves").children].forEach(({ firstChild }, index) => firstChild.setAttribute("aria-current", String(index + 1 === ply)));
    this.drawChart();
    this.tell();
    enable("to-start", ply > 0);
    enable("back", ply > 0);
    enable("forward", ply < moves.length);
    enable("to-end", ply < moves.length);
    for (const [id, direction] of [["previous", -1], ["next", 1]]) {
      $(id).hidden = !review?.turning_points.length;
      enable(id, this.mistake(direction) !== undefined);
    }
  }

  drawLists() {
    $("moves").replaceChildren(...this.moves.map((column, index) => {
      const told = this.reviewed[index], name = this.rules.name(column), colour = COLOURS[index % 2];
      const button = makeButton("", () => this.onGo(index + 1), {
        "aria-label": `Move ${index + 1}: ${colour} plays ${name}${told ? `, ${told.comment}` : ""}`,
      });
      button.append(element("small", "", index + 1), element("span", `dot ${colour.toLowerCase()}`), name);
      if (told) button.append(element("span", `mark ${told.grade}`, MARKS[told.grade] ?? told.mark));
      return element("li", "", button);
    }));
    const { review } = this;
    for (const id of ["sides", "turning", "legend"]) $(id).hidden = !review;
    $("unjudged").textContent = "";
    if (!review) return;
    $("sides").replaceChildren(...review.sides.map(({ accuracy, best, judged, slips }, side) => element("div", "",
      element("span", `dot ${COLOURS[side].toLowerCase()}`), element("b", "", accuracy === null ? "–" : percent(accuracy / 100)),
      element("span", "quiet", `${COLOURS[side]}: ${best} of ${judged} best, ${counted(slips, "mistake")}`))));
    $("turns").replaceChildren(...review.turning_points.map((ply) => {
      const { side, move, mark, grade, comment, best, played, better } = review.reviewed[ply - 1];
      const button = makeButton("", () => this.onGo(ply));
      button.append(element("span", `tag ${grade}`, `${ply}. ${COLOURS[side]} ${move}${mark}`),
        ` ${comment}: with best play it ${does(best)}, now it ${does(played)}.${better.length ? ` Better: ${better.join(" or ")}.` : ""}`);
      return element("li", "", button);
    }));
    if (!review.turning_points.length) $("turns").append(element("li", "quiet", review.unjudged ? "No move that was judged is a mistake." : "Neither side made a mistake."));
    $("legend").textContent = (review.values.length ? "The curve is what the network expects after each move. " : "")
      + "The bars are exact: tall for who wins with best play, low for a draw. Triangles are mistakes. Click to go there.";
    const notes = [];
    if (review.unjudged) notes.push(`${counted(review.unjudged, "move")} would have taken too long to judge.`);
    if (review.unmended) notes.push(`For ${counted(review.unmended, "mistake")} there was no time to find the better moves.`);
    $("unjudged").textContent = notes.join(" ");
  }

  drawChart() {
    const chart = $("chart"), { step, ply, review } = this, count = this.moves.length;
    const x = (at) => LEFT + (at + 0.5) * step, y = (value) => TOP + (TALL * (1 - value)) / 2;
    const points = [...Array(count + 1).keys()].map((at) => [at, this.value(at)]).filter(([, value]) => value !== undefined);
    const known = Boolean(review) || points.length > 1;
    chart.replaceChildren();
    chart.setAttribute("viewBox", `0 0 ${WIDTH} ${review ? BARS + 52 : TOP + TALL + 10}`);
    chart.toggleAttribute("hidden", !known);
    const words = (text, at) => (svg("text", { x: 0, y: at }, chart).textContent = text);
    for (const [name, value] of [["Red", 1], ["even", 0], ["Yellow", -1]]) {
      svg("line", { class: value ? "axis" : "axis middle", x1: LEFT, x2: WIDTH - 10, y1: y(value), y2: y(value) }, chart);
      words(name, y(value) + (value > 0 ? 10 : value < 0 ? 0 : 4));
    }
    if (points.length) {
      const line = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "), clips = svg("defs", {}, chart);
      const area = `${x(points[0][0])},${y(0)} ${line} ${x(points.at(-1)[0])},${y(0)}`;
      for (const [name, start] of [["red", y(1)], ["yellow", y(0)]]) {
        svg("rect", { x: LEFT, y: start, width: WIDTH, height: TALL / 2 }, svg("clipPath", { id: `half-${name}` }, clips));
        svg("polygon", { class: `area ${name}`, points: area, "clip-path": `url(#half-${name})` }, chart);
      }
      svg("polyline", { class: "curve", points: line }, chart);
    }
    if (review) words("exact", BARS + 16);
    this.reviewed.forEach(({ ply: at, played, side, grade }) => {
      const sign = played && Math.sign(played.score) * (side ? -1 : 1), base = BARS + (sign ? 0 : 7);
      const kind = played ? ["yellow", "draw", "red"][sign + 1] : "unknown";
      svg("rect", { class: `outcome ${kind}`, x: LEFT + at * step + 0.75, y: base, width: Math.max(1, step - 1.5), height: sign ? 22 : 8, rx: 2 }, chart);
      if (review.turning_points.includes(at)) svg("path", { class: "flag", d: `M${x(at) - 5} ${BARS + 36}h10l-5 -9z`, "data-grade": grade }, chart);
    });
    svg("line", { class: "cursor", x1: x(ply), x2: x(ply), y1: TOP, y2: review ? BARS + 26 : TOP + TALL }, chart);
    const chances = points.map(([at, value]) => `${at}: ${chance(value)}`).join(", ");
    chart.setAttribute("aria-label", `Chances of Red after each move${chances ? `. ${chances}` : ": none known yet"}`);
  }

  // What the review says of the move just made.
  tell() {
    const { review, current: move, ply } = this, lines = [];
    document.body.classList.toggle("reviewed", Boolean(review)); // there is room for the longest of these
    if (!review) return $("now").replaceChildren();
    if (!move) {
      const told = ply ? "" : "The game begins.";
      return $("now").replaceChildren(element("p", "what", told), element("p", "quiet", "Step with ← and →, or from mistake to mistake with ↑ and ↓."));
    }
    const who = COLOURS[move.side], tag = element("span", `tag ${move.grade}`, `${move.mark} ${move.comment}`.trim());
    lines.push(element("p", "what", `${move.ply}. ${who} plays ${move.move} `, tag));
    if (!move.best || !move.played) lines.push(element("p", "", "The solver had no time for this move."));
    else if (move.best.text === move.played.text) lines.push(element("p", "", `${who} ${does(move.played)} with best play${move.played.score ? ", this move counted" : ""}.`));
    else lines.push(element("p", "", `With best play ${who} ${does(move.best)}; now it ${does(move.played)}.`));
    if (move.better.length) {
      const line = move.line.length > 1 ? `, for example ${move.line.join(" ")}` : "";
      lines.push(element("p", "", `Better: ${move.better.join(" or ")}${line}.`));
    }
    if (move.opinion) {
      const after = this.value(ply), told = after === undefined ? "" : `; after it, ${chance(after * (move.side ? -1 : 1))}`;
      lines.push(element("p", "quiet", `Before the move the network gave ${who} ${chance(move.opinion.value)} of the points and would have played ${move.opinion.move}${told}.`));
    }
    $("now").replaceChildren(...lines);
  }
}
