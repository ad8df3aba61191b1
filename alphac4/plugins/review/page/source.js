// Yield { done, total } while the server reviews a game, then the review.
export const requestReview = (engine, moves, signal) => engine.lines("review", { moves }, signal);
