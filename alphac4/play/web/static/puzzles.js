// Puzzles: one move wins, and the win is played out against the best defence. The progress stays in this browser.

import { $, COLOURS, announce, counted, enable, onPress, recall, remember, tell } from "./dom.js";

const ANSWER_MILLISECONDS = 600; // before a move of the page, so that the stone before it has fallen
const NEAREST = 10; // wins, of which the next puzzle is one: to see far takes practice

export class Puzzles {
  constructor({ rules, engine, board, puzzles }) {
    Object.assign(this, { rules, engine, board });
    // An id is the position in the file's orientation, which a puzzle keeps when it is shown as its mirror image.
    this.all = puzzles.map(([moves, solution, distance, difficulty]) => ({ id: moves, moves, solution, distance, difficulty }));
    this.solved = new Set();
    this.recallSolved();
    for (const level of [...new Set(this.all.map((puzzle) => puzzle.difficulty))].sort())
      $("difficulty").append(new Option(`${level} ${"★".repeat(level)}`, level));
    $("difficulty").append(new Option("any", ""));
    $("difficulty").value = recall("difficulty", "1");
    $("difficulty").addEventListener("change", () => {
      remember("difficulty", $("difficulty").value);
      this.next();
    });
    onPress("puzzle-next", () => this.next());
    onPress("puzzle-hint", () => this.hint());
    onPress("puzzle-solution", () => this.demonstrate());
  }

  // The browser's other tabs solve puzzles, too; where it remembers nothing, there are those of this one.
  recallSolved() { this.solved = new Set([...recall("solved", []), ...this.solved]); }

  get chosen() { return this.all.filter(({ difficulty }) => ["", String(difficulty)].includes($("difficulty").value)); }

  // The puzzle with left and right exchanged.
  mirrored(puzzle) {
    const { names, columns } = this.rules, image = (column) => columns - 1 - column;
    const moves = [...puzzle.moves].map((name) => names[image(names.indexOf(name))]).join("");
    return { ...puzzle, moves, solution: image(puzzle.solution) };
  }

  // One that was not solved yet, unless all were; the easier ones and the nearer wins first. Half of them are mirrored.
  next() {
    this.recallSolved();
    const fresh = this.chosen.filter(({ id }) => !this.solved.has(id) && id !== this.puzzle?.id);
    const from = (fresh.length ? fresh : this.chosen)
      .sort((a, b) => a.difficulty - b.difficulty || a.distance - b.distance).slice(0, NEAREST);
    const puzzle = from[Math.floor(from.length * Math.random())];
    this.begin(Math.random() < 0.5 ? puzzle : this.mirrored(puzzle));
  }

  // The puzzle that a link names, unless it is on the board already; without a link the one there, or else the next.
  open(moves) {
    const named = (puzzle) => puzzle.moves === moves;
    const linked = this.all.find(named) ?? (moves && this.all.map((puzzle) => this.mirrored(puzzle)).find(named));
    if (linked && linked.moves !== this.puzzle?.moves) this.begin(linked);
    else if (this.puzzle) this.show();
    else this.next();
    if (moves && !linked) this.say(`There is no puzzle ${moves}; this is another.`);
  }

  begin(puzzle) {
    this.puzzle = puzzle;
    this.before = this.moves = this.rules.read(puzzle.moves);
    this.helped = this.busy = this.over = false;
    this.wrong = new Map(); // column -> what the board says of it
    this.say("");
  }

  get side() { return this.before.length % 2; }

  say(text) {
    const task = `${COLOURS[this.side]} to move and win in ${counted(this.puzzle.distance, "move")}.`;
    this.text = this.over || this.moves !== this.before ? text : `${task} ${text}`;
    if (this.seen) announce(this.text);
    this.show();
  }

  // Whether the page shows puzzles; answers of the solver may come later than that.
  get seen() { return !$("puzzle-side").hidden; }

  show() {
    if (!this.seen) return;
    history.replaceState(null, "", `#puzzles/${this.puzzle.moves}`);
    const stars = "★".repeat(this.puzzle.difficulty), { chosen } = this;
    tell(this.text);
    $("puzzle-heading").textContent = `Puzzle ${stars}`;
    $("streak").textContent = recall("streak", 0);
    $("best-streak").textContent = recall("bestStreak", 0);
    $("solved").textContent = `${chosen.filter(({ id }) => this.solved.has(id)).length} of ${chosen.length}`;
    $("puzzle-next").textContent = this.over ? "Next" : "Another";
    $("puzzle-next").classList.toggle("strong", this.over);
    const active = !this.over && !this.busy;
    enable("puzzle-hint", active && this.moves === this.before && this.possible.length > 2);
    enable("puzzle-solution", active);
    this.board.draw(this.moves, { active, said: active ? this.wrong : new Map() });
  }

  // The columns that may still be the right move.
  get possible() { return this.rules.legal(this.moves).filter((column) => !this.wrong.has(column)); }

  endStreak() {
    this.helped = true;
    remember("streak", 0);
  }

  // Promises the solver's verdicts on the columns, not before the pause is over; none where it cannot be asked. Null once
  // another position is shown.
  async verdicts(pause = 0) {
    const { puzzle, moves, rules } = this, asked = this.engine.exact(rules.write(moves)).catch(() => ({ columns: [] }));
    await new Promise((resolve) => setTimeout(resolve, pause));
    const { columns } = await asked;
    return this.puzzle === puzzle && this.moves === moves ? columns : null;
  }

  async drop(column) {
    const { puzzle, rules } = this, first = this.moves === this.before;
    if (this.over || this.busy || this.wrong.has(column)) return;
    if (!this.possible.includes(column)) return this.say(rules.noRoom(column));
    if (first && column === puzzle.solution) return this.advance(column);
    if (first) this.refuse(column, "does not win", "no"); // the reason takes the solver a moment
    else this.busy = true; // other moves than the best one may win as well
    const found = await this.verdicts(), verdict = found?.find((item) => item.column === column);
    if (!found || this.over) return;
    this.busy = false;
    if (verdict && verdict.score <= 0) this.refuse(column, verdict.score ? verdict.outcome : "only draws", verdict.score ? "loss" : "draw");
    else if (!first) this.advance(column);
  }

  refuse(column, spoken, text) {
    this.endStreak();
    this.wrong.set(column, { text, spoken, tone: "loss", closed: true });
    this.say(`No, ${this.rules.name(column)} ${spoken}.`);
  }

  // The right move is made, and the best defence against it.
  async advance(column) {
    const { rules } = this;
    this.place(column);
    if (rules.result(this.moves)) return this.solve();
    this.busy = true;
    this.say(`Right! ${rules.name(column)} wins.`);
    const found = await this.verdicts(ANSWER_MILLISECONDS);
    if (!found) return;
    if (!found.length) return this.solve(); // without the solver the first move must do
    this.place(rules.best(found));
    this.busy = false;
    const next = await this.verdicts();
    if (!next) return;
    const left = next.find((item) => item.best)?.outcome;
    this.say(left ? `${COLOURS[1 - this.side]} answers ${rules.name(this.moves.at(-1))}. ${COLOURS[this.side]} ${left}: finish it.` : "Finish it.");
  }

  place(column) {
    this.moves = [...this.moves, column];
    this.wrong.clear();
    this.show();
  }

  solve() {
    this.recallSolved();
    this.solved.add(this.puzzle.id);
    remember("solved", [...this.solved]);
    if (!this.helped) {
      remember("streak", recall("streak", 0) + 1);
      remember("bestStreak", Math.max(recall("streak", 0), recall("bestStreak", 0)));
    }
    this.over = true;
    this.say("Solved!");
  }

  // Rule out half of the wrong moves, any of them, as long as one stays.
  hint() {
    const wrong = this.possible.filter((column) => column !== this.puzzle.solution)
      .map((column) => [Math.random(), column]).sort(([a], [b]) => a - b).map(([, column]) => column);
    this.endStreak();
    for (const column of wrong.slice(0, Math.ceil((wrong.length - 1) / 2))) this.wrong.set(column, { text: "no", spoken: "does not win", closed: true });
    this.say(`It is one of ${this.possible.map((column) => this.rules.name(column)).join(", ")}.`);
  }

  // Play the win out: best play by both sides, of moves equally good the most central.
  async demonstrate() {
    const { puzzle, rules } = this;
    this.endStreak();
    this.over = true;
    this.text = `The solution: ${COLOURS[this.side]} wins in ${counted(puzzle.distance, "move")}.`;
    if (this.moves === this.before) this.place(puzzle.solution);
    while (!rules.result(this.moves)) {
      const found = await this.verdicts(ANSWER_MILLISECONDS);
      if (!found?.length || !this.seen) break;
      this.place(rules.best(found));
    }
    if (this.puzzle === puzzle) this.say(`${rules.name(puzzle.solution)} wins in ${counted(puzzle.distance, "move")}.`);
  }
}
