"""Structured logs on stderr with turn and tenant ids bound by context, and secrets kept out."""

import logging
import re
import sys
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, WrappedLogger

_SECRET_KEY = re.compile(r"token|secret|password|authorization|api_?key|cookie", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure_logs(level: str, layout: Literal["text", "json"]) -> None:
    """Send every log line to stderr at `level` or above, as text for people or one JSON object a line."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if layout == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            *([structlog.processors.format_exc_info] if layout == "json" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace values under secret-looking keys and bearer credentials inside text."""
    for key, value in event.items():
        if _SECRET_KEY.search(key) and not isinstance(value, int | float | bool):
            event[key] = "[hidden]"
        elif isinstance(value, str):
            event[key] = _BEARER.sub(r"\1 [hidden]", value)
    return event
