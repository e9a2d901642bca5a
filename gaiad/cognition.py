"""Makes the Cognition Packet of a turn: the session's history, what the archive says to it, persona, budget (GCP 4).

Nothing is sent from here; a dry run (`gaiad cognition render`) takes the same way as a real turn.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gaiad.chat_schemas import ChatRequest, HistoryNote, Rendering
from gaiad.clock import Clock, to_iso
from gaiad.config import CognitionConfig
from gaiad.errors import BadInput, NotFound, Unavailable
from gaiad.logs import get_logger
from gaiad.memory_schemas import SessionTurn
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled_model import PooledModel
from gaiad.ports import Archive, Call, Embedder
from gaiad.research.history_need import history_need
from gaiad.research.loop import QUERY_MAX_CHARS, Researcher
from gaiad.schemas import ResearchRequest, ResearchResult
from prompts.builder import build
from prompts.compress import BudgetOverrun, Compressor
from prompts.counting import PromptCounter
from prompts.load import load_prompt
from prompts.packet import CognitionPacket, ContextItem, HistoryEntry
from prompts.persona_review import Finding, refusal, review_persona
from prompts.persona_verdicts import PersonaVerdicts
from prompts.registry import Registry, RegistryWatch
from prompts.request import BuildRequest, Built

ACT = "act"
CHOSEN_PERSONA = "chosen_persona"  # in a turn's metadata
_log = get_logger("gaiad.cognition")
OnEvent = Callable[[str, dict[str, Any]], None]


class Names(NamedTuple):
    """What a turn and its packet are called."""

    session_id: str
    turn_id: str
    full_id: str


class Prepared(NamedTuple):
    """A packet ready to be sent. `found` is the research run, None when the archive was not asked; `needed` says
    whether the message asked for it. `persona` is the one in force, `chosen_persona` the one a person chose, now or
    before in the session, "" when none was. `took_ms` is the making of the packet, research included.
    """

    built: Built
    model: PooledModel
    persona: str
    chosen_persona: str
    history: HistoryNote
    found: ResearchResult | None
    needed: bool
    notes: list[str]
    took_ms: float


class Assembler:
    """One for the daemon; `report` hears of every compression (GCP 4.2's TOKEN_BUDGET_OVERRUN)."""

    def __init__(
        self,
        *,
        config: CognitionConfig,
        archive: Archive,
        researcher: Researcher,
        registry: RegistryWatch,
        pool: ModelPool,
        embedder: Embedder | None,
        clock: Clock,
        report: Callable[[BudgetOverrun], None],
    ) -> None:
        self._config = config
        self._archive = archive
        self._researcher = researcher
        self._registry = registry
        self._pool = pool
        self._embedder = embedder
        self._clock = clock
        self._report = report
        self._counter = PromptCounter()
        self._verdicts = PersonaVerdicts()

    async def prepare(
        self,
        request: ChatRequest,
        names: Names,
        turns: list[SessionTurn],
        previous: CognitionPacket | None,
        call: Call,
        on_event: OnEvent,
    ) -> Prepared:
        """The packet for one message. Raises BadInput, NotFound, TokenBudgetError, Unavailable."""
        started = self._clock.monotonic()
        self._refresh()
        registry = self._registry.registry
        model = self._pool.model(self._pool.name_of(role=request.role))
        mtu, reserve, notes = self._sizes(request, model)
        chosen = request.persona or _chosen_before(turns)
        persona = _persona(request, chosen, self._registry, notes)
        note, needed, found = await self._look_back(request, model, call, on_event)
        context = await self._context(found, turns, call)
        notes += await self._review(registry, persona, bool(request.persona), call)
        built = await build(
            BuildRequest(
                full_id=names.full_id,
                turn_id=names.turn_id,
                timestamp=to_iso(self._clock.now()),
                model=model.fingerprint,
                identity=registry.identity_text(),
                persona=registry.persona_text(persona),
                role=request.role,
                role_text=load_prompt(f"role_{request.role}").body.rstrip("\n"),
                task_instruction_key=ACT,
                task_instruction=registry.task_instruction(ACT).text,
                user_prompt=request.message,
                history=_entries(turns),
                context=context,
                previous=previous,
                mtu=mtu,
                reserve_tokens=reserve,
            ),
            model.tokenizer,
            self._compressor(model),
            call,
            self._counter,
        )
        took_ms = (self._clock.monotonic() - started) * 1000
        return Prepared(built, model, persona, chosen, note, found, needed, notes, took_ms)

    def use_config(self, config: CognitionConfig) -> None:
        """Other sizes, from the next turn on."""
        self._config = config

    @property
    def registry(self) -> Registry:
        """Identity, personas and task instructions in force."""
        return self._registry.registry

    def problems(self) -> list[str]:
        """What is wrong with the user's own registry files as they are now, and what in use is suspicious."""
        self._refresh()
        return [f"registry: {said}" for said in (*self._registry.problems, *self._registry.registry.warnings)]

    def _refresh(self) -> None:
        """Take changed registry files up; one that does not fit is logged once, when it is read."""
        reload = self._registry.refresh()
        for problem in reload.problems if reload else ():
            _log.warning("registry not reloaded", file=problem.file, line=problem.line, problem=problem.message)

    def _sizes(self, request: ChatRequest, model: PooledModel) -> tuple[int, int, list[str]]:
        """MTU and the reply's room within the model's context; what the user asked for is never made smaller."""
        mtu, reserve = request.mtu or self._config.mtu, request.max_tokens or self._config.reserve_tokens
        if min(mtu, reserve) < 1:
            raise BadInput(f"mtu {mtu} and max_tokens {reserve}: must be positive; 4096 and 512 are usual")
        if not model.window or mtu + reserve <= model.window:
            return mtu, reserve, []
        if reserve >= model.window:
            raise BadInput(
                f"a reply of {reserve} tokens leaves nothing of {model.name}'s context of {model.window} for the "
                "packet; ask for a shorter one"
            )
        if request.mtu:
            raise BadInput(
                f"an MTU of {mtu} and a reply of {reserve} tokens are more than {model.name}'s context of "
                f"{model.window}; ask for at most {model.window - reserve} with this reply"
            )
        smaller = model.window - reserve
        return smaller, reserve, [f"{model.name}'s context of {model.window} tokens leaves an MTU of {smaller}"]

    async def _look_back(
        self, request: ChatRequest, model: PooledModel, call: Call, on_event: OnEvent
    ) -> tuple[HistoryNote, bool, ResearchResult | None]:
        """Ask the archive when the message needs it; a model that only quotes always does."""
        asked = _asked(request.message)
        try:
            facets = await self._archive.facets(call)
        except NotFound:  # a tenant that nobody has spoken in yet
            return HistoryNote(sought=False, why="nothing is remembered yet"), False, None
        why = history_need(asked, facets, self._clock.now(), self._clock.zone)
        needed = bool(why)
        if model.kind == "extractive":
            why = why or "a model without weights can only quote"
        if not why:
            return HistoryNote(sought=False, why=""), False, None
        question = ResearchRequest(query=asked, tenant=call.tenant, now=request.now)
        found = await self._researcher.research(question, call, on_event)
        note = HistoryNote(sought=True, why=why, status=found.status, packets=found.source_packets)
        return note, needed, found

    async def _context(self, found: ResearchResult | None, turns: list[SessionTurn], call: Call) -> list[ContextItem]:
        """The pages the research cites, best first, but for turns that stand in the history anyway."""
        if found is None:
            return []
        said = {turn.turn_id for turn in turns}
        cited = dict.fromkeys(c.page_id for c in found.citations if c.packet_id not in said)
        pages = await self._archive.pages(list(cited)[: self._config.context_pages], call)
        return [
            ContextItem(
                packet_id=page.packet_id,
                page_id=page.page_id,
                text=page.text,
                timestamp=page.timestamp,
                topic=page.topic,
            )
            for page in pages
        ]

    async def _review(self, registry: Registry, persona: str, asked_for: bool, call: Call) -> list[str]:
        """What a reading of the persona warns of. Raises BadInput when it works against identity (GCP 3.3)."""
        prime = self._pool.model(self._pool.name_of(role="prime"))
        judge = None if prime.kind == "extractive" else prime
        try:
            findings = await self._verdicts.findings(registry, persona, judge, call)
        except (Unavailable, BadInput) as error:
            seen = review_persona(registry.persona(persona), registry.identity)
            return [f"persona {persona!r} was not judged: {error.message}", *_said(persona, seen)]
        if refused := refusal(persona, findings):
            raise BadInput(refused if asked_for else f"{refused}; choose another with --persona")
        return _said(persona, findings)

    def _compressor(self, model: PooledModel) -> Compressor:
        """The ladder with the models there are; one without weights writes no summary."""
        rungs = [self._pool.model(self._pool.name_of(role=role)) for role in ("lite", "prime")]
        lite, prime = (rung if rung.kind != "extractive" else None for rung in rungs)
        return Compressor(self._embedder, lite, prime, self._clock, self._report)


def rendering_of(prepared: Prepared) -> Rendering:
    """What would be sent, for people and programs."""
    manifest = prepared.built.manifest
    return Rendering(
        packet_id=manifest.packet_id,
        mtu=manifest.mtu,
        model=manifest.model,
        tokenizer=manifest.tokenizer,
        fields=[
            {
                "field": row.field,
                "limit": row.limit,
                "original_tokens": row.original_tokens,
                "tokens": row.tokens,
                "method": row.method,
            }
            for row in manifest.fields
        ],
        total_tokens=manifest.total_tokens,
        reserve_tokens=manifest.reserve_tokens,
        dropped=manifest.dropped,
        prompt="".join(segment.text for segment in prepared.built.rendered),
        exact=prepared.model.tokenizer.exact,
    )


def _asked(message: str) -> str:
    """What the archive is asked: the message, of a long one its two ends, where questions stand."""
    if len(message) <= QUERY_MAX_CHARS:
        return message
    half = QUERY_MAX_CHARS // 2 - 1
    return f"{message[:half]}\n{message[-half:]}"


def _entries(turns: list[SessionTurn]) -> list[HistoryEntry]:
    entries = []
    for turn in turns:
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="user", text=turn.user))
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="assistant", text=turn.answer))
    return [entry for entry in entries if entry.text]


def _said(persona: str, findings: list[Finding]) -> list[str]:
    return [f"persona {persona!r}, rule {finding.rule}: {finding.reason}" for finding in findings]


def _chosen_before(turns: list[SessionTurn]) -> str:
    """The persona a person chose last in the session; every turn since carries it on. "" when nobody did."""
    return next((str(chosen) for turn in reversed(turns) if (chosen := turn.metadata.get(CHOSEN_PERSONA))), "")


def _persona(request: ChatRequest, chosen: str, registry: RegistryWatch, notes: list[str]) -> str:
    """The one asked for, else the one chosen before as long as there is one of that name; a lost one is noted."""
    try:
        return registry.persona_in_force(chosen, request.project)
    except (NotFound, BadInput) as error:
        if request.persona:
            raise
        notes.append(f"the session's persona is not used: {error.message}")
        return registry.persona_in_force("", request.project)
