// Puzzles: only one move wins, and the win is played out against the best defence. Progress is stored in this browser.

import { $, COLOURS, announce, counted, eitherOf, enable, onPress, recall, relabel, remember, showStatus } from "../dom.js";

const MIN_ANSWER_MS = 600; // minimum time before a move of the page, so that the previous stone has fallen
const DAY_MS = 24 * 60 * 60 * 1000;
const NEAREST_COUNT = 10; // puzzles with the nearest wins, from which the next one is drawn

export async function create(page) {
  const response = await fetch(new URL("./puzzles.txt", import.meta.url));
  if (!response.ok) throw new Error(`The puzzles cannot be loaded (${response.status}).`);
  return { mode: new Puzzles(page, await response.text()) };
}

class Puzzles {
  help = "← → step, h hint, s solution, r try again, a analyse, p previous, n next, o open";
  keys = { n: "puzzle-next", p: "puzzle-previous", h: "puzzle-hint", s: "puzzle-solution", r: "puzzle-again", a: "puzzle-analyse", o: "open" };

  constructor({ rules, engine, board, entries, record, open }, file) {
    Object.assign(this, { rules, engine, board, entries, record });
    this.seen = []; // puzzles in the order in which they were shown
    this.all = file.trim().split("\n").slice(1).map((line) => {
      const [moves, column, movesToWin, difficulty] = line.split(" ");
      // The id is the position in the file's orientation, also for a mirrored puzzle.
      return { id: moves, moves, solution: rules.names.indexOf(column), movesToWin: Number(movesToWin), difficulty: Number(difficulty) };
    });
    this.solved = new Set();
    this.recallSolved();
    for (const level of [...new Set(this.all.map((puzzle) => puzzle.difficulty))].sort())
      $("difficulty").append(new Option(`${level} ${"★".repeat(level)}`, level));
    $("difficulty").append(new Option("any", ""));
    $("difficulty").value = recall("difficulty", "1");
    $("difficulty").addEventListener("change", () => {
      remember("difficulty", $("difficulty").value);
      this.turn(this.draw());
    });
    onPress("puzzle-next", () => this.turn(this.seen[this.index + 1] ?? this.draw()));
    onPress("puzzle-previous", () => this.turn(this.seen[this.index - 1]));
    onPress("puzzle-again", () => this.begin(this.puzzle, this.helped || this.over));
    onPress("puzzle-analyse", () => {
      const isAtEnd = Boolean(rules.result(this.moves.slice(0, this.ply)));
      open(this.moves, isAtEnd ? this.start.length : this.ply); // nothing to analyse at the end
      if (!$("analyse").checked) $("analyse").click();
    });
    onPress("daily", () => this.turn(this.daily));
    onPress("puzzle-hint", () => this.hint());
    onPress("puzzle-solution", () => this.demonstrate());
  }

  // Other tabs of the browser may have solved puzzles; without storage, only this tab's are known.
  recallSolved() {
    const stored = recall("solved", []);
    this.solved = new Set([...(Array.isArray(stored) ? stored : []), ...this.solved]);
  }

  get chosen() { return this.all.filter(({ difficulty }) => ["", String(difficulty)].includes($("difficulty").value)); }

  // The puzzle with left and right swapped.
  mirrored(puzzle) {
    const { names, columns } = this.rules, image = (column) => columns - 1 - column;
    const moves = [...puzzle.moves].map((name) => names[image(names.indexOf(name))]).join("");
    return { ...puzzle, moves, solution: image(puzzle.solution) };
  }

  // The number of the puzzle among those seen.
  get index() { return this.seen.indexOf(this.puzzle); }

  // Days of the local calendar since 1970.
  get today() { return Math.floor((Date.now() - new Date().getTimezoneOffset() * 60_000) / DAY_MS); }

  // The same puzzle on all machines.
  get daily() { return this.all[(this.today * 7919) % this.all.length]; }

  // Consecutive days on which the puzzle of the day was solved without help, up to today or yesterday.
  get days() {
    const { day, count } = recall("daily", {});
    return day >= this.today - 1 ? { isDone: day === this.today, count } : { isDone: false, count: 0 };
  }

  // Show another puzzle, as a step of the browser's history.
  turn(puzzle) {
    this.entries.push(`puzzles/${puzzle.moves}`);
    this.begin(puzzle);
  }

  // Draw an unsolved puzzle if there is one, easy and near wins first. Half of the puzzles are mirrored.
  draw() {
    this.recallSolved();
    const fresh = this.chosen.filter(({ id }) => !this.solved.has(id) && id !== this.puzzle?.id);
    const from = (fresh.length ? fresh : this.chosen)
      .sort((a, b) => a.difficulty - b.difficulty || a.movesToWin - b.movesToWin).slice(0, NEAREST_COUNT);
    const puzzle = from[Math.floor(from.length * Math.random())];
    return Math.random() < 0.5 ? puzzle : this.mirrored(puzzle);
  }

  // Show the puzzle of a link; without a link, the current or the next one.
  open(moves) {
    const named = (puzzle) => puzzle.moves === moves;
    const linked = this.seen.find(named) ?? this.all.find(named) ?? (moves && this.all.map((puzzle) => this.mirrored(puzzle)).find(named));
    if (linked && $("difficulty").value) $("difficulty").value = String(linked.difficulty);
    if (linked && linked.moves !== this.puzzle?.moves) this.begin(linked);
    else if (this.puzzle) this.show();
    else this.begin(this.draw());
    if (moves && !linked) this.say(`Puzzle ${moves} was not found; here is another one.`);
  }

  // helped: whether the puzzle was solved before, or its solution was shown.
  begin(puzzle, helped = false) {
    if (!this.seen.includes(puzzle)) this.seen.splice(this.index + 1, Infinity, puzzle);
    this.puzzle = puzzle;
    this.start = this.moves = this.rules.read(puzzle.moves); // start: the moves that lead to the puzzle
    this.ply = this.moves.length; // number of moves on the board
    this.busy = this.over = false;
    this.helped = helped;
    this.wrong = new Map(); // column -> its label on the board
    this.say("");
  }

  get side() { return this.start.length % 2; }

  say(text) {
    const task = `${COLOURS[this.side]} to move and win in ${counted(this.puzzle.movesToWin, "move")}.`;
    this.message = this.over || this.moves !== this.start ? text : `${task} ${text}`;
    if (this.isVisible) announce(this.message);
    this.show();
  }

  // The move string on the board.
  get text() { return this.rules.write(this.moves.slice(0, this.ply)); }

  go(ply) {
    this.ply = Math.max(0, Math.min(ply, this.moves.length));
    this.show();
    announce($("status").textContent);
  }

  // Whether the page shows puzzles; the solver may answer after it has changed to the game.
  get isVisible() { return !$("puzzle-side").hidden; }

  show() {
    if (!this.isVisible) return;
    this.entries.save({ hash: `puzzles/${this.puzzle.moves}` });
    const stars = "★".repeat(this.puzzle.difficulty), { chosen } = this, isLast = this.ply === this.moves.length;
    showStatus(isLast ? this.message : `After ${counted(this.ply, "stone")}. ${COLOURS[this.ply % 2]} to move.`);
    $("puzzle-heading").textContent = `Puzzle ${stars}`;
    $("streak").textContent = recall("streak", 0);
    $("best-streak").textContent = recall("bestStreak", 0);
    $("solved").textContent = `${chosen.filter(({ id }) => this.solved.has(id)).length} of ${chosen.length}`;
    relabel("puzzle-next", this.over ? "Next" : "Another");
    $("puzzle-next").classList.toggle("strong", this.over);
    const { isDone, count } = this.days, row = count > 1 ? ` ${count} days in a row.` : "";
    $("daily-state").textContent = `${"★".repeat(this.daily.difficulty)} ${isDone ? "✓ Solved today." : "A new one every day."}${row}`;
    const active = !this.over && !this.busy && isLast;
    enable("puzzle-hint", active && this.moves === this.start && this.possible.length > 2);
    enable("puzzle-solution", active);
    enable("puzzle-previous", this.index > 0);
    enable("puzzle-again", this.moves !== this.start || this.wrong.size > 0);
    this.record.show({ moves: this.moves, ply: this.ply, value: () => undefined });
    this.board.draw(this.moves.slice(0, this.ply), { active, labels: active ? this.wrong : new Map() });
  }

  // The columns that are not ruled out.
  get possible() { return this.rules.legal(this.moves).filter((column) => !this.wrong.has(column)); }

  endStreak() {
    this.helped = true;
    remember("streak", 0);
  }

  // Resolve to the solver's verdicts on the columns, not before the pause is over; empty if the solver is unavailable,
  // null if another position is shown by then.
  async verdicts(pause = 0) {
    const { puzzle, moves, rules } = this, request = this.engine.exact(rules.write(moves)).catch(() => ({ columns: [] }));
    await new Promise((resolve) => setTimeout(resolve, pause));
    const { columns } = await request;
    return this.puzzle === puzzle && this.moves === moves ? columns : null;
  }

  async drop(column) {
    const { puzzle, rules } = this, first = this.moves === this.start;
    if (this.over || this.busy || this.ply < this.moves.length || this.wrong.has(column)) return;
    if (!this.possible.includes(column)) return this.say(rules.columnFullMessage(column));
    if (first && column === puzzle.solution) return this.advance(column);
    if (first) this.refuse(column, "does not win", "no"); // the solver adds the reason
    else this.busy = true; // other moves may win as well
    const found = await this.verdicts(), verdict = found?.find((item) => item.column === column);
    if (!found || this.over) return;
    this.busy = false;
    if (verdict && verdict.score <= 0) this.refuse(column, verdict.score ? verdict.outcome : "only draws", verdict.score ? "loss" : "draw");
    else if (!first) this.advance(column);
  }

  refuse(column, spoken, text) {
    this.endStreak();
    this.wrong.set(column, { text, spoken, tone: "loss", isDisabled: true });
    this.say(`No, ${this.rules.name(column)} ${spoken}.`);
  }

  // Play the right move, and the best defence against it.
  async advance(column) {
    const { rules } = this;
    this.place(column);
    if (rules.result(this.moves)) return this.solve();
    this.busy = true;
    this.say(`Right! ${rules.name(column)} wins.`);
    const found = await this.verdicts(MIN_ANSWER_MS);
    if (!found) return;
    if (!found.length) return this.solve(); // without the solver, the first move is enough
    this.place(rules.best(found));
    this.busy = false;
    const next = await this.verdicts();
    if (!next) return;
    const left = next.find((item) => item.best)?.outcome;
    this.say(left ? `${COLOURS[1 - this.side]} answers ${rules.name(this.moves.at(-1))}. ${COLOURS[this.side]} ${left}. Finish it.` : "Finish it.");
  }

  place(column) {
    this.moves = [...this.moves, column];
    this.ply = this.moves.length;
    this.wrong.clear();
    this.show();
  }

  solve() {
    this.recallSolved();
    this.solved.add(this.puzzle.id);
    remember("solved", [...this.solved]);
    if (!this.helped) {
      remember("streak", recall("streak", 0) + 1);
      if (this.puzzle.id === this.daily.id) remember("daily", { day: this.today, count: this.days.count + !this.days.isDone });
      remember("bestStreak", Math.max(recall("streak", 0), recall("bestStreak", 0)));
    }
    this.over = true;
    this.say("Solved!");
  }

  // Rule out a random half of the wrong moves, but keep at least one.
  hint() {
    const wrong = this.possible.filter((column) => column !== this.puzzle.solution)
      .map((column) => [Math.random(), column]).sort(([a], [b]) => a - b).map(([, column]) => column);
    this.endStreak();
    for (const column of wrong.slice(0, Math.ceil((wrong.length - 1) / 2))) this.wrong.set(column, { text: "no", spoken: "does not win", isDisabled: true });
    this.say(`It is ${eitherOf(this.possible.map((column) => this.rules.name(column)))}.`);
  }

  // Play out the win by best play of both sides, the most central of equal moves.
  async demonstrate() {
    const { puzzle, rules } = this;
    this.endStreak();
    this.over = true;
    this.message = `The solution: ${COLOURS[this.side]} wins in ${counted(puzzle.movesToWin, "move")}.`;
    if (this.moves === this.start) this.place(puzzle.solution);
    while (!rules.result(this.moves)) {
      const found = await this.verdicts(MIN_ANSWER_MS);
      if (!found?.length || !this.isVisible) break;
      this.place(rules.best(found));
    }
    if (this.puzzle === puzzle) this.say(`${rules.name(puzzle.solution)} wins in ${counted(puzzle.movesToWin, "move")}.`);
  }
}
