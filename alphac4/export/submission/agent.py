"""The function that Kaggle calls, and the network's weights."""

import base64
import functools
import io
import random
import time
from typing import Any

import numpy as np

from alphac4.export.submission.board import Board
from alphac4.export.submission.network import Network
from alphac4.export.submission.player import SubmissionPlayer
from alphac4.export.submission.rollouts import Rollouts

SHARE_OF_TIME = 0.85  # of the act timeout; a slow moment beyond it comes off the game's bank of extra time


@functools.cache
def player_for(rows: int, columns: int, run_length: int) -> SubmissionPlayer:
    """The player for a board: by the network if it is for that board, else by random rollouts."""
    board = Board(rows, columns, run_length)
    if WEIGHTS:
        with np.load(io.BytesIO(base64.b64decode(WEIGHTS))) as file:
            weights = {name: file[name].astype(np.float32) for name in file.files}
        if weights.pop("board").tolist() == [rows, columns, run_length]:
            return SubmissionPlayer(board, Network(board, weights))
    return SubmissionPlayer(board, Rollouts(board, random.Random()))


# The network as base64 of a compressed .npz file; empty for none.
WEIGHTS = ""


def agent(obs: Any, config: Any) -> int:
    """The column to play, as Kaggle asks for it: it takes the last function of a file."""
    deadline = time.perf_counter() + SHARE_OF_TIME * getattr(config, "actTimeout", 2.0)
    player = player_for(config.rows, config.columns, config.inarow)
    return player.choose(*player.board.read(obs.board, obs.mark), deadline)
