// The rules, shared by the page, its search and its solver. A position is either an array of moves, 0-based columns from
// the empty board, or a pair of bitboards { own, occupied } for the side to move, as in alphac4/game/rules.py: a column
// has rows + 1 bits, lowest cell first. Its highest bit stays empty, so that shifted stones never reach the next column.

const NAMES = "123456789abcdefghijklmnopqrstuvwxyz"; // names of the columns

export class Rules {
  // Takes the board's fields of the page's settings (alphac4/play/web/pages.py).
  constructor({ rows, columns, run_length: runLength, diagonals }) {
    Object.assign(this, { rows, columns, runLength, names: NAMES.slice(0, columns) });
    this.height = BigInt(rows + 1);
    this.bottom = 0n;
    for (let column = 0; column < columns; column++) this.bottom |= 1n << (BigInt(column) * this.height);
    this.full = this.bottom * ((1n << BigInt(rows)) - 1n);
    this.shifts = [1n];
    if (runLength <= columns) this.shifts.push(this.height);
    if (diagonals && runLength <= Math.min(rows, columns)) this.shifts.push(this.height - 1n, this.height + 1n);
  }

  // The name of a column: "1" for 0; letters follow "9".
  name(column) { return this.names[column]; }

  // Message for a stone dropped into a full column.
  columnFullMessage(column) { return `Column ${this.name(column)} is full.`; }

  // Why a move string breaks the rules; "" if it does not.
  problem(text) {
    const moves = [];
    for (const name of text) {
      const column = this.names.indexOf(name), number = moves.length + 1;
      if (column < 0) return `“${name}” is not a column.`;
      if (this.result(moves)) return `Move ${number} follows the end of the game.`;
      if (!this.legal(moves).includes(column)) return `Move ${number} is illegal. ${this.columnFullMessage(column)}`;
      moves.push(column);
    }
    return "";
  }

  // Columns of a move string, or null if it breaks the rules.
  read(text) { return this.problem(text) ? null : [...text].map((name) => this.names.indexOf(name)); }

  // The move string of some columns.
  write(moves) { return moves.map((column) => this.name(column)).join(""); }

  // grid[column] lists the owners of its stones from the bottom up: 0 the first player, 1 the second.
  grid(moves) {
    const grid = Array.from({ length: this.columns }, () => []);
    moves.forEach((column, ply) => grid[column].push(ply % 2));
    return grid;
  }

  // The moves of a game that leads to these stones, as in `grid`, or null if there is none.
  movesTo(grid) {
    const count = grid.flat().length, heights = grid.map(() => 0), moves = [], failed = new Set(); // heights that lead nowhere
    const extend = () => {
      const side = moves.length % 2, key = String(heights);
      if (moves.length === count) return true;
      const { own, occupied } = this.at(moves);
      // Only the last stone may complete a run.
      if (failed.has(key) || (moves.length === count - 1 && (this.hasRun(own) || this.hasRun(own ^ occupied)))) return false;
      for (const [column, stack] of grid.entries()) {
        if (stack[heights[column]] !== side) continue;
        heights[column] += 1;
        moves.push(column);
        if (extend()) return true;
        heights[column] -= 1;
        moves.pop();
      }
      failed.add(key);
      return false;
    };
    return extend() ? moves : null;
  }

  legal(moves) {
    if (this.result(moves)) return [];
    const { occupied } = this.at(moves);
    return [...Array(this.columns).keys()].filter((column) => this.landing(occupied, column));
  }

  // null for an unfinished game, else { winner: 0, 1 or null, cells: [[column, row], ...] of a winning run }.
  result(moves) {
    const { own, occupied } = this.at(moves), cells = this.run(own ^ occupied);
    if (cells.length) return { winner: (moves.length + 1) % 2, cells };
    return occupied === this.full ? { winner: null, cells } : null;
  }

  // The best column of the solver's verdicts, the most central one of equals.
  best(verdicts) {
    const middle = (this.columns - 1) / 2, far = (column) => Math.abs(column - middle);
    return verdicts.filter((item) => item.best).map(({ column }) => column).reduce((a, b) => (far(b) < far(a) ? b : a));
  }

  at(moves) { return moves.reduce((position, column) => this.play(position, column), { own: 0n, occupied: 0n }); }

  // The cell where a stone dropped into the column lands; 0 if that is full.
  landing(occupied, column) {
    const cells = ((1n << BigInt(this.rows)) - 1n) << (BigInt(column) * this.height);
    return (occupied + this.bottom) & this.full & cells;
  }

  // { own, occupied } after a move, seen by the opponent, whose turn it is then.
  play({ own, occupied }, column) {
    return { own: own ^ occupied, occupied: occupied | this.landing(occupied, column) };
  }

  // Empty cells, legal or not, in which one more of these stones completes a run.
  winning(stones, occupied) {
    let found = 0n;
    for (const shift of this.shifts) {
      for (let gap = 0; gap < this.runLength; gap++) { // the missing stone is the gap-th of the run
        let line = this.full;
        for (let step = 0; step < this.runLength; step++) {
          if (step < gap) line &= stones << (shift * BigInt(gap - step));
          if (step > gap) line &= stones >> (shift * BigInt(step - gap));
        }
        found |= line;
      }
    }
    return found & this.full & ~occupied;
  }

  cell(column, row) { return 1n << (BigInt(column) * this.height + BigInt(row)); }

  // The cells [column, row] of some bits, column by column.
  cells(bits) {
    const columns = [...Array(this.columns).keys()], rows = [...Array(this.rows).keys()];
    return columns.flatMap((column) => rows.filter((row) => bits & this.cell(column, row)).map((row) => [column, row]));
  }

  // The cells { column, row, side } in which one more stone of a side completes a run, in an unfinished game.
  threats(moves) {
    if (this.result(moves)) return [];
    const { own, occupied } = this.at(moves), toMove = moves.length % 2;
    return [own, own ^ occupied].flatMap((stones, index) =>
      this.cells(this.winning(stones, occupied)).map(([column, row]) => ({ column, row, side: index ? 1 - toMove : toMove })));
  }

  // The cells [column, row] of a winning run of one side's stones, lowest bit first; empty without a run.
  run(stones) {
    for (const shift of this.shifts) {
      let first = stones;
      for (let step = 1; step < this.runLength; step++) first &= stones >> (shift * BigInt(step));
      if (!first) continue;
      const bit = (first & -first).toString(2).length - 1, height = this.rows + 1;
      return Array.from({ length: this.runLength }, (_, step) => bit + step * Number(shift))
        .map((place) => [Math.floor(place / height), place % height]);
    }
    return [];
  }

  hasRun(stones) { return this.run(stones).length > 0; }

  // The stones with the columns in reverse order.
  mirror(stones) {
    const column = (1n << this.height) - 1n;
    let mirrored = 0n;
    for (let i = 0; i < this.columns; i++, stones >>= this.height) mirrored = (mirrored << this.height) | (stones & column);
    return mirrored;
  }

  // The mirror image of a position if it is the canonical one of the two, else null; see alphac4/game/rules.py.
  mirrored({ own, occupied }) {
    const image = { own: this.mirror(own), occupied: this.mirror(occupied) };
    return image.own + image.occupied < own + occupied ? image : null;
  }

  // Input of the network, float32 [2, rows, columns], bottom row first: stones of the side to move, of its opponent.
  planes({ own, occupied }) {
    const cells = this.rows * this.columns, planes = new Float32Array(2 * cells);
    for (let column = 0; column < this.columns; column++) {
      for (let row = 0; row < this.rows; row++) {
        const bit = this.cell(column, row), cell = row * this.columns + column;
        if (occupied & bit) planes[own & bit ? cell : cells + cell] = 1;
      }
    }
    return planes;
  }
}
