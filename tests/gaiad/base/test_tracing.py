"""JIT's spans, heard by a provider written against the API alone: names, who is whose child, counts and no words."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.logs import TRACER, span, tracer
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.service.memory import MemoryApi
from gaiad.wire.memory import BuildContext, IngestSession

SECRET = "nightingale"


class Heard(NonRecordingSpan):
    """A span that remembers what it was told."""

    def __init__(self, tracer: str, name: str, parent: str, number: int) -> None:
        super().__init__(SpanContext(1, number, is_remote=False, trace_flags=TraceFlags(1)))
        self.tracer, self.name, self.parent = tracer, name, parent
        self.told: dict[str, Any] = {}
        self.status = ""
        self.events: list[str] = []
        self.ended = False

    def set_attributes(self, attributes: Any) -> None:
        self.told |= attributes

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self.status = description or ""

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self.events.append(name)

    def end(self, end_time: int | None = None) -> None:
        self.ended = True


class Listening(trace.TracerProvider):
    """An in-memory provider; also the tracer it gives."""

    def __init__(self) -> None:
        self.spans: list[Heard] = []

    def get_tracer(self, name: str, *_rest: Any, **_more: Any) -> Any:
        return _Tracer(name, self.spans)

    def named(self, name: str) -> list[Heard]:
        return [one for one in self.spans if one.name == name]


class _Tracer(trace.Tracer):
    def __init__(self, name: str, spans: list[Heard]) -> None:
        self._name = name
        self._spans = spans

    def start_span(self, name: str, *_rest: Any, **_more: Any) -> Heard:
        above = trace.get_current_span()
        begun = Heard(self._name, name, above.name if isinstance(above, Heard) else "", len(self._spans) + 1)
        self._spans.append(begun)
        return begun

    @contextmanager
    def start_as_current_span(self, name: str, *_rest: Any, **more: Any) -> Iterator[Any]:
        with trace.use_span(
            self.start_span(name),
            end_on_exit=True,
            record_exception=more.get("record_exception", True),
            set_status_on_exception=more.get("set_status_on_exception", True),
        ) as begun:
            yield begun


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listening]:
    provider = Listening()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)  # the API lets it be set once in a process only
    tracer.cache_clear()
    yield provider
    tracer.cache_clear()


@pytest.fixture
def memory(archive: LocalArchive, clock: FrozenClock) -> MemoryApi:
    config = load_config(environment={"MEMORY_GAM_ENABLED": "on"})
    return MemoryApi(archive, clock, Metrics(), lambda: config, lambda: WordTokenizer(clock), lambda: None)


def said(*contents: str) -> IngestSession:
    turns = [{"role": "user", "content": content} for content in contents]
    return msgspec.convert({"tenantId": "local", "sessionId": "s", "turns": turns}, IngestSession)


async def test_the_memorizer_and_the_researcher_are_traced_under_jits_names(
    memory: MemoryApi, heard: Listening
) -> None:
    await memory.ingest_session(said(f"The {SECRET} sings at noon.", "The lamp is lit at dusk."), RequestContext())
    ask = msgspec.convert({"tenantId": "local", "request": f"When does the {SECRET} sing?"}, BuildContext)
    built = await memory.build_context(ask, RequestContext())
    assert built.evidence
    assert {one.name for one in heard.spans} == {
        "memorizer.memorize",
        "memorizer.page",
        "researcher.plan",
        "researcher.search",
        "researcher.integrate",
        "researcher.reflect",
    }
    assert {one.tracer for one in heard.spans} == {TRACER}
    assert all(one.ended for one in heard.spans)
    (memorize,), (page,) = heard.named("memorizer.memorize"), heard.named("memorizer.page")
    assert (memorize.told, page.told, page.parent) == ({"turns": 1, "remembered": 1}, {"pages": 2}, memorize.name)
    assert heard.named("researcher.reflect")[-1].told["sufficient"] in (True, False)
    assert heard.named("researcher.integrate")[0].told["new_pages"] >= 1


async def test_no_words_of_people_are_in_a_span(memory: MemoryApi, heard: Listening) -> None:
    await memory.ingest_session(said(f"The {SECRET} sings at noon."), RequestContext())
    await memory.build_context(
        msgspec.convert({"tenantId": "local", "request": SECRET}, BuildContext), RequestContext()
    )
    values = [value for one in heard.spans for value in one.told.values()]
    assert values
    assert all(isinstance(value, int) for value in values)


def test_an_error_is_told_by_its_class_alone(heard: Listening) -> None:
    with pytest.raises(ValueError), span("researcher.search", searches=1):
        raise ValueError(SECRET)
    (failed,) = heard.spans
    assert (failed.status, failed.events, failed.told, failed.ended) == ("ValueError", [], {"searches": 1}, True)


async def test_threads_of_the_archive_work_for_the_span_they_were_asked_in(memory: MemoryApi, heard: Listening) -> None:
    with span("researcher.plan"):
        await memory.ingest_session(said("The lamp is lit at dusk."), RequestContext())
    (memorize,) = heard.named("memorizer.memorize")
    assert memorize.parent == "researcher.plan"


@pytest.mark.parametrize(
    ("provider", "imported"),
    [("", "False"), ("default_tracer_provider", "True"), ("not-installed", "True")],
)
def test_the_api_is_imported_only_for_a_provider_and_one_that_is_missing_costs_nothing(
    provider: str, imported: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={"OTEL_PYTHON_TRACER_PROVIDER": provider} if provider else {},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == imported
    assert ("tracer_not_loaded" in done.stdout + done.stderr) is (provider == "not-installed")


_PROGRAM = """
import sys
from gaiad.base.logs import span
with span("researcher.plan", iteration=1) as counts:
    counts["searches"] = 2
print("opentelemetry.trace" in sys.modules)
"""
