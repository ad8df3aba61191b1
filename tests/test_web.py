"""The page's server without sockets: what its routes answer, and to whom."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from alphac4.arena.certificate_player import CertifiedResult
from alphac4.game import Position
from alphac4.machine import cores
from alphac4.play.web import pages, searches
from alphac4.play.web.app import WebApplication
from alphac4.play.web.searches import SearchService, Stop, Stopped
from alphac4.play.web.server import AccessControl, is_loopback
from alphac4.review import review_game
from alphac4.solver import shared_solver
from alphac4.solver.solver import TimeIsUp

PATIENCE = 120  # seconds
HARD = "22661"  # takes the solver a quarter of a minute
MOVE = {"moves": "112233", "level": "strong"}  # three on the bottom row: whoever looks ahead plays 4


@pytest.fixture(scope="module")
def service() -> SearchService:
    return SearchService("fast")


@pytest.fixture(scope="module")
def application(service: SearchService) -> Iterator[WebApplication]:
    application = WebApplication(service)
    yield application
    application.close()


@pytest.fixture(scope="module")
def client(application: WebApplication) -> Iterator[TestClient]:
    """The page's visitor, on the same machine."""
    guarded = AccessControl(application.starlette, "127.0.0.1", 8000)
    with TestClient(guarded, base_url="http://localhost:8000") as client:
        yield client


@pytest.fixture
def stranger(service: SearchService) -> Iterator[TestClient]:
    """A visitor from the network, where the link has a token."""
    application = WebApplication(service)
    guarded = AccessControl(application.starlette, "0.0.0.0", 8000, token="a-secret-word")
    with TestClient(guarded, base_url="http://192.168.0.9:8000", follow_redirects=False) as client:
        yield client
    application.close()


def ask(client: TestClient, name: str, **body: Any) -> Any:
    """The answer of the API, as visitor of one session unless ``body`` names another."""
    response = client.post(f"/api/{name}", json={"session": "a-session-of-tests"} | body)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    return lines if name in ("analyze", "review") else lines[0]


def test_the_page_and_what_it_is_made_from_are_served(client: TestClient) -> None:
    """Nothing comes from elsewhere, and the headers forbid it."""
    page = client.get("/")
    assert "alphac4" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for path in pages.STATIC.iterdir():
        part = client.get(f"/static/{path.name}")
        assert part.status_code == 200
        assert "https://" not in part.text
    assert client.get("/static/..%2Fapp.py").status_code == client.get("/nowhere").status_code == 404


def test_whoever_looks_ahead_finds_the_winning_move(client: TestClient) -> None:
    """Levels, solver, analysis."""
    for level in ("strong", "expert", "perfect"):
        assert ask(client, "move", moves="444445267614", level=level)["column"] == 2
    assert [item["column"] for item in ask(client, "exact", moves="444445267614")["columns"] if item["best"]] == [2]
    assert ask(client, "analyze", moves="444445267614", simulations=50)[-1]["move"] == 2


@pytest.mark.slow
def test_a_hint_gives_no_win_away(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """After 4 3 3 3 5 4 3 column 6 alone wins, which outcomes show where scores take too long."""
    monkeypatch.setattr(searches, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", PATIENCE)
    shared_solver.cache_clear()
    assert ask(client, "hint", moves="4333543") == {"column": 5, "outcome": "wins", "source": "exact"}


def test_a_hint_names_its_source(service: SearchService, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact scores, a certificate, or the network."""
    monkeypatch.setattr(searches, "HINT_SECONDS", PATIENCE)
    assert ask(client, "hint", moves="444445267614") == {"column": 2, "outcome": "wins in 1 move", "source": "exact"}
    assert ask(client, "hint", moves="43")["column"] in (5, 6)  # in the book
    monkeypatch.setattr(searches, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", 0.0)
    shared_solver.cache_clear()
    known = CertifiedResult(first=True, plies=39, column=3)
    monkeypatch.setattr(service, "proven_result", Mock(side_effect=[known, None]))
    expected = {"column": 3, "outcome": "wins in at most 20 moves", "source": "certificate"}
    assert ask(client, "hint", moves="2266") == expected
    hint = ask(client, "hint", moves="22661")
    assert hint["outcome"] == ""
    assert hint["source"] == "the network's opinion"


def test_a_review_is_told_line_by_line(client: TestClient) -> None:
    """It counts the positions that are solved, and ends with what `review_game` finds."""
    moves = "4444"  # whose positions the opening book knows
    *progress, review = ask(client, "review", moves=moves)
    assert [line["done"] for line in progress] == list(range(5))
    assert {line["total"] for line in progress} == {4}
    expected = review_game(moves).to_dict()
    for move in [*review["reviewed"], *expected["reviewed"]]:
        del move["opinion"]
    assert review["reviewed"] == expected["reviewed"]


def test_the_tree_can_be_walked_after_an_analysis(client: TestClient) -> None:
    """The child's visits are one less than its edge's; beyond the tree is an error, as is another position."""
    last = ask(client, "analyze", moves="44", simulations=200)[-1]
    assert last["finished"]
    assert last["simulations"] == 200
    root = ask(client, "node", moves="44", path=[])
    best = max(root["columns"], key=lambda item: item["visits"])
    child = ask(client, "node", moves="44", path=[best["column"]])
    assert sum(item["visits"] for item in child["columns"]) == best["visits"] - 1
    for body in ({"moves": "44", "path": [0] * 30}, {"moves": "4", "path": []}):
        assert client.post("/api/node", json=body | {"session": "a-session-of-tests"}).status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("move", "not json", 400),
        ("move", "[1]", 400),
        ("move", '{"moves": "49", "level": "club"}', 400),
        ("move", '{"moves": "1122334", "level": "club"}', 400),
        ("move", '{"moves": "4", "level": "god"}', 400),
        ("move", '{"moves": "' + "1" * 5000 + '"}', 413),
        ("move", "[" * 4000, 400),
        ("analyze", '{"moves": "4", "simulations": 0, "session": "abcdefgh"}', 400),
        ("analyze", '{"moves": "4", "simulations": 1000000000, "session": "abcdefgh"}', 400),
        ("analyze", '{"moves": "4", "session": "../../etc"}', 400),
        ("exact", "{}", 400),
    ],
)
def test_bad_requests_are_one_line_of_json(client: TestClient, path: str, body: str, status: int) -> None:
    response = client.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one longest unused goes first: its tree is forgotten, the others' are not."""
    monkeypatch.setattr(searches, "MAX_SESSIONS", 2)
    service = SearchService("fast")

    def grow(session: str) -> None:
        service.analyze(session, Position(), 5, Stop(), lambda _analysis: None)

    grow("session-1")
    grow("session-2")
    service.node("session-1", Position(), [])
    grow("session-3")
    assert service.node("session-1", Position(), []).visits.sum() > 0
    with pytest.raises(ValueError, match="analyse this position first"):
        service.node("session-2", Position(), [])


def test_a_certificate_is_read_no_further_once_the_server_ends() -> None:
    """Reading takes seconds, and whoever exits waits for it."""
    service = SearchService("fast")
    service.close()
    with pytest.raises(Stopped):
        service.proven_result(Position.from_moves("44"))


def test_too_many_searches_are_reported(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 503 before an answer has begun, for the solver and for searches alike."""
    for queue in (application.searches, application.exact_searches):
        monkeypatch.setattr(queue, "places", 0)
    for name, level in (("move", "club"), ("move", "perfect"), ("exact", ""), ("analyze", "")):
        body = {"moves": "44", "level": level, "session": "a-session-of-tests"}
        assert client.post(f"/api/{name}", json=body).status_code == 503


def test_the_solver_has_a_time_limit_and_gives_its_place_back(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position that takes minutes is given up with status 504; the next question is answered."""
    with monkeypatch.context() as patch:
        patch.setattr(searches, "EXACT_SECONDS", 0.2)
        shared_solver.cache_clear()
        answer = client.post("/api/exact", json={"moves": HARD})
    assert answer.status_code == 504
    assert not application.exact_searches.taken
    assert ask(client, "exact", moves="444445267614")["columns"]


def test_a_search_has_its_whole_time_from_when_it_begins(
    service: SearchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it has waited for the ones before."""
    looks: list[int] = []

    def solve(_position: Position, on_pause: Callable[[], None]) -> None:
        for look in range(2):
            on_pause()
            looks.append(look)
            time.sleep(0.1)

    monkeypatch.setattr(searches, "EXACT_SECONDS", 0.05)
    monkeypatch.setattr(searches, "exact", solve)
    stop = Stop()
    time.sleep(0.1)
    with pytest.raises(TimeIsUp):
        service.exact(Position(), stop)
    assert looks == [0]


def assert_a_move_does_not_wait(
    client: TestClient, early: list[threading.Thread], queue: searches.WorkQueue, released: threading.Event
) -> None:
    """Start requests that stay in a queue until they are released; a level moves meanwhile."""
    try:
        for thread in early:
            thread.start()
        while len(queue.taken) < len(early):
            assert all(thread.is_alive() for thread in early)
            time.sleep(0.01)
        assert ask(client, "move", **MOVE)["column"] == 3
        assert all(thread.is_alive() for thread in early)
    finally:
        released.set()
        for thread in early:
            thread.join(PATIENCE)


def test_nobodys_search_waits_for_the_solver(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More positions than there are threads wait for the solver; a level moves at once."""
    released = threading.Event()
    monkeypatch.setattr(application.service, "exact", lambda *_arguments: [] if released.wait(PATIENCE) else None)
    early = [threading.Thread(target=lambda: ask(client, "exact", moves=HARD)) for _ in range(4)]
    assert_a_move_does_not_wait(client, early, application.exact_searches, released)


def test_no_move_waits_while_the_certificates_are_read(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pages than there are threads ask for the certificates; a level that plays by none moves at once."""
    released = threading.Event()
    for name in ("proven_result", "certified_move"):
        monkeypatch.setattr(application.service, name, lambda _position: None if released.wait(PATIENCE) else 0)
    early = [threading.Thread(target=lambda: ask(client, "certificate", moves="4")) for _ in range(cores() + 1)]
    early += [threading.Thread(target=lambda: ask(client, "move", **MOVE | {"level": "master"}))]
    assert_a_move_does_not_wait(client, early, application.certificate_reads, released)


def test_no_hint_waits_while_the_certificates_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact scores and the level that plays by them would wait for the hint."""
    monkeypatch.setattr(searches, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", 0.0)
    shared_solver.cache_clear()
    reading, released, ended = threading.Event(), threading.Event(), threading.Event()

    def read(*_arguments: object, **_options: object) -> None:
        reading.set()
        released.wait(PATIENCE)
        ended.set()

    monkeypatch.setattr(searches, "certificates", read)
    service = SearchService("fast")
    service.prepare()
    try:
        assert reading.wait(PATIENCE)
        assert service.hint(Position.from_moves("22661"), Stop()).source == "the network's opinion"
        assert not ended.is_set()
    finally:
        released.set()


def test_an_analysis_holds_up_nobody_and_ends_with_the_sessions_next(client: TestClient) -> None:
    """A session has one tree, so the first comes to its last line early, and says that it is not finished."""
    lines: list[dict[str, Any]] = []
    first = threading.Thread(target=lambda: lines.extend(ask(client, "analyze", moves="4", simulations=20_000)))
    first.start()
    node = {"moves": "4", "path": [], "session": "a-session-of-tests"}
    while "wait until" not in client.post("/api/node", json=node).text:
        assert first.is_alive()
    assert ask(client, "move", **MOVE)["column"] == 3
    assert first.is_alive()
    assert ask(client, "analyze", moves="44", simulations=10)[-1]["finished"]
    first.join(PATIENCE)
    assert not lines[-1]["finished"]
    assert lines[-1]["simulations"] < 20_000


def test_a_name_that_is_not_the_servers_own_is_refused(client: TestClient) -> None:
    """A page has one whose name its owner has pointed at this machine (DNS rebinding)."""
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "192.168.0.9"):
        assert client.post("/api/move", json=MOVE, headers={"host": host}).status_code == 403, host
        assert client.get("/", headers={"host": host}).status_code == 403, host
    for own in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/", headers={"host": own}).status_code == 200, own


def test_another_sites_page_is_refused(client: TestClient) -> None:
    """Also one that this machine serves on another port, and a type that it may send without asking the browser."""
    others = ("evil.example", "localhost:8000.evil.example", "localhost:3000", "localhost")
    for origin in ("null", "", *(f"http://{host}" for host in others)):
        refused = client.post("/api/move", json=MOVE, headers={"origin": origin})
        assert refused.status_code == 403, origin
        assert "column" not in refused.text
    own = {"origin": "http://localhost:8000"}
    assert client.post("/api/move", json=MOVE, headers=own).json()["column"] == 3
    for kind, status in (("text/plain", 415), ("application/jsonx", 415), ("Application/JSON; charset=utf-8", 200)):
        answer = client.post("/api/move", content=json.dumps(MOVE), headers={"content-type": kind})
        assert answer.status_code == status, kind


def test_without_the_links_token_nothing_is_answered(stranger: TestClient) -> None:
    """With it the browser gets a cookie that scripts cannot read, and goes on to the page without it in the address."""
    for path in ("", "api/setup", "static/app.js", "?token=guessed", "?token="):
        assert stranger.get(f"/{path}").status_code == 403, path
    guessed = {"cookie": "alphac4-8000=guessed"}
    assert stranger.post("/api/move", json=MOVE, headers=guessed).status_code == 403
    welcome = stranger.get("/?token=a-secret-word")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert "httponly" in welcome.headers["set-cookie"].lower()
    assert stranger.get("/").status_code == 200
    assert stranger.post("/api/move", json=MOVE).json()["column"] == 3


def test_other_cookies_of_the_host_do_not_hide_the_token(stranger: TestClient) -> None:
    """Whatever other programs on the same host let the browser send, before ours or after it."""
    others = ('prefs={"a":1}', "name=Jürgen", 'q="unterminated', "no-value", "alphac4-8001=another-word")
    for other in others:
        for word, status in (("a-secret-word", 200), ("guessed", 403)):
            own = f"alphac4-8000={word}"
            for cookies in (f"{other}; {own}", f"{own}; {other}"):
                answer = stranger.get("/", headers=[(b"cookie", cookies.encode("latin-1"))])
                assert answer.status_code == status, cookies


def test_a_server_for_the_network_is_known_by_address_and_by_its_names() -> None:
    """Any IP address will do, as a rebound name never is one; a proxy's name must be given; loopback needs no token."""
    access = AccessControl(Starlette(), "0.0.0.0", 8000, names=("Play.example.org",))
    assert all(map(access.accepts_host, ("192.168.0.9:8000", "[fe80::1]:8000", "play.example.org")))
    assert not any(map(access.accepts_host, ("example.org", "")))
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "localhost", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "")))
