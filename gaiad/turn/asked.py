"""What a person asks for, before anything is done: what makes no sense is refused here, whether or not it would be read
later; and which session and turn it is, also when the same is asked twice under one key.
"""

import hashlib
from datetime import datetime

from msgspec import structs

from gaiad.chat_schemas import ChatRequest
from gaiad.errors import BadInput
from gaiad.generation import out_of_range
from gaiad.ids import IdMaker

_SESSION_LIMIT = 100
_LIMITS = {"message": 200_000, "persona": 200, "project": 200, "idempotency_key": 200}  # characters
_HIGHEST_SEED = 2**32 - 1


def check_asked(request: ChatRequest) -> None:
    """Raises BadInput that names the value and the remedy."""
    if not request.message.strip():
        raise BadInput("the message is empty; say something")
    for name, limit in _LIMITS.items():
        if (length := len(getattr(request, name))) > limit:
            raise BadInput(f"{name} has {length} characters; at most {limit} are allowed")
    session_id = request.session_id
    if len(session_id) > _SESSION_LIMIT:
        raise BadInput(f"session_id has {len(session_id)} characters; at most {_SESSION_LIMIT} are allowed")
    if not session_id.isprintable() or session_id != " ".join(session_id.split()):
        raise BadInput(f"session_id {session_id!r}: use printable characters, single spaces, none at the ends")
    if request.seed is not None and not 0 <= request.seed <= _HIGHEST_SEED:
        raise BadInput(f"seed is {request.seed}; give a number from 0 to {_HIGHEST_SEED}")
    if request.temperature is not None and (problem := out_of_range("temperature", request.temperature)):
        raise BadInput(problem)
    if min(request.mtu, request.max_tokens) < 0:
        raise BadInput(f"mtu {request.mtu} and max_tokens {request.max_tokens}: give 0, for as set, or more")
    if request.now:
        _check_moment(request.now)


def _check_moment(now: str) -> None:
    try:
        datetime.fromisoformat(now)
    except ValueError as error:
        raise BadInput(f"now = {now!r}: write it as ISO 8601, 2025-12-15T12:00:00Z") from error


def named(request: ChatRequest, tenant: str, ids: IdMaker) -> ChatRequest:
    """With a session. When none is named it is a new one, but the same at every time for the same idempotency key."""
    if request.session_id:
        return request
    key = request.idempotency_key
    return structs.replace(request, session_id=_id_of("ses", tenant, key) if key else ids.make("ses"))


def turn_of_key(tenant: str, session_id: str, key: str, attempt: int) -> str:
    """The turn id that the same key in the same session always has, at its first attempt and at later ones."""
    return _id_of("turn", tenant, session_id, key, str(attempt))


def _id_of(prefix: str, *parts: str) -> str:
    digest = hashlib.sha256("".join(f"{len(part)} {part}" for part in parts).encode()).hexdigest()
    return f"{prefix}_{digest[:26].upper()}"
