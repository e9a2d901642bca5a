"""JIT's memory API: sessions are handed over and become pages, briefings are built from them just in time.

A part of the one door, `service`. Everything stays inside `call.tenant`; with `memory.gam_enabled` off both refuse, and
nothing else of the memory changes.
"""

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing.conversation_store import without_injected
from gaiad.archive.storing.handed_over import (
    must_be_labelled,
    must_say_something,
    only_new,
    session_id_of,
    session_turns,
)
from gaiad.base.clock import Clock
from gaiad.base.config import Config, ResearchConfig
from gaiad.base.errors import BadInput, NotFound, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.metrics import Metrics
from gaiad.base.ports import Audit, Priority, RequestContext, Tokenizer
from gaiad.base.tasks import TaskGroup, WorkUnderWay
from gaiad.research.briefing import BriefingArchive, BriefingPage, Draft, briefing, draft, named_page
from gaiad.research.evidence import written_by_gaiad
from gaiad.research.loop import Researcher
from gaiad.research.trail import Trail
from gaiad.service.research import ResearchService
from gaiad.wire.memory import (
    PAGES_MOST,
    REFLECTIONS_MOST,
    BriefingContext,
    BuildContext,
    IngestedPage,
    IngestedSession,
    IngestSession,
    SessionTurn,
)
from gaiad.wire.schemas import ForgetReport, ForgetRequest, Forgotten, ResearchRequest, SearchRequest, SearchResponse

_log = get_logger("gaiad.memory")
_PAGES_AT_ONCE = 1000
_AGENT_SESSIONS = 200  # of the sessions last spoken in, those of the agent are preferred
_PAGE_ID = re.compile(r"\b[0-9a-f]{16}-[0-9]{4,}\b")
_OFF_FOR_S = 60.0


class MemoryApi:
    """`config` gives the settings in force, `tokenizer` what briefings are counted with, `runs` the researcher's."""

    def __init__(
        self,
        archive: LocalArchive,
        clock: Clock,
        metrics: Metrics,
        config: Callable[[], Config],
        tokenizer: Callable[[], Tokenizer],
        runs: Callable[[], ResearchService],
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._metrics = metrics
        self._config = config
        self._tokenizer = tokenizer
        self._runs = runs

    def require_enabled(self) -> None:
        """Raise Unavailable while `memory.gam_enabled` is off (JIT: the routes answer 503)."""
        if not self._config().memory.gam_enabled:
            raise Unavailable(
                "the memory API is off; start gaiad with MEMORY_GAM_ENABLED=true or set memory.gam_enabled", _OFF_FOR_S
            )

    async def ingest_session(self, request: IngestSession, call: RequestContext) -> IngestedSession:
        """Keep a session's turns, durable and searchable by their words at once; the same again changes nothing.

        Of a session that has grown and is handed over whole, only what is new is kept; it has the session's labels
        too. What gaiad's prompts and MCP fenced is left out; what `memory.exclude` keeps from this API is not in the
        memo. Raises Unavailable while off, BadInput, PacketRejected, Conflict (also for labels that turns kept before
        do not have); then nothing is kept.
        """
        self.require_enabled()
        began = self._clock.monotonic()
        request = _said_by_others(request)
        must_say_something(request)
        session_id = session_id_of(request)
        known = await self._known(session_id, call.seeing_all())
        fresh, repeated = only_new(msgspec.structs.replace(request, session_id=session_id), known)
        turns = session_turns(fresh) if fresh.turns else []
        given = {turn.turn_id for turn in turns}
        must_be_labelled(request, [*repeated, *(turn for turn in known if turn.turn_id in given)])
        kept = await self._archive.remember_turns(turns, call, as_session=True)
        packet_ids = frozenset([*(turn.turn_id for turn in repeated), *kept])
        reader = call.without(*self._config().memory.hidden_from("memory_api"))
        memo = await self._archive.session_memo(session_id, reader)
        pages = await self._pages(session_id, packet_ids, call)
        self._metrics.observe_ms("gam_ingest_latency_ms", (self._clock.monotonic() - began) * 1000)
        return IngestedSession(session_id=session_id, memo=memo, pages=pages)

    async def _known(self, session_id: str, call: RequestContext) -> list[SessionTurn]:
        """What is kept of the session, in order."""
        known: list[SessionTurn] = []
        try:
            while found := await self._archive.session_turns(session_id, call, known[-1].sequence if known else -1):
                known += found
        except NotFound:  # a tenant that nothing was kept in yet
            return []
        return known

    async def _pages(self, session_id: str, packet_ids: frozenset[str], call: RequestContext) -> list[IngestedPage]:
        """Those of the session's pages that are of these packets, in order."""
        kept: list[IngestedPage] = []
        after = -1
        while found := await self._archive.session_pages(session_id, call, after, _PAGES_AT_ONCE):
            kept += [
                IngestedPage(id=page.id, sequence=page.sequence, header=page.header)
                for page in found
                if page.metadata["packet_id"] in packet_ids
            ]
            after = found[-1].sequence
        return kept

    async def build_context(self, request: BuildContext, call: RequestContext) -> BriefingContext:
        """What the memory has for a request, within its budgets, by rules or with the model of `memory.model`.

        Its run is kept with `memory.keep_runs`, after the answer.

        Raises Unavailable while off and for mode dense without vectors, BadInput, DeadlineExceeded, Cancelled.
        """
        self.require_enabled()
        if not request.request.strip():
            raise BadInput("`request` is empty; describe what the briefing is for")
        began = self._clock.monotonic()
        named, unknown = await self._named(request, call)
        most = min(request.budgets.max_pages, PAGES_MOST)
        seen = _Seen(self._runs().new_id() if self._config().memory.keep_runs else "")
        drafted, looked = await self._drafted(request, most, seen, call)
        pages = _together(named, drafted.pages)[:most]
        whole: Draft = msgspec.structs.replace(drafted, pages=tuple(pages), questions=(*unknown, *drafted.questions))
        page_ids = [page.page_id for page in pages]
        headers = await self._archive.page_headers(page_ids, call) if page_ids else []
        by_id = dict(zip(page_ids, headers, strict=True))
        built = await briefing(whole, by_id, request.budgets.max_output_tokens, self._tokenizer(), call)
        if seen.trail is not None and seen.trail.research_id:
            self._runs().keep_later(seen.trail, call)
        took_ms = (self._clock.monotonic() - began) * 1000
        self._account(built, looked, len(named), seen.research_id, call, took_ms)
        return built

    async def _named(self, request: BuildContext, call: RequestContext) -> tuple[list[BriefingPage], list[str]]:
        """The pages that the request names by id, and an open question for each that this tenant does not have."""
        named, unknown = list[BriefingPage](), list[str]()
        for page_id in dict.fromkeys(_PAGE_ID.findall(request.request)):
            try:
                named += [named_page(page) for page in await self._archive.pages([page_id], call)]
            except NotFound:
                unknown.append(f"No page {page_id} in tenant {call.tenant}.")
        return named, unknown

    async def _drafted(
        self, request: BuildContext, most: int, seen: "_Seen", call: RequestContext
    ) -> tuple[Draft, BriefingArchive | None]:
        """What a research run has to tell, and the archive as it looked at it; None where there was nothing."""
        question = _PAGE_ID.sub(" ", request.request)
        if not question.strip():  # page ids alone
            return Draft(), None
        try:
            view = BriefingArchive(
                self._archive, request.mode, await self._preferred(request, call), await self._names(request, call)
            )
        except NotFound:  # a tenant that nothing was kept in yet
            return Draft(questions=(request.request,)), None
        researcher = Researcher(view, self._clock, self._limits(request, most), seen)
        role = self._config().memory.model
        thinker = self._runs().thinker(role) if role else None
        asked = ResearchRequest(query=question, tenant=call.tenant)
        result = await researcher.research(asked, call, thinker=thinker)
        assert seen.trail is not None
        return draft(seen.trail, result, view.hits, most), view

    def _limits(self, request: BuildContext, most: int) -> ResearchConfig:
        depth = min(request.budgets.max_reflection_depth, REFLECTIONS_MOST)
        return msgspec.structs.replace(self._config().research, max_iterations=depth, max_pages=most, max_sources=most)

    async def _preferred(self, request: BuildContext, call: RequestContext) -> list[str]:
        """The sessions whose pages rank higher: the one asked in, then those of the agent. Raises NotFound."""
        sessions = await self._archive.sessions(call, _AGENT_SESSIONS if request.agent_id else 0)
        agents = [each.session_id for each in sessions if each.agent_id == request.agent_id]
        return list(dict.fromkeys(filter(None, (request.session_id, *agents))))

    async def _names(self, request: BuildContext, call: RequestContext) -> list[str]:
        """The names in the session's latest memo that has any: what is being spoken of."""
        memos = await self._archive.session_memos(request.session_id, call) if request.session_id else []
        return next((memo.names for memo in reversed(memos) if memo.names), [])

    def _account(
        self,
        built: BriefingContext,
        view: BriefingArchive | None,
        named: int,
        research_id: str,
        call: RequestContext,
        took_ms: float,
    ) -> None:
        """JIT's metrics and a line for each run."""
        metrics = self._metrics
        metrics.observe_ms("gam_build_context_latency_ms", took_ms)
        metrics.count("gam_pages_used", built.pages_used)
        metrics.count("gam_reflection_steps", built.reflection_steps)
        metrics.count("gam_context_tokens_out", built.tokens_used)
        for tool, hits in {**(view.hits_by_tool() if view else {}), "page_id": named}.items():
            metrics.count(f'gam_retrieval_hits_total{{tool="{tool}"}}', hits)
        _log.info(
            "context_built",
            tenant=call.tenant,
            pages=built.pages_used,
            tokens=built.tokens_used,
            searches=view.searches if view else 0,
            research_id=research_id,
            took_ms=round(took_ms, 2),
        )


def _together(named: Sequence[BriefingPage], found: Sequence[BriefingPage]) -> list[BriefingPage]:
    """Named pages first, with the facts found on them; each page once."""
    facts = {page.page_id: page.facts for page in found}
    first = [msgspec.structs.replace(page, facts=facts.get(page.page_id, ())) for page in named]
    return [*first, *(page for page in found if page.page_id not in {each.page_id for each in named})]


class _Seen:
    """A Recorder that holds the run for the briefing."""

    def __init__(self, research_id: str) -> None:
        self.research_id = research_id
        self.trail: Trail | None = None

    def new_id(self) -> str:
        return self.research_id

    async def keep(self, trail: Trail, call: RequestContext) -> str:
        self.trail = trail
        return ""


_forget_log = get_logger("gaiad.forget")
_EXPIRED_AT_ONCE = 2000


class ForgetService:
    """Deletes from the archive, and files in the inbox that would bring the same back."""

    def __init__(
        self,
        archive: LocalArchive,
        audit: Audit,
        ids: IdMaker,
        inbox: Path,
        forgotten: Sequence[Callable[[], None]],
        under_way: WorkUnderWay | None = None,
    ) -> None:
        """`forgotten` are called after a deletion, so that nobody answers from memory what is gone.

        What `under_way` has read before, it may write later: that is deleted when it has ended.
        """
        self._under_way = under_way or WorkUnderWay()
        self._tasks = TaskGroup("forget")
        self._forgotten = forgotten
        self._archive = archive
        self._audit = audit
        self._ids = ids
        self._inbox = inbox

    async def expire(self, days_of: Mapping[str, int]) -> None:
        """Delete what is older than its tenant's days; it can be put back as what a person deletes."""
        for tenant in await asyncio.to_thread(self._archive.tenants):
            if days := days_of.get(tenant, 0):
                call = RequestContext(tenant, priority=Priority.BACKGROUND)
                old = await self._archive.deletion.expired(days, call)
                for start in range(0, len(old), _EXPIRED_AT_ONCE):
                    await self._forget_expired(old[start : start + _EXPIRED_AT_ONCE], call)

    async def _forget_expired(self, packet_ids: Sequence[str], call: RequestContext) -> None:
        try:
            await self.forget(ForgetRequest(packet_ids=list(packet_ids)), call, actor="retention")
        except NotFound as error:  # it went with what it quotes; the rest goes tomorrow
            _forget_log.info("expired_before", tenant=call.tenant, reason=error.message)

    async def forget(self, request: ForgetRequest, call: RequestContext, actor: str = "person") -> ForgetReport:
        """Delete what `request` names with everything that quotes it; the audit keeps a row without content.

        Raises BadInput, NotFound, Unavailable.
        """
        forget_id, gone = self._ids.make("fgt"), set[str]()
        report = await self._archive.deletion.forget(request, forget_id, call, gone)
        if request.dry_run:
            return report
        self._let_go()
        self._tasks.start("look again", self._look_again(gone, forget_id, call.tenant, keep=not request.now))
        body = {"forget_id": forget_id, "packets": report.packets, "quoting_turns": report.quoting_turns}
        await self._audit.append("memory.forgotten", actor, {**body, "log_entries": report.log_entries}, call)
        removed = await asyncio.to_thread(self._remove_files, report.sources)
        return msgspec.structs.replace(report, removed_files=removed)

    def _let_go(self) -> None:
        for let_go in self._forgotten:
            let_go()

    async def _look_again(self, gone: Collection[str], forget_id: str, tenant: str, *, keep: bool) -> None:
        if await self._under_way.ended():
            await self._archive.deletion.forget_late(gone, forget_id, RequestContext(tenant), keep=keep)
            self._let_go()

    async def close(self) -> None:
        """Wait until what was under way at a deletion has ended and is deleted too."""
        await self._tasks.wait()

    async def undo(self, forget_id: str, call: RequestContext) -> int:
        """How many packets came back. Raises NotFound."""
        restored = await self._archive.deletion.undo(forget_id, call)
        await self._audit.append("memory.restored", "person", {"forget_id": forget_id, "packets": restored}, call)
        return restored

    async def undoable(self, call: RequestContext) -> list[Forgotten]:
        """Deletions that can be undone, newest first."""
        return await self._archive.deletion.undoable(call)

    def _remove_files(self, sources: list[str]) -> list[str]:
        removed = []
        for source in sources:
            path = Path(source)
            if not path.is_relative_to(self._inbox) or not path.is_file():
                continue
            try:
                path.unlink()
                removed.append(source)
            except OSError as error:
                _forget_log.warning("inbox_file_not_removed", path=source, reason=str(error))
        return removed


_SPARE_HITS, _MOST_HITS = 20, 1000  # asked for in place of those that are left out


async def search(archive: LocalArchive, request: SearchRequest, call: RequestContext) -> SearchResponse:
    """Pages for a query; those that gaiad wrote itself only where they are asked for. Raises as the archive does."""
    if request.include_chats or request.mode == "page_id":
        return await archive.search(request, call)
    limit = request.limit
    if 1 <= limit <= _MOST_HITS:  # with room for what is left out; any other limit is refused by the archive
        request = msgspec.structs.replace(request, limit=min(2 * limit + _SPARE_HITS, _MOST_HITS))
    response = await archive.search(request, call)
    hits = [hit for hit in response.hits if not written_by_gaiad(hit.packet_id, hit.speaker)]
    return msgspec.structs.replace(response, hits=hits[:limit])


def _said_by_others(request: IngestSession) -> IngestSession:
    """The session without what gaiad put into its turns, and without turns that held nothing else."""
    cleaned = [msgspec.structs.replace(turn, content=without_injected(turn.content)) for turn in request.turns]
    kept = [turn for turn, given in zip(cleaned, request.turns, strict=True) if turn.content.strip() or turn == given]
    return msgspec.structs.replace(request, turns=kept)
