"""Compiled code: selections of users, and machine code cached on disk."""

import io
import itertools
import math
import os
import re
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from helpers import ConstantEvaluator, run_python
from numba.core import event

import alphac4
from alphac4 import compiled
from alphac4.arena.players import NetworkPlayer
from alphac4.cli import main
from alphac4.game import Position
from alphac4.game.rules import has_run
from alphac4.mcts.network_search import NetworkSearch, UniformEvaluator, step
from alphac4.mcts.puct import Puct
from alphac4.mcts.results import SearchResults
from alphac4.mcts.search import REUSES, Budget
from alphac4.mcts.simulation import NodeTotals
from alphac4.mcts.tree import Trees

RISING_PRIOR = ConstantEvaluator(np.arange(7) / 3)
UNCACHED = "so code is compiled at each start: make room, or set NUMBA_CACHE_DIR to another folder"
POSITIONS = [Position.from_moves(moves) for moves in ("", "44", "4455", "112233")]


class OwnSelection(NamedTuple):
    """Two selections in one, because compiling for a type takes about ten seconds."""

    prior_temperature: float
    c_init: float = 0.0  # constant of PUCT; 0 selects the move whose visits are furthest behind its prior

    @numba.njit  # allowed, but not necessary
    def score(self, trees: Trees, t: int, node: int, action: int, totals: NodeTotals) -> float:
        """The package's PUCT, written again, or the visits in proportion to the prior less the actual visits."""
        visits, prior = trees.visits[t, node, action], trees.priors[t, node, action]
        if self.c_init == 0.0:
            expected = np.full(1, prior * (totals.visits + 1))  # a method may create arrays
            return expected[0] - visits  # type: ignore[no-any-return]
        value = totals.value_sum / (1.0 + totals.visits) - (0.25 if node > 0 else 0.0) * math.sqrt(totals.visited_prior)
        if visits > 0:
            value = trees.value_sum[t, node, action] / visits
        if trees.proof[t, node, action] == 0:
            value = 0.0
        weight = self.c_init + math.log((1.0 + totals.visits + 19652.0) / 19652.0)
        return value + weight * math.sqrt(totals.visits + 1.0) * prior / (1.0 + visits)


@pytest.mark.slow
def test_a_users_selection_selects_the_moves() -> None:
    def search(selection: OwnSelection | Puct, positions: list[Position], simulations: int) -> SearchResults:
        return NetworkSearch(RISING_PRIOR, selection).search(positions, Budget(simulations=simulations))

    search(Puct(), POSITIONS[:1], 2)
    compiled_before, saved_before = len(step.signatures), saved_files()
    timed = [NetworkSearch(RISING_PRIOR, OwnSelection(prior_temperature=1.0), reuse=reuse) for reuse in REUSES]
    timed[0].compile()
    with event.install_recorder("numba:compile") as recorder:
        for each, moves in itertools.product(timed, ("", "4", "44")):
            each.search([Position.from_moves(moves)], Budget(seconds=0.01))
    assert recorder.buffer == []
    result = search(OwnSelection(prior_temperature=1.0), POSITIONS[:1], 300)
    np.testing.assert_allclose(result.visits[0], 300 * result.priors[0], atol=1.0)
    np.testing.assert_allclose(result.scores[0], 301 * result.priors[0] - result.visits[0], rtol=1e-4, atol=1e-4)

    result = search(OwnSelection(prior_temperature=1.4, c_init=2.0), POSITIONS, 200)
    expected = search(Puct(c_init=2.0), POSITIONS, 200)
    np.testing.assert_array_equal(result.visits, expected.visits)
    np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-6)

    # Its machine code is not cached on disk, where Numba would not notice an edit of the method.
    assert len(step.signatures) == compiled_before + 1  # one for all budgets
    assert saved_files() == saved_before
    with pytest.raises(TypeError, match="a selection is a NamedTuple"):
        NetworkSearch(RISING_PRIOR, POSITIONS[0])  # type: ignore[arg-type]


def selection_with_nan() -> NetworkPlayer:
    """Return a player; a game with it ends in an error."""
    search = NetworkSearch(UniformEvaluator(), OwnSelection(prior_temperature=1.0, c_init=math.nan), reuse="trees")
    return NetworkPlayer("mine", search, Budget(simulations=10))


@pytest.mark.slow
def test_a_selection_with_nan_scores_ends_search_and_play_with_one_error(
    error_line: Callable[..., str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    player = f"{__name__}:{selection_with_nan.__name__}"
    assert "OwnSelection.score returned" in error_line(f"search 44 --player {player}")
    monkeypatch.setattr(sys, "stdin", io.StringIO("4\n"))
    assert main(["play", "human", player]) == 2
    output = capsys.readouterr()
    assert output.out.endswith("The game so far: 4\n")
    assert re.fullmatch("alphac4 play: .*OwnSelection.score returned.*\n", output.err)


def saved_files() -> set[str]:
    """Return the names of the files with machine code of a search's step and scores."""
    folder = Path(step.stats.cache_path)  # type: ignore[attr-defined]
    return {path.name for name in ("step", "action_scores") for path in folder.glob(f"*.{name}-*")}


COUNT_LANDING_CELLS = """
import numpy as np
from alphac4.game.planes import make_planes
from alphac4.game.rules import STANDARD
from alphac4.compiled import announce_compilation
announce_compilation(lambda: print("compiles"))
nothing = np.zeros(1, np.uint64)
print(int(make_planes(STANDARD, nothing, nothing, 8)[0, 4].sum()))  # cells where a stone can land
"""


@pytest.mark.slow
def test_cached_machine_code_is_recompiled_after_a_change_in_a_called_function(tmp_path: Path) -> None:
    """Numba itself does not notice changes of functions in other files, nor of named tuples."""
    package = Path(alphac4.__file__).parent
    shutil.copytree(package, tmp_path / "alphac4")
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(tmp_path)}

    def run() -> list[str]:
        return run_python(COUNT_LANDING_CELLS, env=environment, cwd=tmp_path).stdout.split()

    assert run() == ["compiles", "7"]
    assert run() == ["7"]
    rules = tmp_path / "alphac4" / "game" / "rules.py"
    text = rules.read_text()
    other = "def legal_cells(board: Board, _occupied: np.uint64) -> np.uint64:\n    return U64_0\n\n\n@inlined\n"
    changed = text.replace("def legal_cells(", f"{other}def former(")
    assert changed != text
    rules.write_text(changed)
    assert run() == ["compiles", "0"]
    tuples = tmp_path / "alphac4" / "mcts" / "results.py"
    tuples.write_text(tuples.read_text() + "\n")
    assert run() == ["compiles", "0"]


def test_machine_code_is_cached_in_the_folder_of_its_source() -> None:
    folder = compiled.machine_code_folder()
    assert folder is not None
    for function in (step, has_run):
        assert Path(function.stats.cache_path).parent == folder  # type: ignore[attr-defined]
    assert os.environ.get("NUMBA_CACHE_DIR", "") == numba.config.CACHE_DIR


def test_machine_code_of_the_latest_sources_stays_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    files = []
    for source in range(compiled.MAX_CACHED_SOURCES + 2):
        monkeypatch.setattr(compiled, "_sources_digest", lambda name=source: str(name))
        folder = compiled.machine_code_folder.__wrapped__()
        assert compiled.machine_code_folder.__wrapped__() == folder
        os.utime(folder, (source, source))
        (folder / "mcts").mkdir()
        files.append(folder / "mcts" / "step.nbc")
        files[-1].touch()
    assert [file.exists() for file in files] == [False] * 2 + [True] * compiled.MAX_CACHED_SOURCES
    assert files[0].parent.is_dir()  # an older process may still write there


def test_without_a_writable_folder_functions_are_compiled_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(blocked))
    monkeypatch.setattr(compiled, "cache_problems", [])
    assert compiled.machine_code_folder.__wrapped__() is None
    assert caplog.messages == [f"no cache folder is writable, {UNCACHED}"]
    monkeypatch.setattr(compiled, "machine_code_folder", lambda: None)
    twice = compiled.compiled(lambda x: 2 * x)
    assert twice(3) == 6
    assert twice.stats.cache_path is None


def test_on_a_full_disk_functions_run_without_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit of a file's size ends the write as a full disk does."""
    monkeypatch.setattr(compiled, "machine_code_folder", lambda: tmp_path)
    monkeypatch.setattr(compiled, "cache_problems", [])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**10, limit[1]))
    try:
        twice = compiled.compiled(lambda x: 2 * x)
        assert (twice(3), twice(0.5)) == (6, 1.0)
        assert caplog.messages == [f"{tmp_path}: File too large, {UNCACHED}"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_damaged_or_exchanged_machine_code_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba would raise an error for some of these files, and run the others."""
    monkeypatch.setattr(compiled, "machine_code_folder", lambda: tmp_path)

    def half(x: float) -> float:
        return x / 2 if x > 0 else 0

    def misses() -> int:
        dispatcher = compiled.compiled(half)
        assert [dispatcher(x) for x in (3, 3.0, np.float32(3))] == [1.5] * 3
        return sum(dispatcher.stats.cache_misses.values())  # type: ignore[attr-defined]

    assert [misses(), misses()] == [3, 0]
    file, other, _ = tmp_path.rglob("*.nbc")
    good = file.read_bytes()
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    for content in (b"", good[:20], good[:-1], bytes(len(good)), flipped, other.read_bytes()):
        file.write_bytes(content)
        assert [misses(), misses()] == [1, 0]
    file.unlink()
    assert [misses(), misses()] == [1, 0]


INTERRUPTED = """
import os, signal, threading
import numpy as np
from alphac4.game.walk import play_replies
from alphac4.game.rules import STANDARD

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
boards = np.zeros(10**6, np.uint64)
play_replies(STANDARD, boards[:1], boards[:1], STANDARD.playable)
for _ in range(5):
    try:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            play_replies(STANDARD, boards, boards, STANDARD.playable)
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_ctrl_c_during_a_function_that_creates_arrays_raises_keyboard_interrupt() -> None:
    """Numba ends the process, or raises SystemError, if the exception comes while it returns arrays."""
    assert run_python(INTERRUPTED).stdout.split() == ["interrupted"] * 5
