"""The web application without sockets: its routes and its access control."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.applications import Starlette
from starlette.testclient import TestClient

from alphac4.game import Position
from alphac4.machine import cores
from alphac4.play.proofs import ProvenResult
from alphac4.play.registry import Panel
from alphac4.play.web import pages, searches
from alphac4.play.web.app import WebApplication
from alphac4.play.web.searches import SearchService, Stop, Stopped
from alphac4.play.web.server import AccessControl, is_loopback
from alphac4.solver import shared_solver
from alphac4.solver.solver import TimeIsUp

TIMEOUT_S = 120
HARD = "22661"  # takes the solver a quarter of a minute
MOVE = {"moves": "112233", "level": "strong"}  # three on the bottom row: a search plays 4


@pytest.fixture(scope="module")
def service() -> SearchService:
    return SearchService("quick")


@pytest.fixture(scope="module")
def application(service: SearchService) -> Iterator[WebApplication]:
    application = WebApplication(service)
    yield application
    application.close()


@pytest.fixture(scope="module")
def client(application: WebApplication) -> Iterator[TestClient]:
    """A visitor on the same machine."""
    guarded = AccessControl(application.starlette, "127.0.0.1", 8000)
    with TestClient(guarded, base_url="http://localhost:8000") as client:
        yield client


@pytest.fixture
def stranger(service: SearchService) -> Iterator[TestClient]:
    """A visitor from the network, who needs the token."""
    application = WebApplication(service)
    guarded = AccessControl(application.starlette, "0.0.0.0", 8000, token="a-secret-word")
    with TestClient(guarded, base_url="http://192.168.0.9:8000", follow_redirects=False) as client:
        yield client
    application.close()


def ask(client: TestClient, name: str, **body: Any) -> Any:
    """Return the answer of the API, by default for one common session."""
    response = client.post(f"/api/{name}", json={"session": "a-session-of-tests"} | body)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    return lines if name == "analyze" else lines[0]


def test_page_and_its_files_are_served(client: TestClient) -> None:
    """Nothing is loaded from other sites, and the headers forbid it."""
    page = client.get("/")
    assert "alphac4" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for path in pages.STATIC.iterdir():
        part = client.get(f"/static/{path.name}")
        assert part.status_code == 200
        assert "https://" not in part.text
    assert client.get("/static/..%2Fapp.py").status_code == client.get("/nowhere").status_code == 404


def test_panels_add_their_elements_and_styles_to_the_page(tmp_path: Path) -> None:
    """A place that the page does not have is an error."""
    panel = Panel(name="mine", folder=tmp_path)
    (tmp_path / "panel.css").touch()
    (tmp_path / "panel.html").write_text(
        '<!-- modes -->\n<button id="mode-mine"></button>\n<!-- sides -->\n<div></div>\n'
    )
    page = pages.index_page([panel])
    assert re.search(r'id="mode-game"[^\n]*\n<button id="mode-mine"></button>\n *</nav>', page)
    assert 'href="static/mine/panel.css"' in page.partition("</head>")[0]
    assert "<div></div>\n</main>" in page
    (tmp_path / "panel.html").write_text("<!-- nowhere -->\n<p></p>\n")
    with pytest.raises(ValueError, match="panel mine: no place nowhere in the page; its places: styles, modes"):
        pages.index_page([panel])


def test_story_of_a_network_counts_all_runs_that_led_to_it() -> None:
    costs = {"games": 2000, "seconds": 90}
    assert "2,000 games against itself in 2 minutes, and" in pages.network_story(costs)
    longer = {**costs, "with_start": {"games": 30_000, "seconds": 3600}, "machine": "two cores"}
    assert "30,000 games against itself in 60 minutes on two cores, and" in pages.network_story(longer)
    assert pages.network_story({}) == ""


def test_levels_solver_and_analysis_find_the_winning_move(client: TestClient) -> None:
    for level in ("strong", "expert", "perfect"):
        assert ask(client, "move", moves="444445267614", level=level)["column"] == 2
    assert [item["column"] for item in ask(client, "exact", moves="444445267614")["columns"] if item["best"]] == [2]
    columns = ask(client, "exact", moves="444443621274")["columns"]  # the mirror image: behind the full column
    assert [item["column"] for item in columns] == [0, 1, 2, 4, 5, 6]
    assert [item["column"] for item in columns if item["best"]] == [4]
    assert ask(client, "analyze", moves="444445267614", simulations=50)[-1]["move"] == 2


def test_hint_keeps_the_outcome_if_exact_scores_take_too_long(
    service: SearchService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "exact", Mock(side_effect=TimeIsUp))
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", TIMEOUT_S)
    monkeypatch.setattr(service, "proven_result", Mock(return_value=None))
    only_move = {"124545351742637271": (3, "wins"), "4243736534153221737": (6, "draws")}
    for moves, (column, outcome) in only_move.items():
        assert ask(client, "hint", moves=moves) == {"column": column, "outcome": outcome, "source": "exact"}
    assert ask(client, "hint", moves="11374565731271647711")["outcome"] == "loses"


@pytest.mark.parametrize("side", [0, 1])
def test_a_proof_names_the_side_that_wins(
    side: int, service: SearchService, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = ProvenResult(first=side == 0, plies=40, column=2)
    monkeypatch.setattr(service, "proven_result", Mock(return_value=known))
    assert ask(client, "proof", moves="44") == {"result": {"side": side, "plies": 40, "column": 2}}


def test_hint_names_its_source(service: SearchService, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "HINT_SECONDS", TIMEOUT_S)
    assert ask(client, "hint", moves="444445267614") == {"column": 2, "outcome": "wins in 1 move", "source": "exact"}
    assert ask(client, "hint", moves="43")["column"] in (5, 6)  # in the book
    monkeypatch.setattr(searches, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", 0.0)
    shared_solver.cache_clear()
    known = ProvenResult(first=True, plies=39, column=3)
    monkeypatch.setattr(service, "proven_result", Mock(side_effect=[known, None]))
    expected = {"column": 3, "outcome": "wins within 20 moves", "source": "proven"}
    assert ask(client, "hint", moves="2266") == expected
    hint = ask(client, "hint", moves="22661")
    assert hint["outcome"] == ""
    assert hint["source"] == "the network's opinion"


def test_the_least_recently_used_session_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MAX_SESSIONS", 2)
    service = SearchService("quick")

    def grow(session: str) -> None:
        service.analyze(session, Position(), 5, Stop(), lambda _analysis: None)

    grow("session-1")
    grow("session-2")
    service.node("session-1", Position(), [])
    grow("session-3")
    assert service.node("session-1", Position(), []).visits > 0
    with pytest.raises(ValueError, match="analyse this position first"):
        service.node("session-2", Position(), [])


def test_nodes_of_the_tree_are_available_after_an_analysis(client: TestClient) -> None:
    """A child has one visit less than its edge. A node outside the tree or of another position is an error."""
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
        ("move", '{"moves": "' + "1" * 5000 + '"}', 413),
        ("analyze", '{"moves": "4", "simulations": 1000000000, "session": "abcdefgh"}', 400),
        ("analyze", '{"moves": "4", "session": "../../etc"}', 400),
    ],
)
def test_bad_requests_are_one_line_of_json(client: TestClient, path: str, body: str, status: int) -> None:
    response = client.post(f"/api/{path}", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status
    assert "\n" not in response.json()["error"]


def test_loading_proofs_stops_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes seconds and would delay the exit."""
    monkeypatch.setattr(searches, "load_proofs", lambda _board, on_poll: on_poll())
    service = SearchService("quick")
    service.close()
    with pytest.raises(Stopped):
        service.proven_result(Position.from_moves("44"))


def test_a_full_queue_is_answered_by_status_503(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in (application.searches, application.exact_searches):
        monkeypatch.setattr(queue, "capacity", 0)
    for name, level in (("move", "club"), ("move", "perfect"), ("exact", ""), ("analyze", "")):
        body = {"moves": "44", "level": level, "session": "a-session-of-tests"}
        assert client.post(f"/api/{name}", json=body).status_code == 503


def test_solver_timeout_is_answered_by_status_504_and_frees_the_queue(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(searches, "EXACT_SECONDS", 0.2)
        shared_solver.cache_clear()
        answer = client.post("/api/exact", json={"moves": HARD})
    assert answer.status_code == 504
    assert not application.exact_searches.pending
    assert ask(client, "exact", moves="444445267614")["columns"]


def test_time_limit_starts_with_the_search_not_with_the_request(
    service: SearchService, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def solve(_position: Position, on_poll: Callable[[], None]) -> None:
        for look in range(2):
            on_poll()
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
    """Start requests that stay in a queue until they are released, and request a level's move meanwhile."""
    try:
        for thread in early:
            thread.start()
        while len(queue.pending) < len(early):
            assert all(thread.is_alive() for thread in early)
            time.sleep(0.01)
        assert ask(client, "move", **MOVE)["column"] == 3
        assert all(thread.is_alive() for thread in early)
    finally:
        released.set()
        for thread in early:
            thread.join(TIMEOUT_S)


def test_moves_do_not_wait_for_the_solver(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More positions than threads wait for the solver meanwhile."""
    released = threading.Event()
    monkeypatch.setattr(application.service, "exact", lambda *_arguments: [] if released.wait(TIMEOUT_S) else None)
    early = [threading.Thread(target=lambda: ask(client, "exact", moves=HARD)) for _ in range(4)]
    assert_a_move_does_not_wait(client, early, application.exact_searches, released)


def test_moves_do_not_wait_for_loading_proofs(
    application: WebApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More requests than threads wait for the proofs meanwhile; the level does not use them."""
    released = threading.Event()
    for name in ("proven_result", "proven_move"):
        monkeypatch.setattr(application.service, name, lambda _position: None if released.wait(TIMEOUT_S) else 0)
    early = [threading.Thread(target=lambda: ask(client, "proof", moves="4")) for _ in range(cores() + 1)]
    early += [threading.Thread(target=lambda: ask(client, "move", **MOVE | {"level": "master"}))]
    assert_a_move_does_not_wait(client, early, application.proof_reads, released)


def test_search_is_compiled_before_it_is_needed(service: SearchService, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = threading.Event()
    monkeypatch.setattr(searches.NetworkSearch, "compile", lambda _search: compiled.set())
    service.prepare()
    assert compiled.wait(TIMEOUT_S)


def test_hints_do_not_wait_for_loading_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact scores and the perfect level would wait for the hint."""
    monkeypatch.setattr(searches, "HINT_SECONDS", 0.0)
    monkeypatch.setattr(searches, "OUTCOME_SECONDS", 0.0)
    shared_solver.cache_clear()
    reading, released, ended = threading.Event(), threading.Event(), threading.Event()

    def read(*_arguments: object, **_options: object) -> None:
        reading.set()
        released.wait(TIMEOUT_S)
        ended.set()

    monkeypatch.setattr(searches, "load_proofs", read)
    service = SearchService("quick")
    service.prepare()
    try:
        assert reading.wait(TIMEOUT_S)
        assert service.hint(Position.from_moves("22661"), Stop()).source == "the network's opinion"
        assert not ended.is_set()
    finally:
        released.set()


def test_analysis_does_not_delay_moves_and_is_stopped_by_the_sessions_next_one(client: TestClient) -> None:
    """The last line of a stopped analysis is not finished."""
    lines: list[dict[str, Any]] = []
    first = threading.Thread(target=lambda: lines.extend(ask(client, "analyze", moves="4", simulations=20_000)))
    first.start()
    node = {"moves": "4", "path": [], "session": "a-session-of-tests"}
    while "wait until" not in client.post("/api/node", json=node).text:
        assert first.is_alive()
    assert ask(client, "move", **MOVE)["column"] == 3
    assert first.is_alive()
    assert ask(client, "analyze", moves="44", simulations=10)[-1]["finished"]
    first.join(TIMEOUT_S)
    assert not lines[-1]["finished"]
    assert lines[-1]["simulations"] < 20_000


def test_foreign_host_names_are_rejected(client: TestClient) -> None:
    """The owner of a foreign name may point it at this machine (DNS rebinding)."""
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "192.168.0.9"):
        assert client.post("/api/move", json=MOVE, headers={"host": host}).status_code == 403, host
        assert client.get("/", headers={"host": host}).status_code == 403, host
    for own in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
        assert client.get("/", headers={"host": own}).status_code == 200, own


def test_requests_from_other_sites_are_rejected(client: TestClient) -> None:
    """This includes other ports of this machine, and content types that need no preflight request."""
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


def test_requests_without_the_token_are_rejected(stranger: TestClient) -> None:
    """The link sets a cookie that scripts cannot read, and redirects to an address without the token."""
    for path in ("", "api/setup", "static/app.js", "?token=guessed", "?token="):
        assert stranger.get(f"/{path}").status_code == 403, path
    guessed = {"cookie": "alphac4-8000=guessed"}
    assert stranger.post("/api/move", json=MOVE, headers=guessed).status_code == 403
    welcome = stranger.get("/?token=a-secret-word")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    assert "httponly" in welcome.headers["set-cookie"].lower()
    assert stranger.get("/").status_code == 200
    assert stranger.post("/api/move", json=MOVE).json()["column"] == 3


def test_token_is_found_among_other_cookies_of_the_host(stranger: TestClient) -> None:
    """Other programs on the same host may set cookies of any form."""
    others = ('prefs={"a":1}', "name=Jürgen", 'q="unterminated', "no-value", "alphac4-8001=another-word")
    for other in others:
        for word, status in (("a-secret-word", 200), ("guessed", 403)):
            own = f"alphac4-8000={word}"
            for cookies in (f"{other}; {own}", f"{own}; {other}"):
                answer = stranger.get("/", headers=[(b"cookie", cookies.encode("latin-1"))])
                assert answer.status_code == status, cookies


def test_server_for_the_network_accepts_addresses_and_allowed_hosts() -> None:
    """Any IP address is safe, because DNS rebinding needs a name."""
    access = AccessControl(Starlette(), "0.0.0.0", 8000, allowed_hosts=("Play.example.org",))
    assert all(map(access.accepts_host, ("192.168.0.9:8000", "[fe80::1]:8000", "play.example.org")))
    assert not any(map(access.accepts_host, ("example.org", "")))
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "localhost", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "")))
