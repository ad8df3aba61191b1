"""Reviews by the web application, without sockets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from alphac4.play.web.app import WebApplication
from alphac4.play.web.searches import SearchService
from alphac4.plugins.review import server
from alphac4.plugins.review.game import Review, review_game


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    application = WebApplication(SearchService("quick"))
    with TestClient(application.starlette) as client:
        yield client
    application.close()


def ask(client: TestClient, moves: str) -> list[Any]:
    response = client.post("/api/review", json={"moves": moves})
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_review_streams_what_is_known_and_ends_with_the_result_of_review_game(client: TestClient) -> None:
    """The network's values come first, then the grades from the last move to the first."""
    moves = "4444"  # in the opening book
    *progress, review = ask(client, moves)
    assert [line["done"] for line in progress] == list(range(9))
    assert {line["total"] for line in progress} == {8}  # a move is judged, then compared with better ones
    assert all(line["values"] == review["values"] for line in progress)
    grades = [move["grade"] for move in review["reviewed"]]
    for line in progress[:5]:
        judged = grades[len(grades) - line["done"] :] if line["done"] else []
        assert [move["grade"] for move in line["reviewed"]] == ["unknown"] * (4 - line["done"]) + judged
    expected = review_game(moves).to_dict()
    for move in [*review["reviewed"], *expected["reviewed"]]:
        del move["opinion"]
    assert review["reviewed"] == expected["reviewed"]


def test_review_has_a_time_limit(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """As documented; solving early positions would take minutes."""
    seconds: list[float] = []

    def limited(*arguments: Any, **options: Any) -> Review:
        seconds.append(options["seconds"])
        return review_game(*arguments, **options)

    monkeypatch.setattr(server, "review_game", limited)
    ask(client, "4444")
    assert seconds == [40]


def test_invalid_requests_are_one_line_of_json(client: TestClient) -> None:
    for body in ({}, {"moves": "49"}, {"moves": 4}):
        response = client.post("/api/review", json=body)
        assert response.status_code == 400
        assert "\n" not in response.json()["error"]
