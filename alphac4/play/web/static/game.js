// A game on the board: its moves, how many of them are shown, and who plays.

import { COLOURS } from "./dom.js";

export class Game {
  constructor(rules) {
    this.rules = rules;
    this.moves = []; // of the whole game
    this.ply = 0; // how many of them are on the board
    this.players = ["", ""]; // levels; "" is a person
    this.paused = false; // levels wait until a person moves or lets them go on
    this.shared = false; // the position came by a link, and nobody has moved since
  }

  get shown() { return this.moves.slice(0, this.ply); }
  get text() { return this.rules.write(this.shown); }
  get side() { return this.ply % 2; }
  get player() { return this.players[this.side]; }
  get result() { return this.rules.result(this.shown); }
  get people() { return [0, 1].filter((side) => !this.players[side]); }
  get awaitsPerson() { return !this.result && (!this.player || this.paused); }

  play(column) {
    if (this.moves[this.ply] !== column) this.moves = [...this.shown, column];
    this.ply += 1;
    this.paused = this.shared = false;
  }

  go(ply) {
    this.ply = Math.max(0, Math.min(ply, this.moves.length));
    this.paused = true;
  }

  // Against a level, take back or replay until a person is to move.
  step(direction) {
    let ply = this.ply;
    do ply += direction;
    while (ply > 0 && ply < this.moves.length && this.people.length && this.players[ply % 2]);
    this.go(ply);
  }

  load(moves) {
    this.moves = moves;
    this.ply = moves.length;
    this.paused = this.shared = moves.length > 0;
  }

  // Such as "You win!" and where the line is; null while play goes on.
  ending() {
    const { result, people } = this;
    if (!result) return null;
    if (result.winner === null) return { text: "A draw.", line: "" };
    const [from, to] = [result.cells[0], result.cells.at(-1)].map(([c, r]) => `column ${this.rules.name(c)}, row ${r + 1}`);
    const colour = COLOURS[result.winner];
    const text = people.length !== 1 || this.shared ? `${colour} wins.` : people[0] === result.winner ? "You win!" : "You lose.";
    return { text, line: `${colour} has a line from ${from} to ${to}.` };
  }
}
