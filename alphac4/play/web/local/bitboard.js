// Positions as two bitboards, as alphac4/game/rules.py has them: each column takes rows + 1 bits, lowest cell first;
// the bit on top stays empty, so that shifted stones never wrap into the next column.

export class Bitboard {
  constructor({ rows, columns, run_length: runLength, diagonals }) {
    Object.assign(this, { rows, columns, runLength });
    this.height = BigInt(rows + 1);
    this.bottom = 0n;
    for (let column = 0; column < columns; column++) this.bottom |= 1n << (BigInt(column) * this.height);
    this.full = this.bottom * ((1n << BigInt(rows)) - 1n);
    this.shifts = [1n];
    if (runLength <= columns) this.shifts.push(this.height);
    if (diagonals && runLength <= Math.min(rows, columns)) this.shifts.push(this.height - 1n, this.height + 1n);
  }

  // The cell where a stone dropped into the column lands; 0 if that is full.
  landing(occupied, column) {
    const cells = ((1n << BigInt(this.rows)) - 1n) << (BigInt(column) * this.height);
    return (occupied + this.bottom) & this.full & cells;
  }

  // { own, occupied } after a move, seen by the opponent, whose turn it is then.
  play({ own, occupied }, column) {
    return { own: own ^ occupied, occupied: occupied | this.landing(occupied, column) };
  }

  at(moves) {
    return moves.reduce((position, column) => this.play(position, column), { own: 0n, occupied: 0n });
  }

  // Empty cells, reachable now or not, where one more of these stones completes a run.
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

  // Whether these stones of one side hold a winning run.
  hasRun(stones) {
    return this.shifts.some((shift) => {
      let run = stones;
      for (let step = 1; step < this.runLength; step++) run &= stones >> (shift * BigInt(step));
      return run;
    });
  }

  // The stones with the columns in reverse order.
  mirror(stones) {
    const column = (1n << this.height) - 1n;
    let mirrored = 0n;
    for (let i = 0; i < this.columns; i++, stones >>= this.height) mirrored = (mirrored << this.height) | (stones & column);
    return mirrored;
  }

  // The mirror image of a position if that is the canonical one of the two, else null: see alphac4/game/symmetry.py.
  mirrored({ own, occupied }) {
    const image = { own: this.mirror(own), occupied: this.mirror(occupied) };
    return image.own + image.occupied < own + occupied ? image : null;
  }

  // What the network sees, float32 [2, rows, columns], bottom row first: the mover's stones, the opponent's.
  planes({ own, occupied }) {
    const cells = this.rows * this.columns, planes = new Float32Array(2 * cells);
    for (let column = 0; column < this.columns; column++) {
      for (let row = 0; row < this.rows; row++) {
        const bit = 1n << (BigInt(column) * this.height + BigInt(row)), cell = row * this.columns + column;
        if (occupied & bit) planes[own & bit ? cell : cells + cell] = 1;
      }
    }
    return planes;
  }
}
