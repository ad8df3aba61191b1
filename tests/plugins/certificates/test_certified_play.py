"""Play with the shipped certificates: in the terminal and on the page."""

import re
from collections.abc import Callable

import numpy as np
import pytest
from page_browser import Browser, expect

from alphac4.compute import choose_compute
from alphac4.game import Position
from alphac4.game.rules import STANDARD
from alphac4.play.levels import find_level
from alphac4.play.opponents import level_player
from alphac4.play.proofs import load_proofs
from alphac4.solver.solver import exact


def test_master_keeps_wins_as_first_player() -> None:
    """This includes positions in which the network would only draw."""
    master = level_player(
        find_level("master"), "quick", STANDARD, np.random.default_rng(0), choose_compute("cpu", "torch-fp32")
    )
    for moves in ("", "45", "43", "4441"):
        position = Position.from_moves(moves)
        position = position.play(master.choose([position])[0])
        assert all(item.score < 0 for item in exact(position)), moves


def test_the_terminal_shows_a_proven_win(run_command: Callable[..., str]) -> None:
    text = run_command("play --moves 4524 human human", given="hint\n4\nhint\n2\n1\nhint\nquit\n")
    assert re.findall(r"proven: (.) wins within (\d+) moves(.*)", text) == [("x", "19", " with 4"), ("x", "18", "")]


def test_loading_stops_with_the_server() -> None:
    def stop() -> None:
        raise InterruptedError

    proofs = load_proofs(STANDARD, stop)
    assert proofs is not None
    with pytest.raises(InterruptedError):
        proofs.proven_result(Position.from_moves("44"))


@pytest.mark.slow
def test_the_page_shows_proven_wins(browser: Browser, address: str) -> None:
    page = browser.new_page()
    page.route("**/api/exact", lambda _route: None)  # never answers
    page.goto(address + "#44")
    page.check("#analyse")
    expect(page, "#verdict", r"Red wins within \d+ moves \(proven\)")
