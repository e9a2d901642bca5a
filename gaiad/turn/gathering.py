"""What a turn needs before any packet is made: the persona in force, what the archive says, what is to be warned of.

Whether a message needs the archive is decided here (GAM, Integration Point 2). What a persona may do bounds the look:
without the grant `research` it is one search. No model that writes is asked, but for the reading of a new persona.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec import structs

from gaiad.base.clock import Clock
from gaiad.base.errors import BadInput, DeadlineExceeded, NotFound, Unavailable
from gaiad.base.events import OnEvent
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.evidence import CHAT_TURN, only_tells, own_words
from gaiad.research.familiar import familiar, history_need, names_asked_about, telling
from gaiad.research.loop import Researcher
from gaiad.research.one_run import QUERY_MAX_CHARS
from gaiad.research.reflect import nothing_then
from gaiad.research.words import stems
from gaiad.turn.prompt_factory import Names, PromptFactory
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import HistoryNote
from gaiad.wire.memory import PageHeader, SessionTurn
from gaiad.wire.schemas import Page, ResearchRequest, ResearchResult, SearchRequest
from prompts.packet import CognitionPacket, ContextItem
from prompts.persona_review import PersonaFinding, refusal, review_persona
from prompts.persona_verdicts import INSTRUCTION_KEY, PersonaVerdicts
from prompts.registry import Registry, RegistryWatch

CHOSEN_PERSONA, CHOSEN_PROJECT = "chosen_persona", "chosen_project"  # in a turn's metadata
EXECUTE_GRANT = "shell_with_approval"  # constants/grants.toml
_REVIEW_SHARE = 0.25  # of the turn's time, for judging a persona
_NEAR_HITS, _NEAR_PAGES = 8, 2
RESEARCH = "research"  # the grant (constants/grants.toml)
_STANDING_CHARACTERS = 1.5  # of history for each token of the MTU: fewer than fit beside context, so that they do stand


class Labels(NamedTuple):
    """JIT's classification and policy tags of a turn."""

    classification: list[str]
    policy_tags: list[str]


class Gathered(NamedTuple):
    """Everything of a turn that is the same for all its packets, whichever model they go to.

    `registry` is as it was when the turn began. `found` is the research run, None when the archive was not asked;
    `needed` says whether the message asked for it. `by_name` is as in `Recalled`. `persona` is the one in force,
    `chosen_persona` the one a person chose, now or before in the session, `chosen_project` likewise; "" when none was.
    `may_execute` says whether the persona lets Act propose commands (EXECUTE). `labels` are those of what it is given.
    `unasked` is where a dry run notes what models would be asked, None in a real turn.
    """

    request: ChatRequest
    names: Names
    turns: list[SessionTurn]
    registry: Registry
    persona: str
    chosen_persona: str
    chosen_project: str
    note: HistoryNote
    needed: bool
    found: ResearchResult | None
    context: list[ContextItem]
    by_name: Sequence[ContextItem]
    notes: list[str]
    may_execute: bool
    unasked: list[str] | None
    took_ms: float
    labels: Labels


class Gatherer:
    """One for the daemon."""

    def __init__(
        self, factory: PromptFactory, archive: Archive, researcher: Researcher, clock: Clock, *, by_meaning: bool
    ) -> None:
        """`by_meaning` is whether there is an embedder: without one a search by words is all that is expected."""
        self._factory = factory
        self._by_meaning = by_meaning
        self._recall = Recall(archive, researcher, clock)
        self._clock = clock
        self._verdicts = PersonaVerdicts(clock)

    async def gather(
        self,
        request: ChatRequest,
        names: Names,
        turns: list[SessionTurn],
        call: RequestContext,
        on_event: OnEvent,
        *,
        judges: bool = True,
        dry_run: bool = False,
    ) -> Gathered:
        """`on_event` hears of the research as it happens; with `judges` Prime's model reads a new persona. Raises
        BadInput, NotFound, Unavailable."""
        started = self._clock.monotonic()
        factory = self._factory
        factory.refresh()
        registry = factory.registry
        notes: list[str] = []
        chosen = request.persona or _chosen_before(turns, CHOSEN_PERSONA)
        project = request.project or _chosen_before(turns, CHOSEN_PROJECT)
        persona = _persona(request, chosen, project, factory.watch, notes)
        grants = registry.grants(persona)
        quotes_only = factory.pool.kind_of(factory.pool.name_of(role=request.role)) == "extractive"
        standing = standing_turns(turns, request.mtu or factory.config.mtu)
        note, needed, found, near, by_name = await self._recall.look(
            request,
            standing,
            quotes_only=quotes_only,
            several=RESEARCH in grants,
            call=call,
            on_event=on_event,
            keep=not dry_run,
        )
        notes += [] if RESEARCH in grants else one_search_note(persona, found)
        notes += missing_notes(found)
        notes += degraded_notes(found) if self._by_meaning else []
        context = await self._recall.context(found, factory.config.context_pages, call) or [*near]
        labels = await self._recall.labels(found, [*near, *by_name], turns, call)
        unasked = notes if dry_run else None
        notes += await self._review(registry, persona, names, bool(request.persona), judges, unasked, call)
        return Gathered(
            request=request,
            names=names,
            turns=turns,
            registry=registry,
            persona=persona,
            chosen_persona=chosen,
            chosen_project=project,
            note=note,
            needed=needed,
            found=found,
            context=context,
            by_name=by_name,
            notes=notes,
            may_execute=EXECUTE_GRANT in grants,
            unasked=unasked,
            took_ms=(self._clock.monotonic() - started) * 1000,
            labels=labels,
        )

    async def _review(
        self,
        registry: Registry,
        persona: str,
        names: Names,
        asked_for: bool,
        judges: bool,
        unasked: list[str] | None,
        call: RequestContext,
    ) -> list[str]:
        """What a reading of the persona warns of. Raises BadInput when it works against identity (GCP 3.3)."""
        work = f"whether the persona {persona!r} works against identity"
        judge = self._factory.writing("prime", INSTRUCTION_KEY, work, names, unasked) if judges else None
        try:
            part = call.share(_REVIEW_SHARE, self._clock.monotonic())
            findings = await self._verdicts.findings(registry, persona, judge, part, dry_run=unasked is not None)
        except (Unavailable, BadInput, DeadlineExceeded) as error:
            call.check(self._clock.monotonic())
            seen = review_persona(registry.persona(persona), registry.identity)
            return [f"persona {persona!r} was not judged: {error.message}", *_said(persona, seen)]
        if refused := refusal(persona, findings):
            raise BadInput(refused if asked_for else f"{refused}; choose another with --persona")
        return _said(persona, findings)


def _said(persona: str, findings: list[PersonaFinding]) -> list[str]:
    return [f"persona {persona!r}, rule {finding.rule}: {finding.reason}" for finding in findings]


def _chosen_before(turns: list[SessionTurn], what: str) -> str:
    """What a person chose last in the session; every turn since carries it on. "" when nobody did."""
    return next((str(chosen) for turn in reversed(turns) if (chosen := turn.metadata.get(what))), "")


def _persona(request: ChatRequest, chosen: str, project: str, registry: RegistryWatch, notes: list[str]) -> str:
    """The one asked for, else the one chosen before as long as there is one of that name; a lost one is noted."""
    try:
        return registry.persona_in_force(chosen, project)
    except (NotFound, BadInput) as error:
        if request.persona:
            raise
        notes.append(f"the session's persona is not used: {error.message}")
        return registry.persona_in_force("", project)


class Recalled(NamedTuple):
    """`found` is None when the archive was not asked, or was asked in vain about a message that did not ask for it;
    `needed` says whether it did. `near` are pages that speak of the same without answering, `by_name` those that only
    name what is asked about; no model reads these.
    """

    note: HistoryNote
    needed: bool
    found: ResearchResult | None
    near: Sequence[ContextItem] = ()
    by_name: Sequence[ContextItem] = ()


class Recall:
    """One for the daemon; it holds nothing between turns."""

    def __init__(self, archive: Archive, researcher: Researcher, clock: Clock) -> None:
        self._archive = archive
        self._researcher = researcher
        self._clock = clock

    async def look(
        self,
        request: ChatRequest,
        standing: frozenset[str],
        *,
        quotes_only: bool,
        several: bool,
        call: RequestContext,
        on_event: OnEvent,
        keep: bool = True,
    ) -> Recalled:
        """Ask the archive when the message needs it; for a model that only quotes always. `several` searches, or one.
        Who only tells something wants no answer from it: what bears on that is named below the reply (`Surfacing`).

        `standing` are the turns that the model reads anyway; they are not looked for. `on_event` is called at once with
        everything the research tells; with `keep` false the run is not kept. Raises as Researcher.research.
        """
        asked = _asked(request.message)
        try:
            facets = await self._archive.facets(call)
        except NotFound:  # a tenant that nobody has spoken in yet
            return Recalled(HistoryNote(sought=False, why="no conversation is stored yet"), False, None)
        if only_tells(asked) and not quotes_only:
            return Recalled(HistoryNote(sought=False, why=""), False, None)
        why = history_need(asked, facets, self._clock.now(), self._clock.zone)
        needed = bool(why)
        if quotes_only:  # it reads no history
            why, standing = why or "without a model that writes an answer is quotes", frozenset()
        elif not why:
            known = await familiar(self._archive, asked, standing, call)
            why = f"speaks of what the archive holds: {', '.join(known)}" if known else ""
        if not why:
            note = HistoryNote(sought=False, why="")
            return Recalled(note, False, None, by_name=await self._by_name(asked, standing, call))
        searches = 0 if several else 1  # 0 is as set
        question = ResearchRequest(query=asked, tenant=call.tenant, now=request.now, max_iterations=searches)
        found = await self._researcher.research(question, call, on_event, standing, keep=keep)
        note = HistoryNote(sought=True, why=why, research_id=found.research_id)
        near = [] if found.citations or quotes_only else await self._near(asked, standing, call)
        by_name = [] if found.citations or quotes_only or near else await self._by_name(asked, standing, call)
        if not (needed or quotes_only or found.citations):
            return Recalled(note, False, None, near, by_name)
        note = structs.replace(note, status=found.status, packets=found.source_packets)
        return Recalled(note, needed, found, near, by_name)

    async def _near(self, asked: str, standing: Collection[str], call: RequestContext) -> list[ContextItem]:
        """The best pages that have what the message can be known by, so that a model can say what they do not tell."""
        told = telling(asked)
        hits = (await self._archive.search(SearchRequest(query=asked, limit=_NEAR_HITS, tenant=call.tenant), call)).hits
        wanted = [hit.page_id for hit in hits if hit.packet_id not in standing]
        pages = await self._archive.pages(wanted, call) if wanted else []
        known = [page for page in pages if not page.packet_id.startswith(CHAT_TURN) and told.shown_by(page)]
        return [_item(page) for page in known[:_NEAR_PAGES]]

    async def _by_name(self, asked: str, standing: Collection[str], call: RequestContext) -> list[ContextItem]:
        """Pages that have every name of a question."""
        if not (names := names_asked_about(asked)):
            return []
        request = SearchRequest(query=" ".join(names), mode="bm25", limit=_NEAR_HITS, tenant=call.tenant)
        hits = (await self._archive.search(request, call)).hits
        wanted = [hit.page_id for hit in hits if hit.packet_id not in standing]
        pages = await self._archive.pages(wanted, call) if wanted else []
        known = [page for page in pages if not page.packet_id.startswith(CHAT_TURN) and names <= stems(page.text)]
        return [_item(page) for page in known[:_NEAR_PAGES]]

    async def context(self, found: ResearchResult | None, pages: int, call: RequestContext) -> list[ContextItem]:
        """The pages the research cites, best first, `pages` at most."""
        if found is None:
            return []
        cited = dict.fromkeys(citation.page_id for citation in found.citations)
        return [_item(page) for page in await self._archive.pages(list(cited)[:pages], call)]

    async def labels(
        self,
        found: ResearchResult | None,
        near: Sequence[ContextItem],
        turns: Sequence[SessionTurn],
        call: RequestContext,
    ) -> Labels:
        """What is to be said of a turn that is given what was found and this history (`labels_of`).

        All of it counts and not its context alone: an answer that only quotes says everything that was found.
        """
        shown = await self._archive.page_headers([item.page_id for item in near], call) if near else []
        if found is None:
            return labels_of([*shown, *turns], call.guarded)
        pages = dict.fromkeys(citation.page_id for citation in found.citations)
        cited = {citation.packet_id for citation in found.citations}
        for packet in found.sources:  # a list also names packets that it does not quote
            if packet.packet_id not in cited:
                its = await self._archive.section_pages(packet.packet_id, "full_context", call)
                pages.update((page.page_id, None) for page in its[:1])
        headers = await self._archive.page_headers(list(pages), call) if pages else []
        return labels_of([*shown, *headers, *turns], call.guarded)


def _item(page: Page) -> ContextItem:
    return ContextItem(
        packet_id=page.packet_id,
        page_id=page.page_id,
        text=page.text,
        timestamp=page.timestamp,
        topic=page.topic,
        own=own_words(page),
    )


def labels_of(given: Sequence[PageHeader | SessionTurn], guarded: Collection[str]) -> Labels:
    """What is to be said of a turn that is given all this: whatever holds of any of it.

    A tag is handed on as a policy tag where a channel does not see it: the words of a page may stand in the answer.
    """
    kept_back = {label.casefold() for label in guarded}
    tags = [tag for each in given for tag in each.tags if tag.casefold() in kept_back]
    return Labels(
        list(dict.fromkeys(label for each in given for label in each.classification)),
        list(dict.fromkeys([*(label for each in given for label in each.policy_tags), *tags])),
    )


def standing_turns(turns: Sequence[SessionTurn], mtu: int) -> frozenset[str]:
    """The ids of those last turns that surely stand in the history of a packet of `mtu` tokens."""
    left = mtu * _STANDING_CHARACTERS
    standing = set()
    for turn in reversed(turns):
        left -= len(turn.user) + len(turn.answer)
        if left < 0:
            break
        standing.add(turn.turn_id)
    return frozenset(standing)


def pages_that_stay(previous: CognitionPacket | None) -> list[ContextItem]:
    """The pages of the session's last packet, for a turn that asks for no others (decision 6)."""
    return [item for item in previous.context if not item.summary] if previous else []


def missing_notes(found: ResearchResult | None) -> list[str]:
    """What an answer does not cover, for the person; of NOT_FOUND, only that the passage shown is of another time."""
    if found is None or not (found.status == "PARTIAL" or (found.status == "NOT_FOUND" and found.source_packets)):
        return []
    when = str(found.parameters.get("date_text", ""))
    then = nothing_then(when)
    notes = (
        [f"nothing was found {when}; what was found is from a different time"] if then in found.missing_aspects else []
    )
    others = [aspect for aspect in found.missing_aspects if aspect != then] if found.status == "PARTIAL" else []
    return [*notes, *([f"missing from what was found: {', '.join(others)}"] if others else [])]


def degraded_notes(found: ResearchResult | None) -> list[str]:
    """What could not take part in the search, for the person."""
    return [f"the archive was searched with less than usual: {reason}" for reason in found.degraded] if found else []


def one_search_note(persona: str, found: ResearchResult | None) -> list[str]:
    """A line when one search did not do and the persona may not make more."""
    if found is None or found.status not in ("PARTIAL", "NOT_FOUND"):
        return []
    return [
        f"persona {persona!r} has one search a turn, and it was not enough; "
        f'give the persona tools = ["{RESEARCH}"] or choose another'
    ]


def _asked(message: str) -> str:
    """What the archive is asked: the message, of a long one its two ends, where questions stand."""
    if len(message) <= QUERY_MAX_CHARS:
        return message
    half = QUERY_MAX_CHARS // 2 - 1
    return f"{message[:half]}\n{message[-half:]}"
