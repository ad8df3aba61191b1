// Reviews that this browser keeps after the page is closed, the latest first.

const MAX_REVIEWS = 20; // of about 25 kB; browsers store 5 MB

// Whether this is a review; another version of the page may have stored something else.
const isReview = (value) => typeof value?.moves === "string" && Array.isArray(value.reviewed) && Array.isArray(value.values);

export class KeptReviews {
  constructor({ rows, columns, run_length: runLength, diagonals }) {
    this.key = ["alphac4 reviews", rows, columns, runLength, diagonals].join(" "); // moves have another meaning on another board
    this.all = this.read() ?? [];
  }

  // The stored reviews, including those of other tabs; null if storage is disabled or invalid.
  read() {
    try {
      return JSON.parse(localStorage.getItem(this.key)).filter(isReview);
    } catch {
      return null;
    }
  }

  find(moves) { return this.all.find((review) => review.moves === moves) ?? null; }

  keep(review) {
    this.all = [review, ...(this.read() ?? this.all).filter(({ moves }) => moves !== review.moves)].slice(0, MAX_REVIEWS);
    try {
      localStorage.setItem(this.key, JSON.stringify(this.all));
    } catch {
      // Storage is disabled: the reviews are kept until the page is closed.
    }
  }
}
