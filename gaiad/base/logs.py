"""Structured logs on stderr with turn and tenant ids bound by context, and secrets kept out.

The one module that imports structlog. structlog would load rich for prettier tracebacks wherever some other tool has
brought it; gaiad prints plain ones, and rich is a fifth of the daemon's start, so it is hidden for that moment.
"""

import io
import logging
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from gaiad.base.errors import GaiadError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


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
_WINDOW_S = 10.0
_MOST_LINES = 50
_STDERR = 2
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
            RateLimit(time.monotonic),
            _no_traceback_of_foreseen,
            *([structlog.processors.format_exc_info] if layout == "json" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [one for one in root.handlers if not isinstance(one, _Libraries)] + [_Libraries(logging.WARNING)]


def _no_traceback_of_foreseen(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An error of gaiad's own is one line; a traceback is for what nobody foresaw."""
    if isinstance(error := event.get("exc_info"), GaiadError):
        del event["exc_info"]
        event.setdefault("error", error.message)
    return event


class RateLimit:
    """Drops an event's lines above `_MOST_LINES` in `_WINDOW_S`, except debug; the next line counts them."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._began = monotonic()
        self._lines: Counter[str] = Counter()
        self._dropped: dict[str, int] = {}

    def __call__(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method == "debug":
            return event
        if self._monotonic() - self._began >= _WINDOW_S:
            self._dropped = {name: lines - _MOST_LINES for name, lines in self._lines.items() if lines > _MOST_LINES}
            self._lines.clear()
            self._began = self._monotonic()
        name = str(event["event"])
        self._lines[name] += 1
        if self._lines[name] > _MOST_LINES:
            raise structlog.DropEvent
        if dropped := self._dropped.pop(name, 0):
            event["lines_dropped"] = dropped
        return event


class RotatingLog(io.TextIOBase):
    """A text stream into a file that is renamed at `most_bytes`: log, log.1, log.2 ...; private to its owner.

    The process's own standard error follows it. Raises OSError.
    """

    def __init__(self, path: Path, most_bytes: int = 10 * 1024 * 1024, older: int = 4) -> None:
        self._path, self._most_bytes, self._older = path, most_bytes, older
        self._lock = threading.Lock()
        self._stream = self._open()

    def _open(self) -> BinaryIO:
        stream = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab", 0)
        os.dup2(stream.fileno(), _STDERR)
        return stream

    def write(self, text: str) -> int:
        """Write it whole; a line is never split over two files when it is written at once."""
        with self._lock:
            if text != "\n" and self._stream.tell() >= self._most_bytes:
                self._rotate()
            self._stream.write(text.encode("utf-8", "replace"))
        return len(text)

    def _rotate(self) -> None:
        self._stream.close()
        for number in range(self._older, 0, -1):
            newer = Path(f"{self._path}.{number - 1}") if number > 1 else self._path
            if newer.exists():
                newer.replace(f"{self._path}.{number}")
        self._stream = self._open()


class _Libraries(logging.Handler):
    """Takes what libraries log, asyncio among them, into our log: one event a library, its words as `message`."""

    def emit(self, record: logging.LogRecord) -> None:
        level = logging.ERROR if record.levelno >= logging.ERROR else logging.WARNING
        get_logger().log(level, record.name, message=record.getMessage(), exc_info=record.exc_info)


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


TRACER = "memory-gam"
SpanName = Literal[
    "memorizer.memorize",
    "memorizer.page",
    "researcher.plan",
    "researcher.search",
    "researcher.integrate",
    "researcher.reflect",
]
_PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
Counts = dict[str, int | bool]
_log = get_logger("gaiad.tracing")


def span(name: SpanName, **counts: int | bool) -> AbstractContextManager[Counts]:
    """A span around what is done within; the mapping it gives takes counts that are known at the end only.

    Spans begun inside, in tasks and threads too, are its children.
    """
    if "opentelemetry.trace" not in sys.modules and _PROVIDER_VARIABLE not in os.environ:
        return nullcontext(counts)
    return _span(name, counts)


@cache
def tracer() -> "Tracer":
    """The tracer of whichever provider there is now or later; one that cannot be loaded is logged and done without."""
    from opentelemetry import trace

    try:
        return trace.get_tracer(TRACER)
    except Exception as error:  # noqa: BLE001  (raised by a provider that is not ours; the memory works without it)
        _log.error("tracer_not_loaded", error=repr(error), remedy=f"fix or unset {_PROVIDER_VARIABLE}")
        return trace.NoOpTracer()


@contextmanager
def _span(name: SpanName, counts: Counts) -> Iterator[Counts]:
    from opentelemetry import trace

    with tracer().start_as_current_span(name, record_exception=False, set_status_on_exception=False) as begun:
        try:
            yield counts
        except BaseException as error:
            begun.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            begun.set_attributes(dict(counts))
