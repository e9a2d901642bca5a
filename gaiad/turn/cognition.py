"""The packets of a turn: a base for each model that takes part, and from it a packet for every stage (GCP 4).

Nothing is sent from here; a dry run (`gaiad cognition render`) takes the same way as a real turn, but for questions to
models that write: none is asked, and the notes say what a turn would ask.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import structs

from council.roles import CouncilStage, assign_stage
from council.stages import Form, StageTable, stage_form
from council.state_machine import StageTask
from gaiad.base.clock import Clock
from gaiad.base.config import CognitionConfig, model_label
from gaiad.base.errors import BadInput, GaiadError, Unavailable
from gaiad.base.ports import Archive, Embedder, RequestContext
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.research.familiar import MOST_TOKENS, plan_seeds
from gaiad.research.loop import Researcher
from gaiad.turn.gathering import Gathered, Gatherer, pages_that_stay
from gaiad.turn.prompt_factory import ACT, FeedbackOf, PromptFactory, directions, no_feedback
from gaiad.turn.stage_call import BEFORE_ANSWER, CallDeadlines, StageCall, pace_of, request_of, share_of
from gaiad.turn.turn import Turn
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.generation import Sampling
from gaiad.wire.memory import SessionTurn
from prompts.budget import Built
from prompts.builder import retarget
from prompts.compress import BudgetOverrun
from prompts.packet import CognitionPacket, HistoryEntry, RiskLevel, WorkItem
from prompts.registry import RegistryWatch
from prompts.work import work_room

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
    """One for the daemon: gathers for a turn, and packs what was gathered for a role."""

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
        feedback_of: FeedbackOf = no_feedback,
    ) -> None:
        self.factory = PromptFactory(
            config=config,
            registry=registry,
            pool=pool,
            embedder=embedder,
            clock=clock,
            turn_store=turn_store,
            feedback_of=feedback_of,
            report=report,
        )
        self.gather = Gatherer(self.factory, archive, researcher, clock, by_meaning=embedder is not None).gather
        self._archive = archive
        self._clock = clock

    async def pack(
        self,
        gathered: Gathered,
        role: str,
        full_id: str,
        previous: CognitionPacket | None,
        call: RequestContext,
        *,
        stage: CouncilStage = "act",
        instruction: str = ACT,
        work_tokens: int = 0,
    ) -> Prepared:
        """The turn's packet for a role at a stage. `work_tokens` of the MTU are for what stages write each other.

        Raises BadInput, NotFound, TokenBudgetError, Unavailable.
        """
        started = self._clock.monotonic()
        factory, request, model = self.factory, gathered.request, self.factory.model_of(role)
        names = gathered.names._replace(full_id=full_id)
        mtu, reserve, notes = factory.sizes(request.mtu, request.max_tokens, model)
        wanted = factory.request(
            names,
            model,
            role,
            directions(gathered.registry, role, instruction, alone=not work_tokens),
            request.message,
            registry=gathered.registry,
            persona=gathered.persona,
            mtu=mtu,
            reserve_tokens=reserve,
        )
        stays = gathered.found is None and not gathered.context
        feedback, feedback_from = await factory.feedback(role, stage, model.tokenizer, call)
        wanted = structs.replace(
            wanted,
            feedback=feedback,
            feedback_from=feedback_from,
            history=_entries(gathered.turns),
            context=pages_that_stay(previous) if stays else gathered.context,
            context_stays=stays,
            previous=previous,
            work_tokens=work_tokens,
        )
        built = await factory.build(wanted, model, names, gathered.unasked, call)
        return Prepared(built, model, gathered, notes, (self._clock.monotonic() - started) * 1000)

    async def memos(self, gathered: Gathered, call: RequestContext) -> list[str]:
        """What pages of the session and of the archive hold in short, to seed the plan (JIT). Raises Unavailable."""
        return await plan_seeds(self._archive, gathered.names.session_id, gathered.request.message, call)


def _entries(turns: list[SessionTurn]) -> list[HistoryEntry]:
    entries = []
    for turn in turns:
        if turn.answer.startswith(NOT_TOLD):
            continue
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="user", text=turn.user))
        failed = FAILED_MARK if turn.status == "REVERTED" and turn.answer else ""
        entries.append(HistoryEntry(turn_id=turn.turn_id, role="assistant", text=turn.answer + failed))
    return [entry for entry in entries if entry.text]


def room_for_work(stages: StageTable, reserve_tokens: int) -> int:
    """Tokens of a packet for the memos, the plan and the answer that stages read of each other."""
    written = (min(reserve_tokens, stages.stages[stage].max_tokens) for stage in ("refine", "act"))
    return work_room([MOST_TOKENS, *written])


class Meta(NamedTuple):
    """What is in the meta header of a stage's packet (GCP 4.1.1)."""

    confidence: float | None = None
    risk_level: RiskLevel | None = None
    retry_count: int | None = None


class StagePackets:
    """Gathered once, packed once a model. `work_tokens` is the room kept for what the stages write for each other."""

    def __init__(self, assembler: "Assembler", gathered: Gathered, stages: StageTable, work_tokens: int) -> None:
        self._assembler = assembler
        self._factory = assembler.factory
        self._gathered = gathered
        self._stages = stages
        self._work_tokens = work_tokens
        self._bases: dict[str, Prepared] = {}
        self._last = ""
        self.packed_ms = 0.0

    async def base(self, task: StageTask, call: RequestContext) -> tuple[Prepared, bool]:
        """The packet everything of this turn with the role's model is made from, and whether it is new.

        Raises BadInput, NotFound, TokenBudgetError, Unavailable.
        """
        model = self._factory.model_of(task.role)
        if model.name in self._bases:
            return self._bases[model.name], False
        names = self._gathered.names
        made = await self._assembler.pack(
            self._gathered,
            task.role,
            names.full_id if not self._bases else self._factory.ids.make("cog"),
            await self._factory.turn_store.last_packet(names.session_id, call, model.fingerprint),
            call,
            stage=task.stage,
            instruction=task.task_instruction,
            work_tokens=self._work_tokens,
        )
        self._bases[model.name] = made
        return made, True

    def window_of(self, role: str) -> int:
        """Tokens that the role's model may have in its context, 0 when nobody knows. Raises NotFound."""
        return self._factory.model_of(role).window

    def others_than(self, role: str, roles: Sequence[str]) -> bool:
        """Whether another of the roles is served by another model."""
        own = self._factory.model_of(role).name
        return any(self._factory.model_of(other).name != own for other in roles)

    async def stage(
        self, task: StageTask, work: Sequence[WorkItem], meta: Meta, reserve_tokens: int, call: RequestContext
    ) -> tuple[Built, PooledModel]:
        """The packet for one stage call, `reserve_tokens` 0 as in any packet of the model. Raises as `base`."""
        prepared, new = await self.base(task, call)
        self.packed_ms = prepared.took_ms
        as_packed = new and not work and meta == Meta()
        reserve = reserve_tokens or prepared.built.manifest.reserve_tokens
        if as_packed:
            built = _with_reserve(prepared.built, reserve)
        else:
            built = await self._retargeted(prepared, task, work, meta, reserve, call)
        self._last = built.packet.full_id
        return built, prepared.model

    async def _retargeted(
        self,
        prepared: Prepared,
        task: StageTask,
        work: Sequence[WorkItem],
        meta: Meta,
        reserve_tokens: int,
        call: RequestContext,
    ) -> Built:
        said = directions(self._gathered.registry, task.role, task.task_instruction, alone=not work)
        tokenizer = prepared.model.tokenizer
        feedback, feedback_from = await self._factory.feedback(task.role, task.stage, tokenizer, call)
        return await retarget(
            prepared.built,
            full_id=self._factory.ids.make("cog"),
            role=task.role,
            role_text=said.role_text,
            task_instruction_key=task.task_instruction,
            task_instruction=said.task_instruction,
            work=list(work),
            inputs=self._inputs(task),
            reserve_tokens=reserve_tokens,
            timestamp=self._factory.turn_store.now(),
            parent_id=self._last or None,
            confidence=meta.confidence,
            risk_level=meta.risk_level,
            retry_count=meta.retry_count,
            feedback=feedback,
            feedback_from=feedback_from,
            tokenizer=tokenizer,
            compressor=self._factory.compressor(self._gathered.names, self._gathered.unasked),
            call=call,
            counter=self._factory.counter,
        )

    def _inputs(self, task: StageTask) -> list[str]:
        """What the stage reads of the others' work; who repairs an interrupted answer reads that answer too."""
        entry = self._stages.stages[task.stage]
        repairs = task.task_instruction == entry.after_interrupt
        return [*entry.inputs, *(["response"] if repairs else [])]


def _with_reserve(built: Built, reserve_tokens: int) -> Built:
    """The same packet for a reply of another length: the first stage writes as much as its contract lets it."""
    return msgspec.structs.replace(
        built, manifest=msgspec.structs.replace(built.manifest, reserve_tokens=reserve_tokens)
    )


_SHORTEST_REPLY, _SHORTEST_ANSWER = 16, 64
_NO_TIME = "the plan was left out or cut short, so that the answer has its time"
_THINKING_SHARE = 0.5  # of the turn's time, for all stages before the answer


class StageStart:
    """How a stage call begins: which packet goes to which model, in what form, and by when it must come back.

    Of one turn; `call` ends with the turn's deadline.
    """

    def __init__(self, packets: StagePackets, turn: Turn, clock: Clock, call: RequestContext) -> None:
        self._packets = packets
        self._turn = turn
        self._rules = turn.rules
        self._chain = turn.rules.stages.chains[turn.choice.depth]
        self._clock = clock
        self._call = call
        now = clock.monotonic()
        self._answers_from = math.inf if call.deadline is None else now + (call.deadline - now) * _THINKING_SHARE

    def leaves_out(self, stage: CouncilStage) -> bool:
        """Whether a stage before the answer is left out, so that the answer has its time; the turn's notes say so."""
        return self._noted(stage in BEFORE_ANSWER and self._clock.monotonic() >= self._answers_from)

    def goes_on_without(self, stage: StageCall) -> bool:
        """Whether the answer does without what a stage before it wrote too slowly; the turn's notes say so."""
        return self._noted(stage.task.stage in BEFORE_ANSWER and stage.kept_writing)

    def _noted(self, no_time: bool) -> bool:
        self._turn.notes += [_NO_TIME] if no_time and _NO_TIME not in self._turn.notes else []
        return no_time

    def with_commands(self, task: StageTask) -> StageTask:
        """Who may ask for a command learns how; a repair keeps its own instruction."""
        entry = self._rules.stages.stages[task.stage]
        if not self._turn.may_execute or task.task_instruction != entry.task_instruction:
            return task
        return structs.replace(task, task_instruction=entry.with_commands or task.task_instruction)

    async def open(self, task: StageTask, work: Sequence[WorkItem], began: float) -> StageCall:
        """The packet, and the model that will be asked. Raises as StagePackets.stage."""
        entry = self._rules.stages.stages[task.stage]
        reserve = 0 if task.stage == "act" else entry.max_tokens
        built, model = await self._packets.stage(task, work, self._meta(task), reserve, self._call)
        self._turn.packed_ms = self._packets.packed_ms
        limit = built.manifest.reserve_tokens
        if model.window:
            limit = min(limit, model.window - built.manifest.total_tokens)
        if task.stage == "act":
            limit = self._in_time(model, built.manifest.total_tokens, limit)
        if limit < _SHORTEST_REPLY and task.stage != "act":
            raise Unavailable(
                f"{model_label(model.name)}: its context leaves {limit} tokens to the stage {task.stage}", 60.0
            )
        form = self._form(task, model, max(limit, _SHORTEST_REPLY))
        asked = request_of(built, form, limit, self._sampling(task, model), self._seed(task))
        return StageCall(task, built, model, asked, began, self._clock)

    def _in_time(self, model: PooledModel, prompt_tokens: int, limit: int) -> int:
        """The reply's limit, shorter where the model is known to write less until the deadline."""
        now, rates = self._clock.monotonic(), self._turn.services.rates
        left = ((self._call.deadline or now) - now) * share_of("act", self._chain)
        left -= 2 * (rates.first_word_s(model.name, prompt_tokens) or 0.0)
        fitting = rates.tokens_in(model.name, left)
        return limit if fitting is None else min(limit, max(fitting, _SHORTEST_ANSWER))

    def is_the_messages(self, error: GaiadError, task: StageTask) -> bool:
        """Whether no packet can be made because of what was said, which is not a role's fault."""
        acts = assign_stage(self._rules.roles, "act", self._turn.seats())
        same = acts is not None and self._packets.window_of(acts.role) == self._packets.window_of(task.role)
        return isinstance(error, BadInput) and (task.stage == "act" or (same and not self._turn.stages))

    def pace(self, stage: StageCall) -> CallDeadlines:
        """By when the first text and the last must be there."""
        now, name, rates = self._clock.monotonic(), stage.model.name, self._turn.services.rates
        return pace_of(
            stage.task.stage,
            self._chain,
            now,
            self._call.deadline or now,
            first_word_s=rates.first_word_s(name, stage.built.manifest.total_tokens) or 0.0,
            writing_s=rates.writing_s(name, stage.asked.max_tokens // 2) or 0.0,
            others=self._packets.others_than(stage.task.role, [seat.role for seat in self._turn.seats()]),
            answers_from=self._answers_from,
        )

    def _form(self, task: StageTask, model: PooledModel, max_tokens: int) -> Form:
        """Only a GGUF can be held to blocks; a remote model to a schema, and others are read as they write."""
        form = stage_form(task.stage, max_tokens, may_execute=self._turn.may_execute)
        return form if model.kind == "gguf" else Form()

    def _meta(self, task: StageTask) -> Meta:
        """What GCP's meta header says of this call; nothing at all for the first one of an ordinary turn."""
        retries = self._times(task)
        risk = "high" if task.action == "high_risk" else self._turn.risk
        return Meta(self._turn.confidence, None if risk == "low" else risk, retries or None)

    def _seed(self, task: StageTask) -> int | None:
        """The one asked for; another one each time the stage is done again."""
        seed = self._turn.request.seed
        return None if seed is None else (seed + self._times(task)) % 2**32

    def _times(self, task: StageTask) -> int:
        return sum(row.stage == task.stage for row in self._turn.stages)

    def _sampling(self, task: StageTask, model: PooledModel) -> Sampling:
        own, wanted = self._rules.roles.roles[task.role].sampled(model.sampling), self._turn.request.temperature
        return own if task.stage != "act" or wanted is None else structs.replace(own, temperature=wanted)
