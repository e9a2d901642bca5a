"""How errors look on the wire; one that is not ours is logged under an id that the answer names."""

import secrets

import msgspec
from aiohttp import web

from gaiad.errors import GaiadError, Unavailable
from gaiad.logs import get_logger
from gaiad.schemas import ErrorBody

_log = get_logger("gaiad.http")
JSON = "application/json"


def error_body(error: Exception, where: str) -> tuple[int, ErrorBody]:
    """HTTP status and body for any error; one that is not ours is logged under an id the body names."""
    if isinstance(error, GaiadError):
        retry_after_s = error.retry_after_s if isinstance(error, Unavailable) else None
        return error.http_status, ErrorBody(code=error.code, message=error.message, retry_after_s=retry_after_s)
    error_id = secrets.token_hex(4)
    _log.error("unexpected_error", error_id=error_id, path=where, exc_info=error)
    message = f"{where}: unexpected {type(error).__name__}; the daemon's log has it under {error_id}"
    return 500, ErrorBody(code="internal", message=message)


def error_response(error: Exception, where: str) -> web.Response:
    """The error as an answer."""
    status, body = error_body(error, where)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if body.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(body.retry_after_s)))
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=JSON, headers=headers)
