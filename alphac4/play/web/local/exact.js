// The exact solver in the page: alpha-beta over bitboards, after Pascal Pons's "Solving Connect 4".
//
// A board is two numbers of whole columns, rows + 1 bits each: `low` has the columns on the left, `high` the others.
// Scores are those of alphac4/solver: 0 a draw; positive if the side to move wins, by how many of its stones are left.

const ENTRIES = 2097143; // a prime below 2 ** 21
const UPPER = 64, LOWER = -64; // added to a bound to tell which one it is

export class ExactSolver {
  // book: { plies, keys, scores } of the positions with so few stones, the lesser key of each and its mirror image.
  constructor({ rows, columns, run_length: run, diagonals }, book = { plies: -1, keys: [], scores: [] }) {
    const height = rows + 1, half = Math.ceil(columns / 2), bits = half * height;
    if (run !== 4 || !diagonals || bits > 28) throw new Error("This board is too large for the solver.");
    Object.assign(this, { rows, columns, height, half, cells: rows * columns, plies: book.plies });
    this.known = new Map(book.keys.map((key, index) => [key, book.scores[index]]));
    this.bits = bits;
    this.lowBits = 2 ** bits - 1;
    this.highBits = 2 ** ((columns - half) * height) - 1;
    this.column = 2 ** height - 1;
    this.bottom = [0, 0]; // a bit in the lowest row of each column
    for (let c = 0; c < columns; c++) this.bottom[c < half ? 0 : 1] |= 1 << ((c < half ? c : c - half) * height);
    this.board = this.bottom.map((cells) => cells * (2 ** rows - 1));
    this.order = [...Array(columns).keys()].sort((a, b) => Math.abs(2 * a - columns + 1) - Math.abs(2 * b - columns + 1));
    this.keys = new Float64Array(ENTRIES).fill(-1);
    this.bounds = new Int8Array(ENTRIES);
    this.moves = Array.from({ length: this.cells + 1 }, () => new Int32Array(3 * columns)); // low, high, rank by ply
    this.result = [0, 0]; // of `winning`: low and high
  }

  // Empty cells where one more of these stones makes four, into `result`.
  winning(low, high, taken, takenHigh) {
    const { bits, lowBits, highBits, height } = this;
    let l = (low << 1) & (low << 2) & (low << 3), h = (high << 1) & (high << 2) & (high << 3);
    for (let shift = height - 1; shift <= height + 1; shift++) {
      const two = 2 * shift, three = 3 * shift;
      const upLow1 = (low << shift) & lowBits, upHigh1 = ((high << shift) | (low >>> (bits - shift))) & highBits;
      const upLow2 = (upLow1 << shift) & lowBits, upHigh2 = ((upHigh1 << shift) | (upLow1 >>> (bits - shift))) & highBits;
      const upLow3 = (upLow2 << shift) & lowBits, upHigh3 = ((upHigh2 << shift) | (upLow2 >>> (bits - shift))) & highBits;
      const downLow1 = ((low >>> shift) | (high << (bits - shift))) & lowBits, downHigh1 = high >>> shift;
      const downLow2 = ((downLow1 >>> shift) | (downHigh1 << (bits - shift))) & lowBits, downHigh2 = downHigh1 >>> shift;
      const downLow3 = ((downLow2 >>> shift) | (downHigh2 << (bits - shift))) & lowBits, downHigh3 = downHigh2 >>> shift;
      l |= (upLow1 & upLow2 & (upLow3 | downLow1)) | (downLow1 & downLow2 & (downLow3 | upLow1));
      h |= (upHigh1 & upHigh2 & (upHigh3 | downHigh1)) | (downHigh1 & downHigh2 & (downHigh3 | upHigh1));
    }
    this.result[0] = l & this.board[0] & ~taken;
    this.result[1] = h & this.board[1] & ~takenHigh;
  }

  key(ol, oh, ml, mh) { return ol + ml + (oh + mh) * (this.lowBits + 1); }

  // Of the position or its mirror image, whichever is less.
  canonicalKey(ol, oh, ml, mh) {
    const { columns, half, height, column } = this, key = this.key(ol, oh, ml, mh), low = ol + ml, high = oh + mh;
    let mirrored = 0;
    for (let c = 0; c < columns; c++) {
      const bits = c < half ? low >>> (c * height) : high >>> ((c - half) * height);
      mirrored = mirrored * 2 ** height + (bits & column);
    }
    return Math.min(key, mirrored);
  }

  // The score within (alpha, beta) or a bound beyond; the side to move has no win on the move.
  search(ol, oh, ml, mh, plies, alpha, beta) {
    const { board, bottom, cells } = this;
    this.winning(ol ^ ml, oh ^ mh, ml, mh);
    const [threatLow, threatHigh] = this.result;
    let low = (ml + bottom[0]) & board[0], high = (mh + bottom[1]) & board[1];
    const forcedLow = low & threatLow, forcedHigh = high & threatHigh;
    if (forcedLow || forcedHigh) {
      if ((forcedLow && forcedHigh) || forcedLow & (forcedLow - 1) || forcedHigh & (forcedHigh - 1)) return -((cells - plies) >> 1);
      low = forcedLow;
      high = forcedHigh;
    }
    low &= ~(threatLow >>> 1); // never right below a cell that wins for the opponent
    high &= ~(threatHigh >>> 1);
    if (!low && !high) return -((cells - plies) >> 1);
    if (plies >= cells - 2) return 0;
    alpha = Math.max(alpha, -((cells - 2 - plies) >> 1));
    beta = Math.min(beta, (cells - 1 - plies) >> 1);
    if (alpha >= beta) return alpha;

    const key = this.key(ol, oh, ml, mh), slot = key % ENTRIES;
    if (this.keys[slot] === key) {
      const bound = this.bounds[slot];
      if (bound > 0) beta = Math.min(beta, bound - UPPER);
      else alpha = Math.max(alpha, bound - LOWER);
      if (alpha >= beta) return bound > 0 ? beta : alpha;
    }
    const moves = this.moves[plies], count = this.rank(moves, ol, oh, ml, mh, low, high);
    for (let i = 0; i < count; i++) {
      const ml2 = ml | moves[3 * i], mh2 = mh | moves[3 * i + 1];
      const score = -this.search(ol ^ ml, oh ^ mh, ml2, mh2, plies + 1, -beta, -alpha);
      if (score >= beta) {
        this.keys[slot] = key;
        this.bounds[slot] = score + LOWER;
        return score;
      }
      alpha = Math.max(alpha, score);
    }
    this.keys[slot] = key;
    this.bounds[slot] = alpha + UPPER;
    return alpha;
  }

  // The moves among these cells, those that make most threats first, of those equal the most central; how many.
  rank(moves, ol, oh, ml, mh, low, high) {
    let count = 0;
    for (const c of this.order) {
      const inLow = c < this.half, cells = this.column << ((inLow ? c : c - this.half) * this.height);
      const moveLow = inLow ? low & cells : 0, moveHigh = inLow ? 0 : high & cells;
      if (!moveLow && !moveHigh) continue;
      this.winning(ol | moveLow, oh | moveHigh, ml, mh);
      const rank = bitCount(this.result[0]) + bitCount(this.result[1]);
      let place = count++;
      for (; place && moves[3 * place - 1] < rank; place--) moves.copyWithin(3 * place, 3 * place - 3, 3 * place);
      moves[3 * place] = moveLow;
      moves[3 * place + 1] = moveHigh;
      moves[3 * place + 2] = rank;
    }
    return count;
  }

  // The exact score of a position in which nobody has four.
  score(ol, oh, ml, mh, plies) {
    const { cells, board, bottom } = this;
    if (plies === cells) return 0;
    if (plies <= this.plies) {
      const known = this.known.get(this.canonicalKey(ol, oh, ml, mh));
      if (known !== undefined) return known;
    }
    this.winning(ol, oh, ml, mh);
    if ((ml + bottom[0]) & board[0] & this.result[0] || (mh + bottom[1]) & board[1] & this.result[1]) return (cells + 1 - plies) >> 1;
    let low = -((cells - plies) >> 1), high = (cells - 1 - plies) >> 1;
    while (low < high) { // bisect, but ask first who wins, and for long wins before short ones
      let middle = low + ((high - low) >> 1);
      if (middle <= 0 && low / 2 < middle) middle = Math.trunc(low / 2);
      else if (middle >= 0 && high / 2 > middle) middle = Math.trunc(high / 2);
      const bound = this.search(ol, oh, ml, mh, plies, middle, middle + 1);
      if (bound <= middle) high = bound;
      else low = bound;
    }
    return low;
  }

  // { column, score, outcome, best } of each move of an unfinished game, as the server's solver tells them.
  columnScores(played) {
    const { half, height, cells, bottom, board } = this;
    let [ol, oh, ml, mh] = [0, 0, 0, 0];
    const cell = (c) => {
      const mask = this.column << ((c < half ? c : c - half) * height);
      return c < half ? [(ml + bottom[0]) & board[0] & mask, 0] : [0, (mh + bottom[1]) & board[1] & mask];
    };
    for (const c of played) {
      const [low, high] = cell(c);
      [ol, oh, ml, mh] = [ol ^ ml, oh ^ mh, ml | low, mh | high];
    }
    const plies = played.length, found = [];
    for (let c = 0; c < this.columns; c++) {
      const [low, high] = cell(c);
      if (!low && !high) continue;
      this.winning(ol, oh, ml, mh);
      const wins = this.result[0] & low || this.result[1] & high;
      const score = wins ? (cells + 1 - plies) >> 1 : -this.score(ol ^ ml, oh ^ mh, ml | low, mh | high, plies + 1);
      found.push({ column: c, score, outcome: this.describe(plies, score) });
    }
    const most = Math.max(...found.map(({ score }) => score));
    return found.map((item) => ({ ...item, best: item.score === most }));
  }

  describe(plies, score) {
    if (!score) return "draw";
    const moves = score > 0 ? ((this.cells + 1 - plies) >> 1) - score + 1 : ((this.cells - plies) >> 1) + score + 1;
    return `${score > 0 ? "wins" : "loses"} in ${moves} move${moves === 1 ? "" : "s"}`;
  }
}

function bitCount(bits) {
  bits -= (bits >>> 1) & 0x55555555;
  bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
  return (((bits + (bits >>> 4)) & 0x0f0f0f0f) * 0x01010101) >>> 24;
}
