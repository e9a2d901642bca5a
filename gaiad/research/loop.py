"""The researcher (GAM): a question to one archive, answered by quoting it; the loop itself is `one_run`."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.config import ResearchConfig
from gaiad.base.events import OnEvent
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.answering import Answerer
from gaiad.research.one_run import Listens, Partials, Run, must_be_askable
from gaiad.research.thinking.by_model import Thinker
from gaiad.research.thinking.steps import ByRules
from gaiad.research.trail import Recorder, Trail, keep_broken_off, kept
from gaiad.research.unit_index import UnitShelf
from gaiad.wire.schemas import PacketFilter, ResearchRequest, ResearchResult

PAGES_CAP = 32
"""Of pages in an answer, whatever is asked for (JIT)."""


def _nobody() -> bool:
    return False


class Researcher:
    """Answers questions from one archive by quoting it; holds no state between questions. `recorder` keeps the runs."""

    def __init__(
        self,
        archive: Archive,
        clock: Clock,
        config: ResearchConfig,
        recorder: Recorder | None = None,
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._config = config
        self._recorder = recorder
        self._shelf = UnitShelf()

    def use_config(self, config: ResearchConfig) -> None:
        """From the next run on."""
        self._config = config

    async def must_be_askable(self, request: ResearchRequest, call: RequestContext) -> None:
        """Raise what `research` would before it looked for anything: BadInput, NotFound for a tenant that is not."""
        must_be_askable(request, self._clock)
        await self._archive.list_packets(PacketFilter(filters=request.filters, tenant=call.tenant, limit=1), call)

    async def research(
        self,
        request: ResearchRequest,
        call: RequestContext,
        on_event: OnEvent | None = None,
        passed_over: Collection[str] = frozenset(),
        *,
        keep: bool = True,
        research_id: str = "",
        goes_on: bool = False,
        listens: Listens = _nobody,
        thinker: Thinker | None = None,
    ) -> ResearchResult:
        """Research one question. `on_event(name, data)` hears searching, found, integrated, reflected, synthesizing.

        While `listens()` it hears `partial` too: after a round that is not the last, the best answer so far.

        `passed_over` are packet ids that whoever asks has before him anyway: they are no evidence, nor do they take
        the place of any. With `keep` false nothing of the run is kept; `research_id` is the id it is kept by, "" for a
        new one. A run that `goes_on` leaves nothing behind when its task is cancelled: it will be run again.
        With a `thinker` its model plans, reflects and writes; without one the rules do.

        Raises BadInput for an empty or too long question or a bad `now`, Cancelled, DeadlineExceeded, and what the
        archive raises.
        """
        started = self._clock.monotonic()
        must_be_askable(request, self._clock)
        recorder = self._recorder if keep else None
        trail = Trail((research_id or recorder.new_id()) if recorder else "", request, call.tenant, self._clock)
        tell = on_event or _ignore
        steps = ByRules() if thinker is None else thinker.begin(self._archive, call, trail, tell, passed_over)
        partials = Partials(self._archive, call, tell, listens)
        limits = within_request(self._config, request)
        answerer = Answerer(self._shelf)
        run = Run(
            self._archive, self._clock, limits, request, call, tell, passed_over, trail, steps, partials, answerer
        )
        try:
            answer = await run.answer()
        except (asyncio.CancelledError, Exception) as error:
            await keep_broken_off(recorder, trail, error, call, goes_on=goes_on)
            raise
        took_ms = round((self._clock.monotonic() - started) * 1000, 3)
        return await kept(recorder, trail, answer.result(run.max_iterations, took_ms), call)


def _ignore(_name: str, _data: dict[str, Any]) -> None:
    """For callers that do not listen."""


def within_request(config: ResearchConfig, request: ResearchRequest) -> ResearchConfig:
    """The settings with the run's own budgets: iterations within `max_iterations`, pages within `PAGES_CAP`."""
    asked, pages = request.max_iterations, request.max_pages
    return msgspec.structs.replace(
        config,
        max_iterations=min(asked, config.max_iterations) if asked > 0 else config.max_iterations,
        max_pages=min(pages, PAGES_CAP) if pages > 0 else config.max_pages,
    )
