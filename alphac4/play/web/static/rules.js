// The rules: a position is its moves, 0-based columns from the empty board.

export class Rules {
  // Of the board that the page was told (alphac4/play/web/page_setup.py).
  constructor({ rows, columns, run_length: runLength, diagonals, column_names: names }) {
    Object.assign(this, { rows, columns, runLength, names });
    this.directions = [[0, 1], [1, 0], ...(diagonals ? [[1, 1], [1, -1]] : [])]; // [right, up]
  }

  // What a column is called: "1" for 0; letters follow "9".
  name(column) { return this.names[column]; }

  // What a person is told who drops a stone where there is no room.
  full(column) { return `Column ${this.name(column)} is full.`; }

  // grid[column] lists who owns each stone from the bottom up: 0 the first player, 1 the second.
  grid(moves) {
    const grid = Array.from({ length: this.columns }, () => []);
    moves.forEach((column, ply) => grid[column].push(ply % 2));
    return grid;
  }

  legal(moves) {
    if (this.result(moves)) return [];
    const grid = this.grid(moves);
    return grid.flatMap((stack, column) => (stack.length < this.rows ? [column] : []));
  }

  // Of the solver's verdicts on the columns the best one's column; of those equally good the most central.
  best(verdicts) {
    const middle = (this.columns - 1) / 2, far = (column) => Math.abs(column - middle);
    return verdicts.filter((item) => item.best).map(({ column }) => column).reduce((a, b) => (far(b) < far(a) ? b : a));
  }

  // null while play goes on, else { winner: 0, 1 or null, cells: [[column, row], ...] }.
  result(moves) {
    const grid = this.grid(moves);
    const at = (column, row) => grid[column]?.[row];
    for (let column = 0; column < this.columns; column++) {
      for (let row = 0; row < grid[column].length; row++) {
        for (const [right, up] of this.directions) {
          const cells = Array.from({ length: this.runLength }, (_, i) => [column + i * right, row + i * up]);
          const owner = at(column, row);
          if (cells.every(([c, r]) => r >= 0 && at(c, r) === owner)) return { winner: owner, cells };
        }
      }
    }
    return moves.length === this.rows * this.columns ? { winner: null, cells: [] } : null;
  }

  // Columns of a move string, or null if it breaks the rules.
  read(text) {
    const moves = [];
    for (const character of text) {
      const column = this.names.indexOf(character);
      if (column < 0 || !this.legal(moves).includes(column)) return null;
      moves.push(column);
    }
    return moves;
  }

  // The move string of some columns.
  write(moves) { return moves.map((column) => this.name(column)).join(""); }
}
