"""Spans under JIT's names, tracer `memory-gam`: the only module that knows OpenTelemetry.

Spans are for whoever runs gaiad under a tracer: `opentelemetry-instrument gaiad serve`, or a provider named in
OTEL_PYTHON_TRACER_PROVIDER. Without one the API is not even imported, for that alone takes longer than a search, and a
span costs some microseconds. What goes into a span are counts: never text of people, and of an error its class alone.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Literal

from gaiad.logs import get_logger

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

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
        _log.error("tracer_not_loaded", error=repr(error), remedy=f"mend or unset {_PROVIDER_VARIABLE}")
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
