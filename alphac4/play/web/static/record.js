// Record of a game: a curve of its evaluation, its moves, and the controls to step through it.

import { $, COLOURS, chance, clickByKeys, element, enable, makeButton, onPress, stopAt, svg } from "./dom.js";

const LEFT = 66, TOP = 10, TALL = 130;
const MIN_PLIES = 10; // minimum width of the curve

export const WIDTH = 560, BOTTOM = TOP + TALL; // of the chart

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
  // onGo(ply) shows the position after `ply` moves.
  constructor(rules, { onGo }) {
    Object.assign(this, { rules, moves: [], ply: 0, onGo });
    const steps = { "to-start": () => 0, back: () => this.ply - 1, forward: () => this.ply + 1, "to-end": () => this.moves.length };
    for (const [id, to] of Object.entries(steps)) onPress(id, () => onGo(to()));
    clickByKeys({ ArrowLeft: "back", ArrowRight: "forward", Home: "to-start", End: "to-end" });
    $("chart").addEventListener("click", (event) => {
      const { left, width } = $("chart").getBoundingClientRect(), inside = ((event.clientX - left) / width) * WIDTH;
      onGo(Math.max(0, Math.min(this.moves.length, Math.floor((inside - LEFT) / this.step))));
    });
  }

  // Width of a move in the chart, and the place of the position after `at` moves.
  get step() { return (WIDTH - LEFT - 10) / (Math.max(this.moves.length, MIN_PLIES) + 1); }
  x(at) { return LEFT + (at + 0.5) * this.step; }

  // moves: all moves of the game, of which `ply` are on the board; value(ply): evaluation after `ply` moves in [-1, 1] for
  // red, or undefined.
  show({ moves, ply, value }) {
    const same = String(moves) === String(this.moves);
    Object.assign(this, { moves, ply });
    if (!same) this.drawList();
    this.mark(ply);
    this.drawChart(value);
    enable("to-start", ply > 0);
    enable("back", ply > 0);
    enable("forward", ply < moves.length);
    enable("to-end", ply < moves.length);
  }

  // The buttons of the moves.
  get buttons() { return [...$("moves").children].map(({ firstChild }) => firstChild); }

  label(index) { return `${index + 1}. ${COLOURS[index % 2]} plays ${this.rules.name(this.moves[index])}`; }

  // Mark a move as the current one; the focus follows it.
  mark(ply) {
    const { buttons } = this, current = buttons[ply - 1] ?? buttons[0];
    buttons.forEach((button, index) => button.setAttribute("aria-current", String(index + 1 === ply)));
    stopAt(current, buttons);
    if (buttons.includes(document.activeElement)) current.focus();
  }

  drawList() {
    $("moves").replaceChildren(...this.moves.map((column, index) => {
      const button = makeButton("", () => this.onGo(index + 1), { "aria-label": this.label(index) });
      button.append(element("small", "", index + 1), element("span", `dot ${COLOURS[index % 2].toLowerCase()}`), this.rules.name(column));
      return element("li", "", button);
    }));
  }

  drawChart(valueAfter) {
    const chart = $("chart"), x = (at) => this.x(at), y = (value) => TOP + (TALL * (1 - value)) / 2;
    const points = [...Array(this.moves.length + 1).keys()].map((at) => [at, valueAfter(at)]).filter(([, value]) => value !== undefined);
    chart.toggleAttribute("hidden", points.length < 2); // until it is filled
    chart.replaceChildren();
    chart.setAttribute("viewBox", `0 0 ${WIDTH} ${BOTTOM + 10}`);
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
    svg("line", { class: "cursor", x1: x(this.ply), x2: x(this.ply), y1: TOP, y2: BOTTOM }, chart);
    const chances = points.map(([at, value]) => `${at}: ${chance(value)}`).join(", ");
    chart.setAttribute("aria-label", `Chances of Red after each move${chances ? `. ${chances}` : ": not known yet"}`);
  }
}
