"""Structured logs on stderr with turn and tenant ids bound by context, and secrets kept out.

The one module that imports structlog. structlog would load rich for prettier tracebacks wherever some other tool has
brought it; gaiad prints plain ones, and rich is a fifth of the daemon's start, so it is hidden for that moment.
"""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

_rich = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` fail, as where it is not installed
try:
    import structlog
    from structlog.typing import EventDict, WrappedLogger
finally:
    del sys.modules["rich"]
    if _rich is not None:
        sys.modules["rich"] = _rich

get_logger = structlog.get_logger

_SECRET_KEY = re.compile(r"token|secret|password|authorization|api_?key|cookie", re.IGNORECASE)
_BEARER = re.compile(r"(?i)\b(bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,  # nothing of ours: for a command that tells what went wrong in its own words
}


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


@contextmanager
def log_context(**names: str) -> Iterator[None]:
    """Until it is left every log line has `names`, also those of tasks begun meanwhile."""
    structlog.contextvars.bind_contextvars(**names)
    try:
        yield
    finally:
        structlog.contextvars.unbind_contextvars(*names)


def hide_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace values under secret-looking keys and bearer credentials inside text."""
    for key, value in event.items():
        if _SECRET_KEY.search(key) and not isinstance(value, int | float | bool):
            event[key] = "[hidden]"
        elif isinstance(value, str):
            event[key] = _BEARER.sub(r"\1 [hidden]", value)
    return event
