from pathlib import Path

import numpy as np
import pytest
from campaigns.tiny_run import tiny_run
from test_run_folder import flip, interrupt

from alphac4.game.rules import STANDARD
from alphac4.selfplay.blocks import Block
from alphac4.selfplay.game_arrays import NEW_GAME, SEARCHING, Games, make_games
from alphac4.selfplay.under_way import GamesUnderWay, count_games, fill_up, join_actors, share_out, split_actors
from alphac4.training.loop import TrainingLoop


def some_games(first: int, count: int, begun: int) -> GamesUnderWay:
    """Games that a number tells apart; the first ``begun`` of them have begun."""
    games = make_games(count, STANDARD)
    games.opening[:] = np.arange(first, first + count)
    games.stage[:begun] = SEARCHING
    arrays = {f"games.{name}": getattr(games, name) for name in Games._fields}
    return arrays | {"trees.own": np.arange(first, first + count, dtype=np.uint64)}


@pytest.mark.parametrize(("slots", "sizes"), [(4, [4, 4, 1]), (16, [9]), (3, [3, 3, 3])])
def test_games_are_shared_out_to_other_numbers_of_actors(slots: int, sizes: list[int]) -> None:
    """Each that has begun goes on once; those about to start are left out."""
    games = split_actors(join_actors({0: some_games(0, 6, 5), 11: some_games(6, 6, 4)}))
    groups = share_out(games, slots)
    assert [count_games(group) for group in groups] == sizes
    assert [n for group in groups for n in group["games.opening"]] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert [n for group in groups for n in group["trees.own"]] == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_an_actor_with_more_room_begins_new_games_besides() -> None:
    """The games that it takes over come first; those of other settings are refused."""
    few, fresh = some_games(0, 2, 2), some_games(50, 5, 0)
    filled = fill_up(few, fresh)
    assert filled["games.opening"].tolist() == [0, 1, 52, 53, 54]
    assert (filled["games.stage"] == NEW_GAME).tolist() == [False, False, True, True, True]
    with pytest.raises(ValueError, match="do not fit"):
        fill_up({name: array for name, array in few.items() if name != "games.value"}, fresh)


def played(blocks: list[Block]) -> list[tuple[bytes, bytes]]:
    """Moves and values of finished games: no two games of self-play have the same."""
    return [
        (block.games.moves[row, : block.games.plies[row]].tobytes(), block.games.value[row].tobytes())
        for block in blocks
        for row in range(len(block.games.plies))
    ]


@pytest.mark.slow
def test_games_go_on_when_the_number_of_cores_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Interrupted on two, three, one and two cores: no game that was under way is dropped, and none is there twice."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", 0.0)
    monkeypatch.setattr("alphac4.training.monitor.Monitor._figures", lambda _monitor, _report: {})  # slow to draw
    settings = {"iterations": 3, "samples": 200}
    blocks: list[Block] = []
    for cores, some in ((2, 6), (3, 4), (1, 2)):
        monkeypatch.setattr("alphac4.compute.cores.cores", lambda cores=cores: cores)
        blocks += interrupt(TrainingLoop.open(tmp_path, tiny_run(**settings)), some)
    monkeypatch.setattr("alphac4.compute.cores.cores", lambda: 2)
    loop = TrainingLoop.open(tmp_path, tiny_run(**settings))
    state = split_actors(loop.actors.state())
    begun = [
        games["games.moves"][row, : games["games.plies"][row]].tobytes()
        for games in state.values()
        for row in np.flatnonzero(games["games.stage"] != NEW_GAME)
    ]
    assert len(begun) >= 3
    record = loop.folder.record
    later: list[Block] = []

    def recorded(block: Block, *name: int) -> None:
        record(block, *name)
        later.append(block)

    loop.folder.record = recorded  # type: ignore[method-assign]
    with loop:
        loop.run()
    for moves in begun:
        assert any(game.startswith(moves) for game, _ in played(later))
    games = played(blocks + later)
    assert len(set(games)) == len(games)
    assert loop.state.samples == sum(len(block.samples) for block in blocks + later)
    assert not [record for record in caplog.records if "new ones begin" in record.getMessage()]


@pytest.mark.slow
def test_more_cores_share_what_is_left_of_an_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has recorded most of it: four do not record a quarter of all each, also if they are interrupted again."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", 0.0)
    settings = {"iterations": 1, "samples": 2000}
    monkeypatch.setattr("alphac4.compute.cores.cores", lambda: 1)
    loop = TrainingLoop.open(tmp_path, tiny_run(**settings))
    record, recorded = loop.folder.record, 0

    def until_most(block: Block, *name: int) -> None:
        nonlocal recorded
        record(block, *name)
        recorded += len(block.samples)
        if recorded > 1500:
            raise KeyboardInterrupt

    loop.folder.record = until_most  # type: ignore[method-assign]
    with loop, pytest.raises(KeyboardInterrupt):
        loop.run()
    monkeypatch.setattr("alphac4.compute.cores.cores", lambda: 4)
    interrupt(TrainingLoop.open(tmp_path, tiny_run(**settings)), 3)
    with TrainingLoop.open(tmp_path, tiny_run(**settings)) as loop:
        loop.run()
        assert 2000 <= loop.state.samples < 2400


@pytest.mark.slow
def test_a_damaged_record_of_shared_games_begins_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that it held may have come to their end since: to play any of them again could double it."""
    monkeypatch.setattr("alphac4.selfplay.actor.SECONDS_BETWEEN_BLOCKS", 0.0)
    for cores, some in ((2, 4), (1, 1)):
        monkeypatch.setattr("alphac4.compute.cores.cores", lambda cores=cores: cores)
        interrupt(TrainingLoop.open(tmp_path, tiny_run(samples=300)), some)
    (shared,) = tmp_path.glob("under_way/*-shared-out.safetensors")
    flip(shared)
    with TrainingLoop.open(tmp_path, tiny_run(samples=300)) as loop:
        assert not (split_actors(loop.actors.state())[0]["games.stage"] != NEW_GAME).any()
    assert "new ones begin" in caplog.text
