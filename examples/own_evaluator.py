"""Your own evaluator: any function of planes instead of the network."""

import sys

import numpy as np
import numpy.typing as npt

import alphac4

Array = npt.NDArray[np.float32]


def lines(planes: Array) -> tuple[Array, Array]:
    """Compare the stones that each side has in lines of four without a stone of the other side.

    Args:
        planes: [B, 2, R, C]: the stones of the side to move, then its opponent's, bottom row first.

    Returns:
        Policy logits [B, C] and values [B] in [-1, 1] for the side to move. An evaluator may return probabilities of
        win, draw and loss [B, 3] instead of values.
    """
    own, other = planes[:, 0], planes[:, 1]
    value = np.tanh((open_lines(own, other) - open_lines(other, own)) / 10)
    columns = planes.shape[3]
    logits = -0.5 * np.abs(np.arange(columns) - columns // 2)
    return np.broadcast_to(logits, (len(planes), columns)).astype(np.float32), value.astype(np.float32)


def open_lines(own: Array, other: Array) -> Array:
    """Return the number of stones [B] in lines without a stone of the other side; a stone counts once per line."""
    count = np.zeros(len(own), np.float32)
    rows, columns = own.shape[1:]
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for row in range(rows - 3 * down):
            for column in range(3 if right < 0 else 0, columns - 3 * max(right, 0)):
                cells = [(slice(None), row + step * down, column + step * right) for step in range(4)]
                blocked = np.any([other[cell] for cell in cells], axis=0)
                count += np.where(blocked, 0, np.sum([own[cell] for cell in cells], axis=0))
    return count


if __name__ == "__main__":
    fast = "--fast" in sys.argv
    agent = alphac4.load(lines)
    print(agent.search("444", simulations=20 if fast else 1000))
    print("lines, 100 simulations, against random:", alphac4.play_match(agent, "random", games=2 if fast else 20))
