"""Makes Cognition Packets: of what a turn gathered, and of what a role is asked beside a turn (GCP 4).

Nothing is sent from here; a dry run (`gaiad cognition render`) takes the same way as a real turn, but for questions to
models that write: none is asked, and the notes say what a turn would ask.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from council.ports import Ask
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import CognitionConfig
from gaiad.base.errors import BadInput, NotFound
from gaiad.base.ports import Archive, Embedder, RequestContext
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.research.familiar import plan_seeds
from gaiad.research.loop import Researcher
from gaiad.turn.gathering import Gathered, Gatherer, Names
from gaiad.turn.recall import pages_that_stay
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatRequest, Rendering
from gaiad.wire.memory import SessionTurn
from prompts.budget import BuildRequest, Built
from prompts.builder import build
from prompts.compress import BudgetOverrun, Compressor
from prompts.counting import PromptCounter
from prompts.load import load_prompt
from prompts.packet import CognitionPacket, HistoryEntry
from prompts.registry import Registry, RegistryWatch

ACT = "act"
_COMPRESSOR = "compressor"  # the directive
NOT_TOLD = "I have no record of that."
"""The answer where nothing stored says; a model that reads it in its history gives it to everything."""
FAILED_MARK = "\n\n[This answer failed its verification.]"


class Prepared(NamedTuple):
    """A packet ready to be sent, and what it was made of. `took_ms` is its making, without the gathering.

    `notes` are of the model and the same for every turn: a rendering tells them, and status, not each answer.
    """

    built: Built
    model: PooledModel
    gathered: Gathered
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
        turn_store: TurnStore,
        report: Callable[[BudgetOverrun], None],
    ) -> None:
        self._config = config
        self._gatherer = Gatherer(
            config, archive, researcher, registry, pool, clock, turn_store=turn_store, by_meaning=embedder is not None
        )
        self.gather = self._gatherer.gather
        self._archive = archive
        self._pool = pool
        self._embedder = embedder
        self._clock = clock
        self._report = report
        self.counter = PromptCounter()

    async def pack(
        self,
        gathered: Gathered,
        role: str,
        full_id: str,
        previous: CognitionPacket | None,
        call: RequestContext,
        *,
        instruction: str = ACT,
        work_tokens: int = 0,
    ) -> Prepared:
        """The turn's packet for a role. `work_tokens` of the MTU are kept for what its stages write for each other.

        Raises BadInput, NotFound, TokenBudgetError, Unavailable.
        """
        started = self._clock.monotonic()
        request, registry, model = gathered.request, gathered.registry, self.model_of(role)
        mtu, reserve, notes = self._sizes(request, model)
        said = directions(registry, role, instruction, alone=not work_tokens)
        stays = gathered.found is None and not gathered.context
        built = await build(
            BuildRequest(
                full_id=full_id,
                turn_id=gathered.names.turn_id,
                timestamp=to_iso(self._clock.now()),
                model=model.fingerprint,
                identity=registry.identity_text(),
                persona=registry.persona_text(gathered.persona),
                role=role,
                role_text=said.role_text,
                task_instruction_key=instruction,
                task_instruction=said.task_instruction,
                user_prompt=request.message,
                history=_entries(gathered.turns),
                context=pages_that_stay(previous) if stays else gathered.context,
                context_stays=stays,
                previous=previous,
                mtu=mtu,
                reserve_tokens=reserve,
                work_tokens=work_tokens,
            ),
            model.tokenizer,
            self.compressor(gathered.names, gathered.unasked),
            call,
            self.counter,
        )
        return Prepared(built, model, gathered, notes, (self._clock.monotonic() - started) * 1000)

    async def memos(self, gathered: Gathered, call: RequestContext) -> list[str]:
        """What pages of the session and of the archive hold in short, to seed the plan (JIT). Raises Unavailable."""
        return await plan_seeds(self._archive, gathered.names.session_id, gathered.request.message, call)

    async def judgement(self, ask: Ask, full_id: str, call: RequestContext) -> tuple[Built, PooledModel]:
        """The packet in which a role is asked for its word beside a turn. Raises as `pack`."""
        self._gatherer.refresh()
        registry, model = self.registry, self.model_of(ask.role)
        persona = self._gatherer.default_persona()
        sizes = ChatRequest(message=ask.subject, max_tokens=ask.max_tokens)
        mtu, reserve, _ = self._sizes(sizes, model)
        built = await build(
            BuildRequest(
                full_id=full_id,
                turn_id=ask.turn_id,
                timestamp=to_iso(self._clock.now()),
                model=model.fingerprint,
                identity=registry.identity_text(),
                persona=registry.persona_text(persona),
                role=ask.role,
                role_text=role_text(ask.role),
                task_instruction_key=ask.task_instruction,
                task_instruction=registry.task_instruction(ask.task_instruction).text,
                user_prompt=ask.subject,
                work=list(ask.work),
                mtu=mtu,
                reserve_tokens=reserve,
            ),
            model.tokenizer,
            self.compressor(Names(ask.session_id, ask.turn_id, full_id), None),
            call,
            self.counter,
        )
        if any(item.summary for item in built.packet.work):
            raise BadInput(f"what {ask.role} is asked about does not fit an MTU of {mtu} whole; shorten it or raise it")
        return built, model

    def use_config(self, config: CognitionConfig) -> None:
        """Other sizes, from the next turn on."""
        self._config = self._gatherer.config = config

    @property
    def reserve_tokens(self) -> int:
        """The longest reply unless a request says otherwise."""
        return self._config.reserve_tokens

    @property
    def proactive_context(self) -> bool:
        """Whether a turn looks for an earlier packet to name below its answer."""
        return self._config.proactive_context

    @property
    def registry(self) -> Registry:
        """Identity, personas and task instructions in force."""
        return self._gatherer.registry

    def problems(self) -> list[str]:
        """What is wrong with the user's own registry files as they are now, and what in use is suspicious."""
        return self._gatherer.problems()

    def model_of(self, role: str) -> PooledModel:
        """The model that serves the role. Raises NotFound."""
        return self._pool.model(self._pool.name_of(role=role))

    def kind_of(self, name: str) -> str:
        """The kind of the model called `name`, "" when there is none (any longer)."""
        try:
            return self._pool.kind_of(self._pool.name_of(name))
        except NotFound:
            return ""

    def compressor(self, names: Names, unasked: list[str] | None) -> Compressor:
        """The ladder with the models there are, for a packet of these names; one without weights writes no summary."""
        writing = partial(self._gatherer.writing, key=_COMPRESSOR, work="for a summary", names=names, unasked=unasked)
        lite, prime = writing("lite"), writing("prime")
        return Compressor(self._embedder, lite, prime, self._clock, self._report)

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


class Directions(NamedTuple):
    """What a packet tells a model to do, before the user's words."""

    role_text: str
    task_instruction: str


def directions(registry: Registry, role: str, instruction: str, *, alone: bool) -> Directions:
    """Role text and directive of a stage; none for an answer that stands `alone`, without work of other stages: there
    the user's words say what to do, and a conversation as the model's template expects it gets the best answer.
    """
    if alone and instruction == ACT:
        return Directions("", "")
    return Directions(role_text(role), registry.task_instruction(instruction).text)


def role_text(role: str) -> str:
    """The words that make a model the role (GCP 8)."""
    return load_prompt(f"role_{role}").body.rstrip("\n")


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
        notes=[*prepared.gathered.notes, *prepared.notes],
    )


def _entries(turns: list[SessionTurn]) -> list[HistoryEntry]:
    entries = []
    for turn in turns:
        if turn.answer.strip() == NOT_TOLD:
            continue
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="user", text=turn.user))
        failed = FAILED_MARK if turn.status == "REVERTED" and turn.answer else ""
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="assistant", text=turn.answer + failed))
    return [entry for entry in entries if entry.text]
