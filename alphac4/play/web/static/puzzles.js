// Puzzles: one move alone wins. The progress stays in this browser.

import { $, COLOURS, announce, counted, enable, onPress, recall, remember, tell } from "./dom.js";

const LINE_PLIES = 9; // of best play that are told after a puzzle
const NEAREST = 10; // wins, of which the next puzzle is one: to see far takes practice

export class Puzzles {
  // onPlay(moves, side) plays the position out, with a person on that side.
  constructor({ rules, engine, board, puzzles }, onPlay) {
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
    onPress("puzzle-solution", () => this.tell());
    onPress("puzzle-play", () => onPlay(this.moves, this.before.length % 2));
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
    this.helped = this.over = false;
    this.wrong = new Map(); // column -> what the board says of it
    this.say("");
  }

  say(text) {
    const task = `${COLOURS[this.before.length % 2]} to move and win in ${counted(this.puzzle.distance, "move")}.`;
    this.text = this.over ? text : `${task} ${text}`;
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
    enable("puzzle-hint", !this.over && this.possible.length > 2);
    enable("puzzle-solution", !this.over);
    this.board.draw(this.moves, { active: !this.over, said: this.over ? new Map() : this.wrong });
  }

  // The columns that may still be the solution.
  get possible() { return this.rules.legal(this.before).filter((column) => !this.wrong.has(column)); }

  endStreak() {
    this.helped = true;
    remember("streak", 0);
  }

  async drop(column) {
    const { puzzle, rules } = this, name = rules.name(column);
    if (this.over || this.wrong.has(column)) return;
    if (!this.possible.includes(column)) return this.say(rules.noRoom(column));
    if (column === puzzle.solution) return this.solve(`Right! ${name} wins in ${puzzle.distance} moves.`);
    this.endStreak();
    this.wrong.set(column, { text: "no", spoken: "does not win", closed: true });
    this.say(`No, ${name} does not win.`);
    const { columns } = await this.engine.exact(puzzle.moves).catch(() => ({ columns: [] })); // then without the reason
    const verdict = columns.find((item) => item.column === column);
    if (!verdict || this.puzzle !== puzzle || this.over) return;
    const outcome = verdict.score ? verdict.outcome : "only draws";
    this.wrong.set(column, { text: verdict.score ? "loss" : "draw", spoken: outcome, closed: true });
    this.say(`No, ${name} ${outcome}.`);
  }

  solve(text) {
    this.recallSolved();
    this.solved.add(this.puzzle.id);
    remember("solved", [...this.solved]);
    if (!this.helped) {
      remember("streak", recall("streak", 0) + 1);
      remember("bestStreak", Math.max(recall("streak", 0), recall("bestStreak", 0)));
    }
    this.end(text);
  }

  // Say how it ended, and how the win goes on: best play by both sides, of moves equally good the most central.
  async end(text) {
    const { puzzle, rules } = this, line = [puzzle.solution];
    this.over = true;
    this.moves = [...this.before, puzzle.solution];
    this.say(text);
    for (let moves = this.moves; line.length < LINE_PLIES && !rules.result(moves); moves = [...this.before, ...line]) {
      const { columns } = await this.engine.exact(rules.write(moves)).catch(() => ({ columns: [] }));
      if (this.puzzle !== puzzle || !this.seen || !columns.length) return;
      line.push(rules.best(columns));
    }
    if (line.length > 1) this.say(`${text} For example ${line.map((column) => rules.name(column)).join(" ")}.`);
  }

  // Rule out half of the wrong moves, any of them, as long as one stays.
  hint() {
    const wrong = this.possible.filter((column) => column !== this.puzzle.solution)
      .map((column) => [Math.random(), column]).sort(([a], [b]) => a - b).map(([, column]) => column);
    this.endStreak();
    for (const column of wrong.slice(0, Math.ceil((wrong.length - 1) / 2))) this.wrong.set(column, { text: "no", spoken: "does not win", closed: true });
    this.say(`It is one of ${this.possible.map((column) => this.rules.name(column)).join(", ")}.`);
  }

  tell() {
    this.endStreak();
    this.end(`${this.rules.name(this.puzzle.solution)} wins in ${this.puzzle.distance} moves.`);
  }
}
