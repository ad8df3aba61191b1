import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from alphac4.cli import main
from alphac4.game import Position
from alphac4.play.levels import LEVELS
from alphac4.play.web import app
from alphac4.play.web.app import Table, WebApplication

SESSION = "a-session-of-tests"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """A browser without a screen."""
    application = WebApplication(Table("fast"), ["testserver"])
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
    for name in ("app.js", "board.js", "engine.js", "rules.js", "style.css", "icon.svg"):
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
        position = position.play(answer["column"])


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
    ("path", "body"),
    [
        ("move", b"not json"),
        ("move", b"[1]"),
        ("move", b'{"moves": 4, "level": "club"}'),
        ("move", b'{"moves": "49", "level": "club"}'),
        ("move", b'{"moves": "1122334", "level": "club"}'),
        ("move", b'{"moves": "4", "level": "god"}'),
        ("move", b'{"moves": "' + b"1" * 5000 + b'"}'),
        ("move", b"[" * 4000),
        ("analyze", b'{"moves": "4", "simulations": 0, "session": "abcdefgh"}'),
        ("analyze", b'{"moves": "4", "simulations": 1e9, "session": "abcdefgh"}'),
        ("analyze", b'{"moves": "4", "session": "../../etc"}'),
        ("exact", b"{}"),
    ],
)
def test_bad_requests_are_one_line_of_json(client: TestClient, path: str, body: bytes) -> None:
    """Status 400, never 500."""
    response = client.post(f"/api/{path}", content=body)
    assert response.status_code == 400
    assert "\n" not in response.json()["error"]


def test_foreign_hosts_are_refused(client: TestClient) -> None:
    """A page elsewhere cannot reach the server under a name of its own."""
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one longest unused goes first."""
    monkeypatch.setattr(app, "MOST_SESSIONS", 2)
    table = Table("fast")
    first = table.analyst("session-1")
    table.analyst("session-2")
    assert table.analyst("session-1") is first
    table.analyst("session-3")
    assert table.analyst("session-1") is first
    assert len(table._analysts) == 2


def test_too_many_searches_are_told(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 503."""
    monkeypatch.setattr(app, "MOST_WAITING", 0)
    assert client.post("/api/move", json={"moves": "", "level": "club"}).status_code == 503
    assert client.post("/api/analyze", json={"moves": "", "session": SESSION}).status_code == 503


def test_visitors_do_not_wait_for_one_another(client: TestClient) -> None:
    """A quick move is answered while a long analysis of somebody else runs."""
    body = {"moves": "", "simulations": 20_000, "session": "somebody-else"}
    thread = threading.Thread(target=lambda: client.post("/api/analyze", json=body))
    thread.start()
    assert client.post("/api/move", json={"moves": "112233", "level": "strong"}).json()["column"] == 3
    assert thread.is_alive()
    thread.join(60)


def test_the_command_serves_and_a_taken_port_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A real server on a free port; a second one there ends with one line and exit code 2; Ctrl-C ends it."""
    import signal
    import urllib.request

    command = [sys.executable, "-m", "alphac4.cli", "play", "--web", "--network", "fast", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        port = address.rstrip("/").rpartition(":")[2]
        with urllib.request.urlopen(address + "api/setup", timeout=30) as response:
            assert json.load(response)["columns"] == 7
        assert main(["play", "--web", "--network", "fast", "--port", port]) == 2
        error = capsys.readouterr().err
        assert port in error
        assert len(error.strip().splitlines()) == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(20) in (0, 130)
    finally:
        server.kill()
