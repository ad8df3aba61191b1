// Opening of another position: of moves or a link, typed or pasted, or of stones that are set up by clicking.

import { $, COLOURS, isDialogOpen, makeButton, stopAt } from "./dom.js";

// What a text names, such as "4455" or "puzzles/4455": a link's part after its last "#" or "=", without separators.
export const nameIn = (text) => (text.match(/[#=]([^#=&]*)$/)?.[1] ?? text).replace(/[\s,;.-]/g, "");

export class Opener {
  // text() returns the moves on the board, problemOf(name) why a name cannot be opened, or ""; onOpen(name) opens it, and
  // onFail(message) reports a pasted text that cannot be opened.
  constructor({ rules, text, problemOf, onOpen, onFail }) {
    Object.assign(this, { rules, text, problemOf, onOpen, grid: [], name: "", problem: "" });
    $("open-cells").style.setProperty("--columns", rules.columns);
    for (let row = rules.rows - 1; row >= 0; row--)
      for (let column = 0; column < rules.columns; column++)
        $("open-cells").append(makeButton("", () => this.press(column, row), { type: "button", "data-cell": `${column} ${row}` }));
    const cells = [...$("open-cells").children];
    stopAt(cells.at(-1), cells);
    $("open-cells").addEventListener("focusin", ({ target }) => stopAt(target, cells));
    $("open-cells").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -rules.columns, ArrowDown: rules.columns }[event.key];
      if (!step) return;
      event.preventDefault();
      cells[cells.indexOf(event.target) + step]?.focus();
    });
    $("open").addEventListener("click", () => this.open());
    $("open-text").addEventListener("input", () => this.read());
    $("open-cancel").addEventListener("click", () => $("open-dialog").close());
    $("open-form").addEventListener("submit", (event) => this.submit(event));
    document.addEventListener("paste", (event) => {
      const name = nameIn(event.clipboardData.getData("text"));
      if (!name || isDialogOpen()) return;
      const problem = problemOf(name);
      if (problem) onFail(`The pasted text is not a position. ${problem}`);
      else onOpen(name);
    });
  }

  open() {
    $("open-text").value = this.text();
    this.read();
    $("open-dialog").showModal();
    $("open-text").select();
  }

  // Show the position that the text names, if there is one.
  read() {
    this.name = nameIn($("open-text").value);
    const moves = this.rules.read(this.name);
    this.problem = this.problemOf(this.name);
    if (moves) this.grid = this.rules.grid(moves);
    this.show(this.problem || (moves ? this.describe(moves) : ""));
  }

  describe(moves) { return this.rules.result(moves) ? "The game is over." : `${COLOURS[moves.length % 2]} to move.`; }

  // Change a cell from empty to red, from red to yellow, and from yellow to empty. Stones fall to the lowest empty cell.
  press(column, row) {
    const stack = this.grid[column];
    if (row >= stack.length) stack.push(0);
    else if (!stack[row]) stack[row] = 1;
    else if (row === stack.length - 1) stack.pop();
    else stack[row] = 0;
    const moves = this.rules.movesTo(this.grid), [red, yellow] = [0, 1].map((side) => this.grid.flat().filter((owner) => owner === side).length);
    $("open-text").value = this.name = moves ? this.rules.write(moves) : "";
    if (moves) this.problem = "";
    else if (red === yellow || red === yellow + 1) this.problem = "No game leads to these stones.";
    else this.problem = `${red} red and ${yellow} yellow: Red has as many stones as Yellow, or one more.`;
    this.show(this.problem || `${this.describe(moves)} The order of the moves is one of those possible.`);
  }

  show(note) {
    $("open-note").textContent = note;
    for (const cell of $("open-cells").children) {
      const [column, row] = cell.dataset.cell.split(" ").map(Number), stone = ["red", "yellow"][this.grid[column][row]];
      cell.className = stone ?? "";
      cell.setAttribute("aria-label", `Column ${this.rules.name(column)}, row ${row + 1}: ${stone ?? "empty"}`);
    }
  }

  submit(event) {
    event.preventDefault();
    if (this.problem) return $("open-text").focus(); // the note describes the field
    $("open-dialog").close();
    this.onOpen(this.name);
  }
}
