// Reasons for and against a move in one sentence, which the rules alone prove: the same as in alphac4/game/reasons.py,
// where the kinds are listed. A position is { own, occupied }, as in rules.js.

import { COLOURS } from "./dom.js";

const parity = (row) => (row % 2 ? "even" : "odd"); // rows count from 0 here, from 1 for people

function join(words) { return words.length > 1 ? `${words.slice(0, -1).join(", ")} and ${words.at(-1)}` : words[0]; }

export class Reasons {
  constructor(rules) { this.rules = rules; }

  // What a legal move after these moves achieves; "" for nothing simple, or if the opponent has a simple way to win after it.
  strength(moves, column) {
    const { rules } = this, position = rules.at(moves), names = this.names(moves), [side, opponent] = names, name = rules.name(column);
    const won = this.wayToWin(position, column, names), after = rules.play(position, column);
    if (won) return `${name} ${won}.`;
    if (this.shortest(after, [opponent, side])) return "";
    if (rules.winning(this.other(position), position.occupied) & rules.landing(position.occupied, column)) return `${name} stops ${opponent}'s row.`;
    const [answer] = this.completing(after, true);
    if (answer !== undefined) return `${name} makes a threat in ${rules.name(answer)}, which ${opponent} must answer.`;
    const passed = { own: this.other(position), occupied: position.occupied };
    for (const reply of this.legal(passed)) {
      const way = this.doubleThreat(rules.play(passed, reply)), stays = rules.landing(after.occupied, reply) && this.doubleThreat(rules.play(after, reply));
      if (way && !stays) return `${name} prevents ${opponent}'s ${rules.name(reply)}, which ${way}.`;
    }
    const made = rules.cells(rules.winning(this.other(after), after.occupied) & ~rules.winning(position.own, position.occupied));
    const threats = made.map(([where, row]) => `an ${parity(row)} threat in ${rules.name(where)}`);
    return threats.length ? `${name} makes ${join(threats)}.` : "";
  }

  // What a legal move gives away; "" for nothing simple.
  weakness(moves, column) {
    const { rules } = this, position = rules.at(moves), [side, opponent] = this.names(moves), name = rules.name(column);
    const after = rules.play(position, column), found = this.shortest(after, [opponent, side]);
    if (found) return `${name} lets ${opponent} play ${rules.name(found[0])}, which ${found[1]}.`;
    const above = rules.result([...moves, column]) ? 0n : rules.landing(after.occupied, column);
    const [lost] = rules.cells(rules.winning(position.own, position.occupied) & above);
    return lost ? `${name} lets ${opponent} stop ${side}'s ${parity(lost[1])} threat above it.` : "";
  }

  // The names of the side to move and of its opponent.
  names(moves) { return moves.length % 2 ? [...COLOURS].reverse() : COLOURS; }

  other({ own, occupied }) { return own ^ occupied; }

  isOver(position) { return position.occupied === this.rules.full || this.rules.hasRun(this.other(position)); }

  legal(position) {
    if (this.isOver(position)) return [];
    return [...Array(this.rules.columns).keys()].filter((column) => this.rules.landing(position.occupied, column));
  }

  // Columns where a stone of the side to move, or else of its opponent, completes a row at once.
  completing({ own, occupied }, opponent = false) {
    const { rules } = this, cells = rules.winning(opponent ? own ^ occupied : own, occupied);
    return [...Array(rules.columns).keys()].filter((column) => cells & rules.landing(occupied, column));
  }

  // Whether the game is not over, and the side to move cannot complete a row at once.
  isOpen(position) { return !this.isOver(position) && !this.completing(position).length; }

  // How a move wins for sure, for the side to move and its opponent of these names; "" for nothing simple.
  wayToWin(position, column, names, canForce = true) {
    const { rules } = this, after = rules.play(position, column), [side, opponent] = names;
    if (rules.hasRun(this.other(after))) return "completes a row";
    if (!this.isOpen(after)) return "";
    const double = this.doubleThreat(after), [answer] = this.completing(after, true);
    if (double) return double;
    const found = canForce && answer !== undefined && this.shortest(rules.play(after, answer), names, false);
    if (found) return `makes ${opponent} answer ${rules.name(answer)}; then ${rules.name(found[0])} ${found[1]}`;
    const last = this.lastThreat(after);
    return last ? `forces ${opponent} in the end to play ${rules.name(last[0])}, below ${side}'s ${parity(last[1])} threat` : "";
  }

  // The move with the shortest `wayToWin`, and that way: [column, way]; undefined without one.
  shortest(position, names, canForce = true) {
    const ways = this.legal(position).map((column) => [column, this.wayToWin(position, column, names, canForce)]).filter(([, way]) => way);
    return ways.sort(([, a], [, b]) => a.length - b.length)[0];
  }

  // How the side that has just moved threatens two cells, of which its opponent can fill only one.
  doubleThreat(after) {
    if (!this.isOpen(after)) return "";
    const { rules } = this, columns = this.completing(after, true);
    if (columns.length > 1) return `makes threats in ${join(columns.map((column) => rules.name(column)))} at once`;
    const [column] = columns;
    if (column === undefined || !this.completing(rules.play(after, column)).includes(column)) return "";
    return `makes threats in ${rules.name(column)}, one above the other`;
  }

  // The cell [column, row] of a threat that decides the game, for the side that has just moved.
  lastThreat(after) {
    const { rules } = this, columns = [...Array(rules.columns).keys()], rows = [...Array(rules.rows).keys()];
    return rules.cells(rules.winning(this.other(after), after.occupied)).find(([column, row]) => {
      const left = columns.map((each) => rows.filter((at) => !(after.occupied & rules.cell(each, at)) && (each !== column || at < row)));
      if (left.some((empty, each) => empty.length % 2 !== Number(each === column))) return false;
      const got = left.flatMap((empty, each) => empty.filter((_, index) => index % 2 === 0).map((at) => rules.cell(each, at)));
      return !rules.hasRun(got.reduce((stones, cell) => stones | cell, after.own));
    });
  }
}
