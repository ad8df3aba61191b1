import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from alphac4.play.web.access import AccessRules, is_loopback, rules_for
from alphac4.play.web.app import WebApplication
from alphac4.play.web.search_service import SearchService

MOVE = {"moves": "112233", "level": "strong"}


@pytest.fixture(scope="module")
def service() -> SearchService:
    """The small network."""
    return SearchService("fast")


@contextmanager
def visiting(service: SearchService, rules: AccessRules, address: str) -> Iterator[TestClient]:
    """A browser that has the server open under an address."""
    application = WebApplication(service, rules)
    with TestClient(application.starlette, base_url=address, follow_redirects=False) as client:
        yield client
    application.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "192.168.0.9"]
)
def test_a_name_that_is_not_the_servers_own_is_refused(service: SearchService, host: str) -> None:
    """What a page does whose name its owner has pointed at this machine (DNS rebinding)."""
    with visiting(service, rules_for("127.0.0.1", 8000, token=None), "http://localhost:8000") as client:
        assert client.post("/api/move", json=MOVE, headers={"host": host}).status_code == 403
        assert client.get("/", headers={"host": host}).status_code == 403
        for own in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST"):
            assert client.get("/", headers={"host": own}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", "http://localhost", ""])
def test_another_sites_page_is_refused(service: SearchService, origin: str) -> None:
    """Also one that this machine serves on another port; the server's own page is answered."""
    with visiting(service, rules_for("127.0.0.1", 8000, token=None), "http://localhost:8000") as client:
        refused = client.post("/api/move", json=MOVE, headers={"origin": origin})
        assert refused.status_code == 403
        assert "column" not in refused.text
        own = client.post("/api/move", json=MOVE, headers={"origin": "http://localhost:8000"})
        assert own.json()["column"] == 3


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonx"]
)
def test_only_json_is_taken(service: SearchService, kind: str) -> None:
    """A page elsewhere may send the other types without asking the browser first."""
    with visiting(service, rules_for("127.0.0.1", 8000, token=None), "http://localhost:8000") as client:
        body = json.dumps(MOVE).encode()
        assert client.post("/api/move", content=body, headers={"content-type": kind}).status_code == 415
        assert client.post(
            "/api/move", content=body, headers={"content-type": "Application/JSON; charset=utf-8"}
        ).is_success


def test_without_the_links_token_nothing_is_answered(service: SearchService) -> None:
    """With it the browser gets a cookie that scripts cannot read, and goes on to the page without it in the address."""
    with visiting(service, rules_for("0.0.0.0", 8000, token="a-secret-word"), "http://192.168.0.9:8000") as client:
        for path in (
            "/",
            "/api/setup",
            "/static/app.js",
            "/?token=guessed",
            "/?token=",
            "/api/setup?token=a-secret-word",
        ):
            assert client.get(path).status_code == 403, path
        guessed = {"cookie": "alphac4-8000=guessed"}
        assert client.post("/api/move", json=MOVE, headers=guessed).status_code == 403
        welcome = client.get("/?token=a-secret-word")
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
        assert "httponly" in welcome.headers["set-cookie"].lower()
        assert client.get("/").status_code == 200
        assert client.post("/api/move", json=MOVE).json()["column"] == 3


@pytest.mark.parametrize(
    "other",
    [
        'prefs={"a":1}',
        "name=Jürgen",
        "user@x=1",
        "a=b c",
        'q="unterminated',
        "list=[1,2]",
        "s:x=1",
        "k=v; ;",
        "no-value",
        "alphac4-8001=another-word",
    ],
)
def test_other_cookies_of_the_host_do_not_hide_the_token(service: SearchService, other: str) -> None:
    """Whatever other programs on the same host let the browser send, before ours or after it."""
    with visiting(service, rules_for("0.0.0.0", 8000, token="a-secret-word"), "http://192.168.0.9:8000") as client:
        for word, status in (("a-secret-word", 200), ("guessed", 403)):
            own = f"alphac4-8000={word}"
            for cookies in (f"{other}; {own}", f"{own}; {other}"):
                answer = client.get("/", headers=[(b"cookie", cookies.encode("latin-1"))])
                assert answer.status_code == status, cookies


def test_a_server_for_the_network_is_known_by_address_and_by_its_names() -> None:
    """Any IP address will do, as a rebound name never is one; a proxy's name must be given."""
    rules = rules_for("0.0.0.0", 8000, token=None, names=("Play.example.org",))
    for host, accepted in {
        "192.168.0.9:8000": True,
        "[fe80::1]:8000": True,
        "play.example.org": True,
        "example.org": False,
        "": False,
    }.items():
        assert rules.accepts_host(host) is accepted, host


@pytest.mark.parametrize(
    ("host", "only_this_machine"),
    [
        ("127.0.0.1", True),
        ("127.0.0.2", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_told_apart(host: str, only_this_machine: bool) -> None:
    """They need no token."""
    assert is_loopback(host) is only_this_machine
