// The board as SVG: a focusable lane per column, and above the lanes the columns' numbers and labels.

import { stopAt, svg } from "./dom.js";

const CELL = 80, HEAD = 64, RIM = 9, RADIUS = 0.41 * CELL; // RADIUS of a hole
const SIDES = ["red", "yellow"];

export class Board {
  constructor(host, rules, onDrop) {
    this.rules = rules;
    this.onDrop = onDrop;
    this.shown = [];
    const width = rules.columns * CELL, height = rules.rows * CELL;
    host.style.setProperty("--ratio", (width + 2 * RIM) / (height + HEAD + RIM));
    this.svg = svg("svg", { viewBox: `${-RIM} ${-HEAD} ${width + 2 * RIM} ${height + HEAD + RIM}`, role: "group", "aria-label": "Board" }, host);
    const paints = svg("defs", {}, this.svg);
    for (const colour of [...SIDES, "blue"]) this.paint(paints, colour);
    // In front of the stones, with holes through which a falling stone is visible.
    const corner = "a30 30 0 0 1", size = [width + 2 * RIM - 60, height + 2 * RIM - 60];
    const outline = `M${30 - RIM} ${-RIM}h${size[0]}${corner} 30 30v${size[1]}${corner} -30 30h${-size[0]}${corner} -30 -30v${-size[1]}${corner} 30 -30z`;
    const below = svg("g", {}, this.svg);
    this.stones = svg("g", {}, this.svg);
    let holes = "";
    for (let c = 0; c < rules.columns; c++)
      for (let r = 0; r < rules.rows; r++)
        holes += `M${this.x(c) - RADIUS} ${this.y(r)}a${RADIUS} ${RADIUS} 0 1 0 ${2 * RADIUS} 0a${RADIUS} ${RADIUS} 0 1 0 ${-2 * RADIUS} 0z`;
    svg("path", { class: "depth", d: outline, transform: "translate(0 6)" }, below);
    svg("rect", { class: "hole", width, height, rx: 24 }, below);
    svg("path", { class: "shade", d: holes, transform: "translate(0 4)" }, below); // the frame's shadow in the holes
    svg("path", { class: "frame", fill: "url(#paint-blue)", d: outline + holes, "fill-rule": "evenodd" }, this.svg);
    svg("path", { class: "lip", d: holes, transform: "translate(0 1.2)" }, this.svg);
    this.marks = svg("g", { "pointer-events": "none" }, this.svg);
    this.labelGroup = svg("g", { "pointer-events": "none", "aria-hidden": "true" }, this.svg);
    this.lanes = Array.from({ length: rules.columns }, (_, column) => this.lane(column, height));
    this.current = Math.floor(rules.columns / 2);
    stopAt(this.lanes[this.current], this.lanes);
  }

  x(column) { return (column + 0.5) * CELL; }
  y(row) { return (this.rules.rows - row - 0.5) * CELL; }

  lane(column, height) {
    const lane = svg("g", { class: "column", role: "button" }, this.svg);
    svg("rect", { class: "lane", x: column * CELL + 2, y: 2 - HEAD, width: CELL - 4, height: height + HEAD - 4, rx: 14 }, lane);
    svg("circle", { class: "ghost", r: CELL * 0.4, cx: this.x(column) }, lane);
    lane.addEventListener("mousedown", (event) => event.preventDefault()); // so that arrow keys still step through the game
    lane.addEventListener("click", ({ detail }) => detail < 2 && this.onDrop(column)); // a double click is one move
    lane.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) this.focus((column + step + this.rules.columns) % this.rules.columns);
      else if (event.key === "Enter" || event.key === " ") this.onDrop(column);
      else return;
      event.preventDefault();
    });
    return lane;
  }

  focus(column = this.current) {
    this.current = column;
    stopAt(this.lanes[column], this.lanes);
    this.lanes[column].focus({ preventScroll: true });
  }

  // Two gradients of a colour: light from above, and from below for the hollow of a stone.
  paint(host, colour) {
    for (const [id, y1, y2] of [[`paint-${colour}`, 0, 1], [`hollow-${colour}`, 1, 0]]) {
      const gradient = svg("linearGradient", { id, x1: 0, x2: 0, y1, y2 }, host);
      for (const [offset, end] of [[0, "from"], [1, "to"]]) svg("stop", { offset, class: `${end} ${colour}` }, gradient);
    }
  }

  stone(owner, column, row, host = this.stones) {
    const stone = svg("g", { class: `stone ${SIDES[owner]}` }, host), at = { cx: this.x(column), cy: this.y(row) };
    svg("circle", { ...at, r: CELL * 0.385, fill: `url(#paint-${SIDES[owner]})` }, stone);
    svg("circle", { ...at, r: CELL * 0.26, fill: `url(#hollow-${SIDES[owner]})`, class: "core" }, stone);
    if (owner) svg("circle", { ...at, r: CELL * 0.22, class: "shape" }, stone);
    else svg("path", { d: `M${at.cx - 13} ${at.cy - 13}l26 26m0 -26l-26 26`, class: "shape" }, stone);
    return stone;
  }

  // White on black, which contrasts with all stones and holes in both themes.
  ring(column, row, kind) {
    const ring = svg("g", { class: `ring ${kind}` }, this.marks);
    for (const part of ["under", "over"]) svg("circle", { class: part, r: 0.31 * CELL, cx: this.x(column), cy: this.y(row) }, ring);
  }

  // A line through the stones that win.
  strike([c1, r1], [c2, r2], landing) {
    const ends = { x1: this.x(c1), y1: this.y(r1), x2: this.x(c2), y2: this.y(r2), pathLength: 1 };
    for (const part of ["under", "over"]) svg("line", { ...ends, class: `strike ${part} ${landing}` }, this.marks);
  }

  // A small stone with its height; two share a cell.
  threat({ column, row, side }, isShared) {
    const x = this.x(column) + (isShared ? 0.2 * CELL * (side ? 1 : -1) : 0), y = this.y(row), mark = svg("g", { class: `threat ${SIDES[side]}` }, this.marks);
    svg("circle", { cx: x, cy: y, r: 0.19 * CELL }, mark);
    svg("text", { x, y: y + 8 }, mark).textContent = row + 1;
  }

  // labels: column -> label { text, spoken, tone, strong, opinion, isDisabled } above the column; hint and suggested: columns
  // with a ghost stone; better: cells { column, row, side } with one; threats: such cells with a mark.
  draw(moves, { active, hint = null, suggested = null, better = [], threats = [], labels = new Map() }) {
    const { rules } = this;
    const grid = rules.grid(moves), legal = rules.legal(moves), result = rules.result(moves);
    const grown = moves.length === this.shown.length + 1 && this.shown.every((column, i) => column === moves[i]);
    const landing = grown ? "landing" : "";
    this.shown = [...moves];
    this.stones.replaceChildren();
    this.marks.replaceChildren();
    grid.forEach((stack, column) => stack.forEach((owner, row) => {
      const stone = this.stone(owner, column, row);
      if (grown && column === moves.at(-1) && row === stack.length - 1) {
        stone.classList.add("falling");
        stone.style.setProperty("--from", `${-(rules.rows - row) * CELL}px`);
      }
    }));
    if (result?.cells.length) {
      for (const [column, row] of result.cells) this.ring(column, row, `run ${landing}`);
      this.strike(result.cells[0], result.cells.at(-1), landing);
    } else if (moves.length) {
      const column = moves.at(-1);
      svg("circle", { class: `last ${landing}`, r: 0.09 * CELL, cx: this.x(column), cy: this.y(grid[column].length - 1) }, this.marks);
    }
    const side = moves.length % 2, ghost = (column, kind, row = grid[column].length, owner = side) => this.stone(owner, column, row).classList.add("possible", kind);
    if (suggested !== null && legal.includes(suggested)) ghost(suggested, "suggested");
    if (hint !== null && legal.includes(hint)) ghost(hint, "hinted");
    for (const { column, row, side: owner } of better) ghost(column, "better", row, owner);
    for (const threat of threats) this.threat(threat, threats.some(({ column, row, side: owner }) => column === threat.column && row === threat.row && owner !== threat.side));
    this.label(labels);
    this.lanes.forEach((lane, column) => {
      const word = labels.get(column), open = active && legal.includes(column) && !word?.isDisabled;
      lane.setAttribute("aria-disabled", String(!open));
      const ghost = lane.querySelector(".ghost");
      ghost.setAttribute("class", `ghost ${SIDES[side]}`);
      ghost.setAttribute("cy", this.y(Math.min(grid[column].length, rules.rows - 1)));
      const stones = grid[column].map((owner) => SIDES[owner]).join(", ") || "empty";
      const spoken = threats.filter((threat) => threat.column === column).map((threat) => `, ${SIDES[threat.side]} threat at height ${threat.row + 1}`).join("");
      lane.setAttribute("aria-label", `Column ${rules.name(column)}${word ? `, ${word.spoken}` : ""}, from the bottom: ${stones}${spoken}${open ? "" : ", not playable now"}`);
    });
  }

  label(labels) {
    this.labelGroup.replaceChildren();
    const y = labels.size ? -44 : -23;
    for (let column = 0; column < this.rules.columns; column++) {
      svg("text", { class: "number", x: this.x(column), y }, this.labelGroup).textContent = this.rules.name(column);
      const word = labels.get(column);
      if (!word) continue;
      const kind = `${word.tone ?? ""} ${word.strong ? "strong" : ""} ${word.opinion ? "opinion" : ""}`;
      svg("rect", { class: `pill ${kind}`, x: column * CELL + 5, y: -38, width: CELL - 10, height: 25, rx: 12.5 }, this.labelGroup);
      const text = svg("text", { class: `word ${kind}`, x: this.x(column), y: -20 }, this.labelGroup), room = CELL - 20;
      text.textContent = word.text;
      if (text.getComputedTextLength() > room) for (const [name, value] of [["textLength", room], ["lengthAdjust", "spacingAndGlyphs"]]) text.setAttribute(name, value);
    }
  }
}
