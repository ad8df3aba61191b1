// The game on the board: its moves, the number of moves shown, and the players.

import { COLOURS } from "./dom.js";

export class Game {
  constructor(rules) {
    this.rules = rules;
    this.moves = []; // moves of the whole game
    this.ply = 0; // number of moves on the board
    this.players = ["", ""]; // levels; "" is a person
    this.paused = false; // levels wait until a person moves or continues the game
    this.shared = false; // the position is from a link, without a move since
    this.helped = false; // with results or a hint on the board, moves taken back, another level, or from a link
  }

  get shown() { return this.moves.slice(0, this.ply); }
  get text() { return this.rules.write(this.shown); }
  get side() { return this.ply % 2; }
  get player() { return this.players[this.side]; }
  get result() { return this.rules.result(this.shown); }
  get people() { return [0, 1].filter((side) => !this.players[side]); }

  // Whether levels wait, also while an earlier position is shown.
  get waits() { return this.paused || this.ply < this.moves.length; }
  get awaitsPerson() { return !this.result && (!this.player || this.waits); }

  play(column) {
    if (this.moves[this.ply] !== column) {
      this.helped ||= this.waits;
      this.moves = [...this.shown, column];
    }
    this.ply += 1;
    this.paused = this.shared = false;
  }

  go(ply) { this.ply = Math.max(0, Math.min(ply, this.moves.length)); }

  // Take back moves until a person is to move.
  undo() {
    do this.go(this.ply - 1);
    while (this.ply > 0 && this.people.length && this.player);
  }

  // Let levels continue from the position shown; later moves are discarded.
  resume() {
    this.moves = this.shown;
    this.paused = false;
  }

  load(moves, { ply = moves.length, paused = moves.length > 0, shared = paused, helped = moves.length > 0 } = {}) {
    Object.assign(this, { moves, ply, paused, shared, helped });
  }

  // The result, such as "You win!", and the place of the winning line; null for an unfinished game.
  ending() {
    const { result, people } = this;
    if (!result) return null;
    if (result.winner === null) return { text: "A draw", line: "" };
    const [from, to] = [result.cells[0], result.cells.at(-1)].map(([c, r]) => `column ${this.rules.name(c)}, row ${r + 1}`);
    const colour = COLOURS[result.winner];
    const text = people.length !== 1 || this.shared ? `${colour} wins` : people[0] === result.winner ? "You win!" : "You lose";
    return { text, line: `${colour} has a line from ${from} to ${to}.` };
  }
}
