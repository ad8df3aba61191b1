import json
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from alphac4.game import Position
from alphac4.machine import cores
from alphac4.play.levels import LEVELS
from alphac4.play.web import app, search_service
from alphac4.play.web.access import AccessRules
from alphac4.play.web.app import WebApplication
from alphac4.play.web.search_service import SearchService
from alphac4.play.web.work_queue import Stop, Stopped
from alphac4.puzzles import packaged_puzzles
from alphac4.review import review_game
from alphac4.solver import shared_solver

SESSION = "a-session-of-tests"
HARD = "22661"  # takes the solver a quarter of a minute
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def application() -> Iterator[WebApplication]:
    """The page over the small network."""
    application = WebApplication(SearchService("fast"), AccessRules(names=frozenset({"testserver"})))
    yield application
    application.close()


@pytest.fixture(scope="module")
def client(application: WebApplication) -> Iterator[TestClient]:
    """A browser without a screen."""
    with TestClient(application.starlette) as client:
        yield client


def analyses(client: TestClient, moves: str, simulations: int = 50) -> list[dict]:
    """The lines of a live analysis."""
    body = {"moves": moves, "simulations": simulations, "session": SESSION}
    response = client.post("/api/analyze", json=body)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_the_page_and_its_parts_are_served_locally(client: TestClient) -> None:
    """Nothing comes from elsewhere, and the headers forbid it."""
    page = client.get("/")
    assert "alphac4" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for name in sorted(path.name for path in app.STATIC.iterdir()):
        part = client.get(f"/static/{name}")
        assert part.status_code == 200
        assert "https://" not in part.text
    assert client.get("/static/../app.py").status_code == 404
    assert client.get("/nowhere").status_code == 404


def test_setup_tells_the_board_and_the_levels(client: TestClient) -> None:
    """As the page builds itself from it."""
    setup = client.get("/api/setup").json()
    assert (setup["rows"], setup["columns"], setup["run_length"]) == (6, 7, 4)
    assert [level["name"] for level in setup["levels"]] == [level.name for level in LEVELS]
    assert setup["link"] == ""  # only this machine reaches it


def test_the_puzzles_are_those_of_the_package(client: TestClient) -> None:
    """Position, 0-based column, moves until the win, difficulty."""
    told = client.get("/api/puzzles").json()
    assert [tuple(puzzle) for puzzle in told] == [
        (puzzle.moves, puzzle.solution, puzzle.distance, puzzle.difficulty) for puzzle in packaged_puzzles()
    ]


def test_a_review_is_told_line_by_line(client: TestClient) -> None:
    """How many positions are solved, and at last what `review_game` finds."""
    moves = "4444452226671"
    answer = client.post("/api/review", json={"moves": moves})
    *progress, review = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["done"] for line in progress] == list(range(14))
    assert {line["total"] for line in progress} == {13}
    expected = review_game(moves).to_dict()
    for move in [*review["reviewed"], *expected["reviewed"]]:
        del move["opinion"]
    assert review["reviewed"] == expected["reviewed"]
    assert client.post("/api/review", json={"moves": "49"}).status_code == 400


def test_levels_move_and_win(client: TestClient) -> None:
    """Three on the bottom row: whoever looks ahead plays 4."""
    for level in ("strong", "expert", "perfect"):
        answer = client.post("/api/move", json={"moves": "112233", "level": level}).json()
        assert answer["column"] == 3


def test_a_whole_game_is_played(client: TestClient) -> None:
    """Two levels against each other through the server, by the rules."""
    position = Position()
    while position.outcome() is None:
        level = ("beginner", "club")[position.plies % 2]
        answer = client.post("/api/move", json={"moves": position.moves, "level": level}).json()
        position = position.play(answer["column"])  # raises if the rules forbid it
    assert position.plies >= 7


def test_an_analysis_ends_finished_with_what_was_asked(client: TestClient) -> None:
    """The last line has all simulations; a forced win is found."""
    last = analyses(client, "44", 60)[-1]
    assert last["finished"]
    assert last["simulations"] == 60
    assert analyses(client, "112233")[-1]["best"] == 3


def test_the_tree_can_be_walked_after_an_analysis(client: TestClient) -> None:
    """The child's visits are one less than its edge's; beyond the tree is an error, as is another position."""
    analyses(client, "44", 200)
    root = client.post("/api/node", json={"moves": "44", "path": [], "session": SESSION}).json()
    best = max(root["columns"], key=lambda item: item["visits"])
    child = client.post("/api/node", json={"moves": "44", "path": [best["column"]], "session": SESSION}).json()
    assert sum(item["visits"] for item in child["columns"]) == best["visits"] - 1
    for body in ({"moves": "44", "path": [0] * 30}, {"moves": "4", "path": []}, {"moves": "44", "path": "x"}):
        assert client.post("/api/node", json=body | {"session": SESSION}).status_code == 400


def test_the_solver_answers(client: TestClient) -> None:
    """The one winning move is best."""
    columns = client.post("/api/exact", json={"moves": "112233"}).json()["columns"]
    assert [item["column"] for item in columns if item["best"]] == [3]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("move", b"not json", 400),
        ("move", b"[1]", 400),
        ("move", b'{"moves": 4, "level": "club"}', 400),
        ("move", b'{"moves": "49", "level": "club"}', 400),
        ("move", b'{"moves": "1122334", "level": "club"}', 400),
        ("move", b'{"moves": "4", "level": "god"}', 400),
        ("move", b'{"moves": "' + b"1" * 5000 + b'"}', 413),
        ("move", b"[" * 4000, 400),
        ("analyze", b'{"moves": "4", "simulations": 0, "session": "abcdefgh"}', 400),
        ("analyze", b'{"moves": "4", "simulations": true, "session": "abcdefgh"}', 400),
        ("analyze", b'{"moves": "4", "simulations": 1e9, "session": "abcdefgh"}', 400),
        ("analyze", b'{"moves": "4", "session": "../../etc"}', 400),
        ("exact", b"{}", 400),
    ],
)
def test_bad_requests_are_one_line_of_json(client: TestClient, path: str, body: bytes, status: int) -> None:
    """Never status 500."""
    response = client.post(f"/api/{path}", content=body, headers=JSON)
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one longest unused goes first: its tree is forgotten, the others' are not."""
    monkeypatch.setattr(search_service, "MOST_SESSIONS", 2)
    service = SearchService("fast")

    def grow(session: str) -> None:
        service.analyze(session, Position(), 5, Stop(), lambda _analysis: None)

    for session in ("session-1", "session-2"):
        grow(session)
    service.node("session-1", Position(), [])
    grow("session-3")
    assert service.node("session-1", Position(), []).visits.sum() > 0
    with pytest.raises(ValueError, match="analyse this position first"):
        service.node("session-2", Position(), [])


def test_a_certificate_is_read_no_further_once_the_server_ends() -> None:
    """Which takes seconds, and whoever exits waits for it."""
    service = SearchService("fast")
    service.close()
    with pytest.raises(Stopped):
        service.plies_to_win(Position.from_moves("44"))


def test_too_many_searches_are_reported(application: WebApplication, client: TestClient) -> None:
    """Status 503 before an answer has begun, for the solver and for searches alike."""
    queues = (application._searches, application._exact_searches)
    places = [queue.places for queue in queues]
    try:
        for queue in queues:
            queue.places = 0
        assert client.post("/api/move", json={"moves": "", "level": "club"}).status_code == 503
        assert client.post("/api/move", json={"moves": "", "level": "perfect"}).status_code == 503
        assert client.post("/api/exact", json={"moves": "44"}).status_code == 503
        assert client.post("/api/analyze", json={"moves": "", "session": SESSION}).status_code == 503
    finally:
        for queue, number in zip(queues, places, strict=True):
            queue.places = number


def test_the_solver_has_a_time_limit_and_gives_its_place_back(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position that takes minutes is given up with status 504; the next question is answered."""
    monkeypatch.setattr(app, "EXACT_SECONDS", 0.2)
    shared_solver().forget()
    answer = client.post("/api/exact", json={"moves": HARD})
    assert answer.status_code == 504
    assert "0.2 seconds" in answer.json()["error"]
    assert not application._exact_searches._stops
    assert client.post("/api/exact", json={"moves": "112233"}).status_code == 200


@pytest.mark.slow
def test_nobodys_search_waits_for_the_solver(application: WebApplication, client: TestClient) -> None:
    """More positions than there are cores wait for the solver, each for its whole time; a level moves at once."""
    shared_solver().forget()
    count = cores() + 2
    early = [threading.Thread(target=lambda: client.post("/api/exact", json={"moves": HARD})) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "EXACT_SECONDS", 1.5)
        for thread in early:
            thread.start()
        while len(application._exact_searches._stops) < count:
            assert all(thread.is_alive() for thread in early)
        assert client.post("/api/move", json={"moves": "112233", "level": "club"}).json()["column"] in range(7)
        assert sum(thread.is_alive() for thread in early) >= count - 1
        for thread in early:
            thread.join(60)


def test_a_second_analysis_of_a_session_ends_the_first(client: TestClient) -> None:
    """A session has one tree, so the first comes to its last line early, and says that it is not finished."""
    lines: list[dict] = []
    first = threading.Thread(target=lambda: lines.extend(analyses(client, "4", 20_000)))
    first.start()
    while not client.post("/api/node", json={"moves": "4", "path": [], "session": SESSION}).text.count("wait until"):
        assert first.is_alive()
    assert analyses(client, "44", 10)[-1]["finished"]
    first.join(60)
    assert not lines[-1]["finished"]
    assert lines[-1]["simulations"] < 20_000


def test_visitors_do_not_wait_for_one_another(client: TestClient) -> None:
    """A quick move is answered while a long analysis of somebody else runs."""
    body = {"moves": "", "simulations": 20_000, "session": "somebody-else"}
    thread = threading.Thread(target=lambda: client.post("/api/analyze", json=body))
    thread.start()
    assert client.post("/api/move", json={"moves": "112233", "level": "strong"}).json()["column"] == 3
    assert thread.is_alive()
    thread.join(60)
