"""Runs over a small archive in memory with a scripted model: what each step is asked, and what comes of its reply."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.research.loop import Researcher
from gaiad.research.thinking.asking import Limits
from gaiad.research.thinking.by_model import Thinker
from gaiad.research.trail import Trail
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.memory import PageHeader
from gaiad.wire.schemas import ResearchRequest, ResearchResult
from gaiad.wire.status import ModelStatus
from tests.makers.last_trail import LastTrail


class _Day(FrozenClock):
    """One day for dates in words; the time that a call takes is real."""

    def monotonic(self) -> float:
        return time.monotonic()


CLOCK = _Day(datetime(2025, 12, 15, 12, tzinfo=UTC))
CONFIG = load_config(environment={}).research
LIMITS = Limits(calls=8, tokens=24_000, seconds=60.0)
PLAN, REFLECT, WRITE = "You plan searches", "research evaluation agent", "You are synthesizing"


class Mind:
    """A scripted model as the pool gives it."""

    def __init__(self, replies: Sequence[ScriptedReply], kind: str = "scripted", state: str = "ready") -> None:
        self._model = ScriptedModel("script", replies, CLOCK)
        self._state = state
        self.was_asked = asyncio.Event()
        self.name, self.kind, self.window = "script", kind, 0

    @property
    def seen(self) -> list[GenerateRequest]:
        return self._model.seen

    @property
    def asked(self) -> list[str]:
        """The steps it was called for, in order."""
        names = {PLAN: "plan", REFLECT: "reflect", WRITE: "write"}
        return [next(name for words, name in names.items() if words in prompt(one)) for one in self.seen]

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[TextDelta | Generated, None]:
        self.was_asked.set()
        return self._model.generate(request, call)

    def status(self) -> ModelStatus:
        return msgspec.structs.replace(self._model.status(), state=self._state, reason="it was just started")


def prompt(request: GenerateRequest) -> str:
    return "\n".join(part.text for message in request.messages for part in message.content)


def label_of(request: GenerateRequest, text: str) -> str:
    """The label under which the passage that begins with `text` was shown."""
    found = re.search(rf"\((s\d+)\) {re.escape(text)}", prompt(request))
    assert found, f"{text!r} is no passage of the prompt"
    return found[1]


class Told(msgspec.Struct):
    """What a run gave: its answer, its events in order, what it took."""

    result: ResearchResult
    events: list[tuple[str, dict[str, Any]]]
    trail: Trail


def reply(match: str, said: Any, **fields: Any) -> ScriptedReply:
    text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
    return ScriptedReply(match=match, text=text, chunk_characters=4000, **fields)


def sufficient(confidence: float = 0.9) -> ScriptedReply:
    return reply(REFLECT, reflection(True, confidence))


def reflection(enough: bool, confidence: float, missing: Sequence[str] = (), search: Sequence[str] = ()) -> Any:
    return {
        "is_sufficient": enough,
        "confidence": confidence,
        "missing_aspects": missing,
        "refinement_suggestions": search,
    }


def no_plan() -> ScriptedReply:
    return reply(PLAN, {"actions": []})


def sentences(*written: tuple[str, list[str]]) -> Any:
    return {"sentences": [{"text": text, "sources": sources} for text, sources in written]}


Run = Callable[..., Any]


@pytest.fixture
def run(memory: Any) -> Run:
    """Research `query` in an archive of `pages` on a mind."""

    class Remembering(memory):
        async def page_headers(self, page_ids: Sequence[str], call: RequestContext) -> list[PageHeader]:
            return [
                PageHeader(session_id="", tenant_id="local", sequence=0, created_at="", memo_snapshot=f"memo of {one}")
                for one in page_ids
            ]

    async def research(
        pages: Sequence[Any],
        query: str,
        mind: Mind | None,
        limits: Limits = LIMITS,
        call: RequestContext | None = None,
        duties: frozenset[str] | None = None,
    ) -> Told:
        archive = pages if isinstance(pages, memory) else Remembering(pages)
        keeps, events = LastTrail(), list[tuple[str, dict[str, Any]]]()
        thinker = Thinker(mind, limits, CLOCK, CONFIG.max_pages, lambda _: duties) if mind is not None else None
        result = await Researcher(archive, CLOCK, CONFIG, keeps).research(
            ResearchRequest(query=query),
            call or RequestContext(),
            lambda name, data: events.append((name, data)),
            thinker=thinker,
        )
        return Told(result, events, keeps.trail)

    research.archive = Remembering  # type: ignore[attr-defined]
    return research
