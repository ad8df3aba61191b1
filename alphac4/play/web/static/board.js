// The board: SVG, one focusable lane a column.

const CELL = 80;
const COLOURS = ["red", "yellow"];
const NAMES = ["red", "yellow"];

function element(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent?.append(node);
  return node;
}

export class Board {
  constructor(host, rules, onDrop) {
    this.rules = rules;
    this.onDrop = onDrop;
    this.shown = [];
    const width = rules.columns * CELL, height = rules.rows * CELL;
    this.svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Board" }, host);
    element("rect", { class: "frame", width, height }, this.svg);
    this.holes = element("g", {}, this.svg);
    for (let c = 0; c < rules.columns; c++)
      for (let r = 0; r < rules.rows; r++)
        element("circle", { class: "hole", r: CELL * 0.4, cx: this.x(c), cy: this.y(r) }, this.holes);
    this.stones = element("g", {}, this.svg);
    this.marks = element("g", { "pointer-events": "none" }, this.svg);
    this.lanes = Array.from({ length: rules.columns }, (_, column) => this.lane(column, height));
    this.lanes[Math.floor(rules.columns / 2)].setAttribute("tabindex", "0");
  }

  x(column) { return (column + 0.5) * CELL; }
  y(row) { return (this.rules.rows - row - 0.5) * CELL; }

  lane(column, height) {
    const lane = element("g", { class: "column", role: "button", tabindex: "-1" }, this.svg);
    element("rect", { class: "lane", x: column * CELL + 2, y: 2, width: CELL - 4, height: height - 4, rx: 14 }, lane);
    element("circle", { class: "ghost", r: CELL * 0.4, cx: this.x(column) }, lane);
    lane.addEventListener("click", () => this.onDrop(column));
    lane.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) {
        this.focus((column + step + this.rules.columns) % this.rules.columns);
      } else if (event.key === "Enter" || event.key === " ") {
        this.onDrop(column);
      } else {
        return;
      }
      event.preventDefault();
    });
    return lane;
  }

  focus(column) {
    this.lanes.forEach((lane, index) => lane.setAttribute("tabindex", index === column ? "0" : "-1"));
    this.lanes[column].focus();
  }

  draw(moves, { active, hint = null }) {
    const { rules } = this;
    const grid = rules.grid(moves), legal = rules.legal(moves), result = rules.result(moves);
    const grown = moves.length === this.shown.length + 1 && this.shown.every((column, i) => column === moves[i]);
    this.shown = [...moves];
    this.stones.replaceChildren();
    this.marks.replaceChildren();
    grid.forEach((stack, column) => stack.forEach((owner, row) => {
      const stone = element("circle", { class: COLOURS[owner], r: CELL * 0.4, cx: this.x(column), cy: this.y(row) }, this.stones);
      if (grown && column === moves.at(-1) && row === stack.length - 1) {
        stone.classList.add("falling");
        stone.style.setProperty("--from", `${-(rules.rows - row) * CELL}px`);
      }
    }));
    if (result) {
      for (const [column, row] of result.cells) element("circle", { class: "run", r: CELL * 0.34, cx: this.x(column), cy: this.y(row) }, this.marks);
    } else if (moves.length) {
      const column = moves.at(-1);
      element("circle", { class: "last", r: CELL * 0.16, cx: this.x(column), cy: this.y(grid[column].length - 1) }, this.marks);
    }
    if (hint !== null && legal.includes(hint)) {
      element("circle", { class: "hinted", r: CELL * 0.36, cx: this.x(hint), cy: this.y(grid[hint].length) }, this.marks);
    }
    const side = moves.length % 2;
    this.lanes.forEach((lane, column) => {
      const open = active && legal.includes(column);
      lane.setAttribute("aria-disabled", String(!open));
      const ghost = lane.querySelector(".ghost");
      ghost.setAttribute("class", `ghost ${COLOURS[side]}`);
      ghost.setAttribute("cy", this.y(Math.min(grid[column].length, rules.rows - 1)));
      const stones = grid[column].map((owner) => NAMES[owner]).join(", ") || "empty";
      lane.setAttribute("aria-label", `Column ${rules.name(column)}, from the bottom: ${stones}${open ? "" : ", not playable now"}`);
    });
  }
}
