"""What a request's body says, checked before anything is done with it."""

import asyncio
import json
import re
from typing import Any

from starlette.requests import ClientDisconnect, Request

from alphac4.game import Geometry, Position

MOST_BYTES = 4_096  # of a body
BODY_SECONDS = 10.0  # a body may take
SESSION = re.compile(r"[A-Za-z0-9_-]{8,64}")


class RequestError(ValueError):
    """What is wrong with a request, in one line, and the status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON object in the body.

    Raises:
        RequestError: if the body is something else, too long, or not here in time.
    """
    # Another site's page can send a form or plain text without asking first, but not this type (CORS).
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestError("the request's type must be application/json", 415)
    data = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                data += part
                if len(data) > MOST_BYTES:
                    raise RequestError("the request is too long", 413)
    except TimeoutError as error:
        raise RequestError(f"the request took longer than {BODY_SECONDS:g} seconds to arrive", 408) from error
    except ClientDisconnect as error:
        raise RequestError("the visitor has left") from error
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is not JSON") from error
    if not isinstance(body, dict):
        raise RequestError("the request must be a JSON object")
    return body


def text(body: dict[str, Any], name: str) -> str:
    """A field that must be a string."""
    value = body.get(name)
    if not isinstance(value, str):
        raise RequestError(f"{name} must be a string")
    return value


def session(body: dict[str, Any]) -> str:
    """The name by which a visitor finds its search tree again."""
    value = text(body, "session")
    if not SESSION.fullmatch(value):
        raise RequestError("session must be 8 to 64 letters, digits, - or _")
    return value


def whole_number(body: dict[str, Any], name: str, default: int, most: int) -> int:
    """A field that, if it is there, must be a whole number from 1 to ``most``."""
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise RequestError(f"{name} must lie between 1 and {most}")
    return value


def columns(body: dict[str, Any], name: str) -> list[int]:
    """A field that must be a list of 0-based columns."""
    value = body.get(name)
    if not isinstance(value, list) or not all(type(step) is int for step in value):
        raise RequestError(f"{name} must be a list of columns")
    return value


def unfinished_position(body: dict[str, Any], geometry: Geometry) -> Position:
    """The position after ``moves``, in which there must be something left to play."""
    position = Position.from_moves(text(body, "moves"), geometry)
    if position.outcome() is not None:
        raise RequestError("the game is over")
    return position
