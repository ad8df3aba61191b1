import contextlib
from pathlib import Path

import numpy as np
import pytest

from alphac4.game.position import Position
from alphac4.game.rules import STANDARD, make_geometry
from alphac4.solver import KnownScores, Solver, book_builder, no_known_scores
from alphac4.solver import book as books
from alphac4.solver.book import BookError, load_book, packaged_book, save_book
from alphac4.solver.book_builder import build_book, unfinished_positions

SMALL = make_geometry(4, 4, 4)


@pytest.fixture
def book() -> KnownScores:
    """Three made-up scores."""
    return KnownScores(np.array([3, 5, 2**63], np.uint64), np.array([-1, 0, 7], np.int8), 2)


def same(one: KnownScores, other: KnownScores) -> bool:
    """Whether two books hold the same."""
    return (
        one.plies == other.plies and np.array_equal(one.keys, other.keys) and np.array_equal(one.scores, other.scores)
    )


def test_positions_up_to_mirroring_are_counted_right() -> None:
    """With their mirror images there are 1, 7, 49, 238, 1120, 4263 positions (OEIS A212693)."""
    counts = []
    for level in unfinished_positions(STANDARD, 5):
        images = {image.own.item() + image.occupied.item() for pair in level.values() for image in both_images(*pair)}
        counts.append(len(images))
    assert counts == [1, 7, 49, 238, 1120, 4263]


def both_images(own: np.uint64, occupied: np.uint64) -> tuple[Position, Position]:
    """A position and its mirror image."""
    position = Position(own, occupied)
    return position, position.mirror()


def test_a_saved_book_is_read_back(tmp_path: Path, book: KnownScores) -> None:
    """Keys, scores and depth survive the file."""
    save_book(tmp_path / "a.book", STANDARD, book)
    assert same(load_book(tmp_path / "a.book", STANDARD), book)


@pytest.mark.parametrize("length", [0, 10, -1, -20])
def test_a_book_cut_short_is_refused(tmp_path: Path, book: KnownScores, length: int) -> None:
    """A file that ends early raises `BookError`."""
    path = tmp_path / "a.book"
    save_book(path, STANDARD, book)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BookError):
        load_book(path, STANDARD)


def test_every_flipped_bit_of_a_book_is_noticed(tmp_path: Path, book: KnownScores) -> None:
    """A book is either read as it was written or refused."""
    path = tmp_path / "a.book"
    save_book(path, STANDARD, book)
    content = path.read_bytes()
    for index in range(len(content)):
        path.write_bytes(content[:index] + bytes([content[index] ^ 4]) + content[index + 1 :])
        with contextlib.suppress(BookError):
            assert same(load_book(path, STANDARD), book), f"byte {index}"


def test_a_book_of_another_board_is_refused(tmp_path: Path, book: KnownScores) -> None:
    """The error names what differs."""
    save_book(tmp_path / "a.book", SMALL, book)
    with pytest.raises(BookError, match="rows is 4, expected 6"):
        load_book(tmp_path / "a.book", STANDARD)


def test_a_damaged_packaged_book_is_ignored_with_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver searches instead; it warns once."""
    (tmp_path / books.book_name(SMALL)).write_bytes(b"rubbish")
    monkeypatch.setattr(books.resources, "files", lambda _: tmp_path)
    solver = Solver(SMALL)
    with pytest.warns(UserWarning, match="opening book 4x4x4.book is ignored") as warned:
        scores = [solver.solve(Position.from_moves(moves, SMALL)) for moves in ("12", "21")]
    assert len(warned) == 1
    assert scores[0] == Solver(SMALL, book=no_known_scores()).solve(Position.from_moves("12", SMALL))


def test_a_geometry_without_a_book_has_an_empty_one() -> None:
    """No file, no warning."""
    assert len(packaged_book(make_geometry(5, 4, 3)).keys) == 0


def test_a_book_holds_what_search_finds(tmp_path: Path) -> None:
    """Every unfinished position up to the depth is in the book with its searched score."""
    path = tmp_path / "small.book"
    book = build_book(SMALL, 4, path, table_bits=14, quiet=True)
    assert same(load_book(path, SMALL), book)
    searcher = Solver(SMALL, book=no_known_scores())
    levels = list(unfinished_positions(SMALL, 4))
    assert len(book.keys) == sum(map(len, levels))
    for level in levels:
        for key, (own, occupied) in level.items():
            score = book.scores[np.searchsorted(book.keys, np.uint64(key))]
            assert score == searcher.solve(Position(own, occupied, SMALL, None))
    assert not list(tmp_path.glob("*.partial"))


def test_positions_of_the_book_are_not_searched() -> None:
    """A solver answers from the book, mirrored or not, without a node."""
    images = Position.from_moves("12"), Position.from_moves("76")
    key = min(image.own + image.occupied for image in images)
    solver = Solver(book=KnownScores(np.array([key]), np.array([13], np.int8), 2))
    assert solver.solve(Position.from_moves("12")) == 13
    assert solver.solve(Position.from_moves("76")) == 13
    assert solver.nodes == 0


def test_an_interrupted_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interruption only the rest is searched, and the book is the same."""
    whole = build_book(SMALL, 4, tmp_path / "whole.book", table_bits=14, quiet=True)
    monkeypatch.setattr(book_builder, "SAVE_EVERY_SECONDS", 0.0)
    searched = interrupt_after(monkeypatch, 30)
    with pytest.raises(KeyboardInterrupt):
        build_book(SMALL, 4, tmp_path / "parts.book", table_bits=14, quiet=True)
    searched.clear()
    monkeypatch.setattr(book_builder, "SAVE_EVERY_SECONDS", 60.0)
    searched = interrupt_after(monkeypatch, 10**9)
    assert same(build_book(SMALL, 4, tmp_path / "parts.book", table_bits=14, quiet=True), whole)
    assert len(searched) == len(list(unfinished_positions(SMALL, 4))[-1]) - 30
    assert sorted(file.name for file in tmp_path.iterdir()) == ["parts.book", "whole.book"]


def interrupt_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> list[int]:
    """Make the builder's search raise after some calls; returns the list that counts them."""
    searched: list[int] = []

    class Interrupted(Solver):
        def solve_batch(self, own: np.ndarray, occupied: np.ndarray) -> np.ndarray:
            if len(searched) == calls:
                raise KeyboardInterrupt
            searched.append(1)
            return super().solve_batch(own, occupied)

    monkeypatch.setattr(book_builder, "Solver", Interrupted)
    return searched
