// Exact solver of the page: alphac4/solver compiled to WebAssembly by scripts/solver_wasm.py.

const PAGE_BYTES = 65536, SLICE_NODES = 1_000_000n;
const TABLE_BITS = 22; // 32 MiB of proven bounds
const NODES = 0, LIMIT = 1, PAUSED_AT = 2, COUNTERS = 5; // in the integers of a stack: alphac4/solver/memory.py
const UNPAUSED = -1n, PAUSED = -1000n;

export class ExactSolver {
  // book: { plies, keys, scores } of the positions with at most `plies` stones, as in alphac4/solver/book.py.
  constructor(module, { rows, columns }, book = { plies: -1, keys: [], scores: [] }) {
    const depths = rows * columns + 1, stackBytes = 8 * (COUNTERS + depths * (4 + 2 * columns)), { length } = book.keys;
    let bytes = 64; // address 0 is null
    const place = (size) => ((bytes = Math.ceil((bytes + size) / 64) * 64), bytes - Math.ceil(size / 64) * 64);
    this.places = [8, 8, 8 * 2 ** TABLE_BITS, stackBytes, stackBytes, 8 * 64, 8 * length, length].map(place);
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE_BYTES) }), { buffer } = memory;
    const [result, , , , integers, ranks, keys, scores] = this.places;
    this.result = new BigInt64Array(buffer, result, 1);
    this.integers = new BigInt64Array(buffer, integers, COUNTERS);
    this.abandon();
    new BigUint64Array(buffer, keys, length).set(book.keys.map(BigInt));
    new Int8Array(buffer, scores, length).set(book.scores);
    const preferred = new BigInt64Array(buffer, ranks, 64); // central cells first: `make_layout` in alphac4/solver/search.py
    for (let c = 0; c < columns; c++)
      for (let r = 0; r < rows; r++) preferred[c * (rows + 1) + r] = BigInt(8 * Math.min(c, columns - 1 - c) + r);
    this.about = [BigInt(TABLE_BITS), BigInt(length), BigInt(book.plies)];
    this.search = new WebAssembly.Instance(module, { env: { __linear_memory: memory } }).exports.score;
  }

  // Search one slice: return the exact score for the side to move, or null if the search must be continued by another
  // call. With weak, only the sign of the score is exact, which takes less search.
  advance({ own, occupied }, weak = false) {
    this.integers[LIMIT] = this.integers[NODES] + SLICE_NODES;
    this.search(...this.places, ...this.about, own, occupied, BigInt(weak));
    return this.result[0] === PAUSED ? null : Number(this.result[0]);
  }

  // Discard an unfinished search.
  abandon() { this.integers[PAUSED_AT] = UNPAUSED; }

  score(position, weak) {
    for (;;) {
      const found = this.advance(position, weak);
      if (found !== null) return found;
    }
  }
}

// Number of moves left to the winner, its last included, in a position with `plies` stones; 0 for a draw.
export function movesToEnd({ rows, columns }, plies, score) {
  const cells = rows * columns;
  if (score > 0) return ((cells + 1 - plies) >> 1) - score + 1;
  return score && ((cells - plies) >> 1) + score + 1;
}

export function describe(score, moves) {
  return score ? `${score > 0 ? "wins" : "loses"} in ${moves} move${moves === 1 ? "" : "s"}` : "draw";
}
