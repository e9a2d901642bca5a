"""JIT's memory API: sessions are handed over and become pages, briefings are built from them just in time.

A part of the one door, `service`. Everything stays inside `call.tenant`; with `memory.gam_enabled` off both refuse, and
nothing else of the memory changes.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from gaiad.archive.archive import LocalArchive
from gaiad.clock import Clock
from gaiad.config import Config
from gaiad.errors import BadInput, Conflict, NotFound, Unavailable
from gaiad.logs import get_logger
from gaiad.memory_schemas import (
    PAGES_MOST,
    REFLECTIONS_MOST,
    BriefingContext,
    BuildContext,
    IngestedPage,
    IngestedSession,
    IngestSession,
    SessionTurn,
    TurnMessage,
)
from gaiad.metrics import Metrics
from gaiad.ports import Call, Tokenizer
from gaiad.research.briefing import Draft, Found, briefing, draft, named_page
from gaiad.research.briefing_archive import BriefingArchive
from gaiad.research.loop import Researcher
from gaiad.research.trail import Trail
from gaiad.schemas import ResearchRequest

_log = get_logger("gaiad.memory")
_TOGETHER = 200  # turns in one packet at most: pages of a packet are each other's surroundings
_PAGES_AT_ONCE = 1000
_AGENT_SESSIONS = 200  # of the sessions last spoken in, those of the agent are preferred
_PAGE_ID = re.compile(r"\b[0-9a-f]{16}-[0-9]{4,}\b")
_OFF_FOR_S = 60.0


class MemoryApi:
    """`config` gives the settings in force, `tokenizer` what briefings are counted with."""

    def __init__(
        self,
        archive: LocalArchive,
        clock: Clock,
        metrics: Metrics,
        config: Callable[[], Config],
        tokenizer: Callable[[], Tokenizer],
    ) -> None:
        self._archive = archive
        self._clock = clock
        self._metrics = metrics
        self._config = config
        self._tokenizer = tokenizer

    def require_enabled(self) -> None:
        """Raise Unavailable while `memory.gam_enabled` is off (JIT: the routes answer 503)."""
        if not self._config().memory.gam_enabled:
            raise Unavailable(
                "the memory API is off; start gaiad with MEMORY_GAM_ENABLED=true or set memory.gam_enabled", _OFF_FOR_S
            )

    async def ingest_session(self, request: IngestSession, call: Call) -> IngestedSession:
        """Keep a session's turns, durable and searchable by their words at once; the same again changes nothing.

        Of a session that has grown and is handed over whole, only what is new is kept. Raises Unavailable while off,
        BadInput, PacketRejected, Conflict (also for labels that turns kept before do not have); then nothing is kept.
        """
        self.require_enabled()
        began = self._clock.monotonic()
        session_id = _session_id(request)
        known = await self._known(session_id, call)
        fresh, repeated = _only_new(msgspec.structs.replace(request, session_id=session_id), known)
        turns = session_turns(fresh) if fresh.turns else []
        given = {turn.turn_id for turn in turns}
        _must_be_labelled(request, [*repeated, *(turn for turn in known if turn.turn_id in given)])
        packet_ids = frozenset([*(turn.turn_id for turn in repeated), *await self._archive.remember_turns(turns, call)])
        memo = await self._archive.session_memo(session_id, call)
        pages = await self._pages(session_id, packet_ids, call)
        self._metrics.observe_ms("gam_ingest_latency_ms", (self._clock.monotonic() - began) * 1000)
        return IngestedSession(session_id=session_id, memo=memo, pages=pages)

    async def _known(self, session_id: str, call: Call) -> list[SessionTurn]:
        """What is kept of the session, in order."""
        known: list[SessionTurn] = []
        try:
            while found := await self._archive.session_turns(session_id, call, known[-1].sequence if known else -1):
                known += found
        except NotFound:  # a tenant that nothing was kept in yet
            return []
        return known

    async def _pages(self, session_id: str, packet_ids: frozenset[str], call: Call) -> list[IngestedPage]:
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

    async def build_context(self, request: BuildContext, call: Call) -> BriefingContext:
        """What the memory has for a request, within its budgets; nothing is kept of the run.

        Raises Unavailable while off and for mode dense without vectors, BadInput, DeadlineExceeded, Cancelled.
        """
        self.require_enabled()
        if not request.request.strip():
            raise BadInput("request is empty; say what the briefing is for")
        began = self._clock.monotonic()
        named, unknown = await self._named(request, call)
        most = min(request.budgets.max_pages, PAGES_MOST)
        drafted, looked = await self._drafted(request, most, call)
        pages = _together(named, drafted.pages)[:most]
        whole: Draft = msgspec.structs.replace(drafted, pages=tuple(pages), questions=(*unknown, *drafted.questions))
        page_ids = [page.page_id for page in pages]
        headers = await self._archive.page_headers(page_ids, call) if page_ids else []
        by_id = dict(zip(page_ids, headers, strict=True))
        built = await briefing(whole, by_id, request.budgets.max_output_tokens, self._tokenizer(), call)
        self._account(built, looked, len(named), call, (self._clock.monotonic() - began) * 1000)
        return built

    async def _named(self, request: BuildContext, call: Call) -> tuple[list[Found], list[str]]:
        """The pages that the request names by id, and an open question for each that this tenant does not have."""
        named, unknown = list[Found](), list[str]()
        for page_id in dict.fromkeys(_PAGE_ID.findall(request.request)):
            try:
                named += [named_page(page) for page in await self._archive.pages([page_id], call)]
            except NotFound:
                unknown.append(f"There is no page {page_id} in tenant {call.tenant}.")
        return named, unknown

    async def _drafted(self, request: BuildContext, most: int, call: Call) -> tuple[Draft, BriefingArchive | None]:
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
        depth = min(request.budgets.max_reflection_depth, REFLECTIONS_MOST)
        limits = msgspec.structs.replace(
            self._config().research, max_iterations=depth, max_pages=most, max_sources=most
        )
        seen = _Seen()
        researcher = Researcher(view, self._clock, limits, seen)
        result = await researcher.research(ResearchRequest(query=question, tenant=call.tenant), call)
        return draft(seen.trail, result, view.hits, most), view

    async def _preferred(self, request: BuildContext, call: Call) -> list[str]:
        """The sessions whose pages rank higher: the one asked in, then those of the agent. Raises NotFound."""
        sessions = await self._archive.sessions(call, _AGENT_SESSIONS if request.agent_id else 0)
        agents = [each.session_id for each in sessions if each.agent_id == request.agent_id]
        return list(dict.fromkeys(filter(None, (request.session_id, *agents))))

    async def _names(self, request: BuildContext, call: Call) -> list[str]:
        """The names in the session's latest memo that has any: what is being spoken of."""
        memos = await self._archive.session_memos(request.session_id, call) if request.session_id else []
        return next((memo.names for memo in reversed(memos) if memo.names), [])

    def _account(
        self, built: BriefingContext, view: BriefingArchive | None, named: int, call: Call, took_ms: float
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
            took_ms=round(took_ms, 2),
        )


def _together(named: Sequence[Found], found: Sequence[Found]) -> list[Found]:
    """Named pages first, with the facts found on them; each page once."""
    facts = {page.page_id: page.facts for page in found}
    first = [msgspec.structs.replace(page, facts=facts.get(page.page_id, ())) for page in named]
    return [*first, *(page for page in found if page.page_id not in {each.page_id for each in named})]


class _Seen:
    """A Recorder that keeps the run for the briefing alone."""

    trail: Trail

    def new_id(self) -> str:
        return ""

    async def keep(self, trail: Trail, call: Call) -> str:
        self.trail = trail
        return ""


def _session_id(request: IngestSession) -> str:
    return request.session_id or f"session_{_digest(msgspec.json.encode(request, order='sorted'))}"


def _only_new(request: IngestSession, known: Sequence[SessionTurn]) -> tuple[IngestSession, Sequence[SessionTurn]]:
    """The session without the turns it opens with that are all that is kept of it, and these; else it as it is."""
    said = [(message.role, message.content) for turn in known for message in turn.messages]
    if not said or [(turn.role, turn.content) for turn in request.turns[: len(said)]] != said:
        return request, ()
    before, new = request.turns[: len(said)], request.turns[len(said) :]
    if new and not new[0].timestamp:  # it follows on
        last = next((turn.timestamp for turn in reversed(before) if turn.timestamp), "")
        new[0] = msgspec.structs.replace(new[0], timestamp=last)
    return msgspec.structs.replace(request, turns=new), known


def _must_be_labelled(request: IngestSession, known: Sequence[SessionTurn]) -> None:
    """Raise Conflict when turns that are kept lack a label they are handed over with: nobody shall believe them so."""
    for turn in known:
        lacking = {*request.classification, *request.policy_tags} - {*turn.classification, *turn.policy_tags}
        if lacking:
            raise Conflict(
                f"session {turn.session_id!r} is kept without the label {min(lacking)!r}, and what is kept keeps its"
                " labels: hand over the new turns alone, or the whole under a new sessionId; what is kept can be hidden"
                " by a label that it has (memory.exclude)"
            )


def session_turns(request: IngestSession) -> list[SessionTurn]:
    """What the session becomes: its turns of one day together, for they are each other's surroundings.

    Ids follow from what is said, so that the same session handed over again is known. Raises BadInput.
    """
    session_id = _session_id(request)
    made = []
    for began, messages in _groups(request):
        words = msgspec.json.encode((session_id, messages), order="sorted")
        made.append(
            SessionTurn(
                session_id=session_id,
                turn_id=f"said_{_digest(words)}",
                messages=messages,
                started_at=began.isoformat() if began else "",
                title=request.title,
                description=request.description,
                agent_id=request.agent_id,
                classification=request.classification,
                policy_tags=request.policy_tags,
                session_metadata=request.metadata,
            )
        )
    return made


def _groups(request: IngestSession) -> Iterator[tuple[datetime | None, list[TurnMessage]]]:
    """Turns of one UTC day, at most `_TOGETHER`, with the time of the first; those without a time follow on."""
    began: datetime | None = None
    group: list[TurnMessage] = []
    for number, turn in enumerate(request.turns):
        moment = _moment(turn.timestamp, number)
        other_day = began is not None and moment is not None and moment.date() != began.date()
        if group and (other_day or len(group) == _TOGETHER):
            yield began, group
            began, group = moment or began, []
        began = began or moment
        group.append(
            TurnMessage(role=turn.role, content=turn.content, timestamp=turn.timestamp, metadata=turn.metadata)
        )
    yield began, group


def _moment(timestamp: str, number: int) -> datetime | None:
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadInput(f"turns[{number}].timestamp = {timestamp!r}: write it as 2025-11-30T15:45:00Z") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
