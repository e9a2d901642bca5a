"""What a turn needs before any packet is made: the persona in force, what the archive says, what is to be warned of."""

from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple

from gaiad.base.clock import Clock
from gaiad.base.config import CognitionConfig
from gaiad.base.errors import BadInput, DeadlineExceeded, NotFound, Unavailable
from gaiad.base.events import OnEvent
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.ports import Archive, Model, RequestContext, Tokenizer
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.research.loop import Researcher
from gaiad.turn.in_packet import InPacket
from gaiad.turn.recall import (
    RESEARCH,
    Labels,
    Recall,
    degraded_notes,
    missing_notes,
    one_search_note,
    standing_turns,
)
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest
from gaiad.wire.council import HistoryNote
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.memory import SessionTurn
from gaiad.wire.schemas import ResearchResult
from gaiad.wire.status import ModelStatus
from prompts.packet import ContextItem
from prompts.persona_review import PersonaFinding, refusal, review_persona
from prompts.persona_verdicts import INSTRUCTION_KEY, PersonaVerdicts
from prompts.registry import Registry, RegistryWatch


class Unasked:
    """The Model port of `model`, for one `work` in words; a request for it is refused and leaves a line in `notes`."""

    def __init__(self, model: PooledModel, work: str, notes: list[str]) -> None:
        self._model = model
        self._note = f"a turn would ask {model.name} {work}; a dry run asks no model"
        self._notes = notes

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[TextDelta | Generated, None]:
        """Raises Unavailable at once, which callers of a model are ready for."""
        if self._note not in self._notes:
            self._notes.append(self._note)
        raise Unavailable(f"{self._model.name} is not asked in a dry run")

    def status(self) -> ModelStatus:
        return self._model.status()


CHOSEN_PERSONA, CHOSEN_PROJECT = "chosen_persona", "chosen_project"  # in a turn's metadata
EXECUTE_GRANT = "shell_with_approval"  # constants/grants.toml
_REVIEW_SHARE = 0.25  # of the turn's time, for judging a persona
_log = get_logger("gaiad.cognition")


class Names(NamedTuple):
    """What a turn and its first packet are called."""

    session_id: str
    turn_id: str
    full_id: str


class Gathered(NamedTuple):
    """Everything of a turn that is the same for all its packets, whichever model they go to.

    `registry` is as it was when the turn began. `found` is the research run, None when the archive was not asked;
    `needed` says whether the message asked for it. `persona` is the one in force, `chosen_persona` the one a person
    chose, now or before in the session, `chosen_project` likewise; "" when none was. `may_execute` says whether the
    persona lets Act propose commands (EXECUTE). `labels` are those of what it is given. `unasked` is where a dry run
    notes what models would be asked, None in a real turn.
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
    notes: list[str]
    may_execute: bool
    unasked: list[str] | None
    took_ms: float
    labels: Labels


class Gatherer:
    """One for the daemon."""

    def __init__(
        self,
        config: CognitionConfig,
        archive: Archive,
        researcher: Researcher,
        registry: RegistryWatch,
        pool: ModelPool,
        clock: Clock,
        *,
        turn_store: TurnStore,
        by_meaning: bool,
    ) -> None:
        """`by_meaning` is whether there is an embedder: without one a search by words is all that is expected."""
        self.config = config
        self._by_meaning = by_meaning
        self._looking_back = Recall(archive, researcher, clock)
        self._registry = registry
        self._pool = pool
        self._clock = clock
        self._verdicts = PersonaVerdicts(clock)
        self._turn_store = turn_store
        self._ids = IdMaker(clock)

    async def gather(
        self,
        request: ChatRequest,
        names: Names,
        turns: list[SessionTurn],
        call: RequestContext,
        on_event: OnEvent,
        *,
        dry_run: bool = False,
    ) -> Gathered:
        """`on_event` hears of the research as it happens. Raises BadInput, NotFound, Unavailable."""
        started = self._clock.monotonic()
        self.refresh()
        registry = self._registry.registry
        notes: list[str] = []
        chosen = request.persona or _chosen_before(turns, CHOSEN_PERSONA)
        project = request.project or _chosen_before(turns, CHOSEN_PROJECT)
        persona = _persona(request, chosen, project, self._registry, notes)
        grants = registry.grants(persona)
        quotes_only = self._pool.kind_of(self._pool.name_of(role=request.role)) == "extractive"
        standing = standing_turns(turns, request.mtu or self.config.mtu)
        note, needed, found, near = await self._looking_back.look(
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
        context = await self._looking_back.context(found, self.config.context_pages, call) or [*near]
        labels = await self._looking_back.labels(found, near, turns, call)
        unasked = notes if dry_run else None
        notes += await self._review(registry, persona, names, bool(request.persona), unasked, call)
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
            notes=notes,
            may_execute=EXECUTE_GRANT in grants,
            unasked=unasked,
            took_ms=(self._clock.monotonic() - started) * 1000,
            labels=labels,
        )

    @property
    def registry(self) -> Registry:
        """Identity, personas and task instructions in force."""
        return self._registry.registry

    def problems(self) -> list[str]:
        """What is wrong with the user's own registry files as they are now, and what in use is suspicious."""
        self.refresh()
        return [f"registry: {said}" for said in (*self._registry.problems, *self._registry.registry.warnings)]

    def refresh(self) -> None:
        """Take changed registry files up; one that does not fit is logged once, when it is read."""
        reload = self._registry.refresh()
        for problem in reload.problems if reload else ():
            _log.warning("registry not reloaded", file=problem.file, line=problem.line, problem=problem.message)

    def default_persona(self) -> str:
        """The persona of what belongs to no session."""
        return self._registry.persona_in_force("", "")

    def writing(
        self, role: Literal["prime", "lite"], key: str, work: str, names: Names, unasked: list[str] | None
    ) -> Model | None:
        """The role's model when it has weights, under the directive `key` for what `names` say; with `unasked` one that
        only notes there what `work` it would be asked for.
        """
        model = self._pool.model(self._pool.name_of(role=role))
        if model.kind == "extractive":
            return None
        if unasked is not None:
            return Unasked(model, work, unasked)
        return InPacket(
            model,
            role=role,
            key=key,
            registry=self.registry,
            turn_store=self._turn_store,
            ids=self._ids,
            clock=self._clock,
            turn_id=names.turn_id,
            session_id=names.session_id,
        )

    async def _review(
        self,
        registry: Registry,
        persona: str,
        names: Names,
        asked_for: bool,
        unasked: list[str] | None,
        call: RequestContext,
    ) -> list[str]:
        """What a reading of the persona warns of. Raises BadInput when it works against identity (GCP 3.3)."""
        work = f"whether the persona {persona!r} works against identity"
        judge = self.writing("prime", INSTRUCTION_KEY, work, names, unasked)
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
