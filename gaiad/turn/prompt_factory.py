"""The one place where Cognition Packets are ordered: of a turn, and of what a model is asked beside one (GCP 1, 4).

The whole stack goes with every call. A packet beside a turn (a ballot, a review, a summary, the reading of a persona)
has no history, for its question is what is to be judged; it is in the cognition log like any other.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from msgspec import structs

from council.ports import Ask, RoleReply
from council.roles import RoleTable
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import CognitionConfig
from gaiad.base.errors import BadInput, GaiadError, NotFound, TokenBudgetError, Unavailable
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.ports import Embedder, Model, RequestContext, Tokenizer
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.generation import Generated, GenerateRequest, Segment, TextDelta
from gaiad.wire.status import ModelStatus
from prompts.budget import FEEDBACK_TOKENS, BuildRequest, Built
from prompts.builder import build
from prompts.compress import BudgetOverrun, Compressor
from prompts.counting import PromptCounter
from prompts.fence import fenced_advice
from prompts.load import load_prompt
from prompts.registry import DEFAULT_PERSONA, Registry, RegistryWatch

ACT = "act"
_COMPRESSOR = "compressor"  # the directive
_WIDE = 1_000_000  # tokens: no limit of ours where the model's context is not known
_log = get_logger("gaiad.cognition")


class Advice(NamedTuple):
    """A line that a review gave, and its version and review; `own` is one of gaiad's rules, no data to fence."""

    text: str
    source: str
    own: bool


FeedbackOf = Callable[[str, str, str], Awaitable[list[Advice]]]
"""By tenant, role and stage what reviews advise, the newest first."""


def advice_text(advice: Sequence[Advice]) -> tuple[str, str]:
    """Advice, the newest first, as the packet has it: gaiad's own before what is fenced as data, each from the oldest
    on; and where it is from. "" for nothing.
    """
    own, others = ([piece for piece in reversed(advice) if piece.own is is_own] for is_own in (True, False))
    fenced = [fenced_advice("\n".join(piece.text for piece in others))] if others else []
    text = "\n".join([*(piece.text for piece in own), *fenced])
    return text, ", ".join(piece.source for piece in (*own, *others))


class Names(NamedTuple):
    """What a turn and its first packet are called."""

    session_id: str
    turn_id: str
    full_id: str


class Directions(NamedTuple):
    """What a packet tells a model to do, before the user's words."""

    key: str
    role_text: str
    task_instruction: str


def directions(registry: Registry, role: str, instruction: str, *, alone: bool) -> Directions:
    """Role text and directive of a stage; none for an answer that is `alone`, without work of other stages: there the
    user's words say what to do, and a conversation as the model's template expects it gets the best answer.
    """
    if alone and instruction == ACT:
        return Directions(instruction, "", "")
    return Directions(instruction, role_text(role), registry.task_instruction(instruction).text)


def role_text(role: str) -> str:
    """The words that make a model the role (GCP 8)."""
    return load_prompt(f"role_{role}").body.rstrip("\n")


async def no_feedback(_tenant: str, _role: str, _stage: str) -> list[Advice]:
    """No advice, where nothing was learned."""
    return []


class PromptFactory:
    """One for the daemon; `report` receives every compression (GCP 4.2's TOKEN_BUDGET_OVERRUN)."""

    def __init__(
        self,
        *,
        config: CognitionConfig,
        registry: RegistryWatch,
        pool: ModelPool,
        embedder: Embedder | None,
        clock: Clock,
        turn_store: TurnStore,
        report: Callable[[BudgetOverrun], None],
        feedback_of: FeedbackOf = no_feedback,
    ) -> None:
        self.config = config
        self.watch = registry
        self.pool = pool
        self.ids = IdMaker(clock)
        self.turn_store = turn_store
        self._embedder = embedder
        self._clock = clock
        self._report = report
        self.counter = PromptCounter()
        self.feedback_of = feedback_of

    async def feedback(self, role: str, stage: str, tokenizer: Tokenizer, call: RequestContext) -> tuple[str, str]:
        """What reviews advise, as `advice_text`: of more than the field's limit the newest that fit."""
        advice, kept = await self.feedback_of(call.tenant, role, stage), list[Advice]()
        if await self._fits(advice, tokenizer, call):
            return advice_text(advice)
        for piece in advice:
            if await self._fits([*kept, piece], tokenizer, call):
                kept.append(piece)
        return advice_text(kept)

    async def _fits(self, advice: Sequence[Advice], tokenizer: Tokenizer, call: RequestContext) -> bool:
        text, _ = advice_text(advice)
        (tokens,) = await self.counter.count(tokenizer, [[Segment(text)]], call) if text else (0,)
        return tokens <= FEEDBACK_TOKENS

    @property
    def registry(self) -> Registry:
        """Identity, personas and task instructions in force."""
        return self.watch.registry

    def refresh(self) -> None:
        """Load changed registry files; one that is not valid is logged once, when it is read."""
        reload = self.watch.refresh()
        for problem in reload.problems if reload else ():
            _log.warning("registry not reloaded", file=problem.file, line=problem.line, problem=problem.message)

    def problems(self) -> list[str]:
        """What is wrong with the user's own registry files as they are now, and what in use is suspicious."""
        self.refresh()
        return [f"registry: {said}" for said in (*self.watch.problems, *self.registry.warnings)]

    def model_of(self, role: str) -> PooledModel:
        """The model that serves the role. Raises NotFound."""
        return self.pool.model(self.pool.name_of(role=role))

    def kind_of(self, name: str) -> str:
        """The kind of the model called `name`, "" when it is no longer there."""
        try:
            return self.pool.kind_of(self.pool.name_of(name))
        except NotFound:
            return ""

    def sizes(self, mtu: int, reserve: int, model: PooledModel) -> tuple[int, int, list[str]]:
        """MTU and the reply's room within the model's context, 0 for the configured size; what the user asked for is
        never made smaller. Raises BadInput.
        """
        asked, mtu, reserve = mtu, mtu or self.config.mtu, reserve or self.config.reserve_tokens
        if min(mtu, reserve) < 1:
            raise BadInput(f"mtu {mtu} and max_tokens {reserve}: must be positive; 4096 and 512 are usual")
        if not model.window or mtu + reserve <= model.window:
            return mtu, reserve, []
        if reserve >= model.window:
            raise BadInput(
                f"a reply of {reserve} tokens leaves nothing of {model.name}'s context of {model.window} for the "
                "packet; ask for a shorter one"
            )
        if asked:
            raise BadInput(
                f"an MTU of {mtu} and a reply of {reserve} tokens are more than {model.name}'s context of "
                f"{model.window}; ask for at most {model.window - reserve} with this reply"
            )
        smaller = model.window - reserve
        return smaller, reserve, [f"{model.name}'s context of {model.window} tokens leaves an MTU of {smaller}"]

    def request(
        self,
        names: Names,
        model: PooledModel,
        role: str,
        said: Directions,
        question: str,
        *,
        registry: Registry,
        persona: str,
        mtu: int,
        reserve_tokens: int,
    ) -> BuildRequest:
        """The stack of every packet, without history, context and work. `persona` is a name, "" for none."""
        return BuildRequest(
            full_id=names.full_id,
            turn_id=names.turn_id,
            timestamp=to_iso(self._clock.now()),
            model=model.fingerprint,
            identity=registry.identity_text(),
            persona=registry.persona_text(persona) if persona else "",
            role=role,
            role_text=said.role_text,
            task_instruction_key=said.key,
            task_instruction=said.task_instruction,
            user_prompt=question,
            mtu=mtu,
            reserve_tokens=reserve_tokens,
        )

    async def build(
        self, wanted: BuildRequest, model: PooledModel, names: Names, unasked: list[str] | None, call: RequestContext
    ) -> Built:
        """Within the MTU, compressed where it must be. Raises TokenBudgetError, Unavailable."""
        return await build(wanted, model.tokenizer, self.compressor(names, unasked), call, self.counter)

    async def judgement(self, ask: Ask, call: RequestContext) -> tuple[Built, PooledModel]:
        """The packet that asks a role for its word beside a turn. Raises BadInput, NotFound, TokenBudgetError."""
        self.refresh()
        registry, model = self.registry, self.model_of(ask.role)
        names = Names(ask.session_id, ask.turn_id, self.ids.make("cog"))
        mtu, reserve, _ = self.sizes(0, ask.max_tokens, model)
        key = ask.task_instruction
        wanted = self.request(
            names,
            model,
            ask.role,
            Directions(key, role_text(ask.role), registry.task_instruction(key).text),
            ask.subject,
            registry=registry,
            persona=self.watch.persona_in_force("", ""),
            mtu=mtu,
            reserve_tokens=reserve,
        )
        built = await self.build(structs.replace(wanted, work=list(ask.work)), model, names, None, call)
        if any(item.summary for item in built.packet.work):
            raise BadInput(f"what {ask.role} is asked about does not fit an MTU of {mtu} whole; shorten it or raise it")
        return built, model

    def compressor(self, names: Names, unasked: list[str] | None) -> Compressor:
        """The ladder with the models there are, for a packet of these names; one without weights writes no summary."""
        writing = partial(self.writing, key=_COMPRESSOR, work="for a summary", names=names, unasked=unasked)
        return Compressor(self._embedder, writing("lite"), writing("prime"), self._clock, self._report)

    def writing(self, role: str, key: str, work: str, names: Names, unasked: list[str] | None) -> Model | None:
        """The role's model when it has weights, under the directive `key`, for what `names` say. With `unasked` it is
        not asked: a line there notes what `work` it would be asked for.
        """
        model = self.model_of(role)
        return None if model.kind == "extractive" else AsideModel(self, model, role, key, work, names, unasked)

    async def send_aside(
        self, model: PooledModel, built: Built, asked: GenerateRequest, session_id: str, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; packet and reply are kept in the cognition log, however the call ends."""
        reply: Generated | None = None
        failure = "the call was cut off"
        try:
            async with aclosing(model.generate(asked, call)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        reply, failure = piece, ""
                    yield piece
        except GaiadError as error:
            failure = error.message
            raise
        finally:
            await self.turn_store.keep_aside(session_id, built, asked, reply, failure, call)

    async def aside(
        self, model: PooledModel, role: str, key: str, names: Names, request: GenerateRequest, call: RequestContext
    ) -> Built:
        """The request's one message as the question of a packet beside a turn.

        Its persona is the shipped default, for a model must not judge a persona's text under that very persona. Nothing
        in it is made shorter, or what is to be summarised would need a summary first: its MTU is the model's whole
        context. Raises Unavailable when packet and reply are more than that.
        """
        registry = self.registry
        wanted = self.request(
            names._replace(full_id=self.ids.make("cog")),
            model,
            role,
            Directions(key, role_text(role), registry.task_instruction(key).text),
            "\n".join(part.text for message in request.messages for part in message.content),
            registry=registry,
            persona=DEFAULT_PERSONA if DEFAULT_PERSONA in registry.personas else "",
            mtu=max(1, model.window - request.max_tokens) if model.window else _WIDE,
            reserve_tokens=request.max_tokens,
        )
        try:
            return await build(wanted, model.tokenizer, None, call)
        except TokenBudgetError as error:
            raise Unavailable(f"{model.name} has no room for it: {error.message}") from error


class AsideModel:
    """The Model port of `model` for the making of prompts: what it is asked goes into a packet of its own."""

    def __init__(
        self,
        factory: PromptFactory,
        model: PooledModel,
        role: str,
        key: str,
        work: str,
        names: Names,
        unasked: list[str] | None,
    ) -> None:
        self._factory = factory
        self._model = model
        self._role = role
        self._key = key
        self._work = work
        self._names = names
        self._unasked = unasked

    @property
    def fingerprint(self) -> str:
        return self._model.fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    def status(self) -> ModelStatus:
        return self._model.status()

    async def generate(
        self, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        """As Model.generate; raises Unavailable too in a dry run, and when the packet does not fit the context."""
        if self._unasked is not None:
            note = f"a turn would ask {self._model.name} {self._work}; a dry run asks no model"
            self._unasked += [] if note in self._unasked else [note]
            raise Unavailable(f"{self._model.name} is not asked in a dry run")
        built = await self._factory.aside(self._model, self._role, self._key, self._names, request, call)
        asked = structs.replace(request, messages=built.messages)
        async with aclosing(
            self._factory.send_aside(self._model, built, asked, self._names.session_id, call)
        ) as pieces:
            async for piece in pieces:
                yield piece


class RoleSpeaker:
    """The council's Speaker on the daemon's models: ballots, reviews, initiative."""

    def __init__(self, factory: PromptFactory, roles: RoleTable) -> None:
        self._factory = factory
        self.roles = roles

    async def say(self, ask: Ask, call: RequestContext) -> RoleReply:
        """Raises BadInput, TokenBudgetError, Unavailable (also for a role that only quotes), WorkerDied,
        DeadlineExceeded, Cancelled.
        """
        if self._factory.model_of(ask.role).kind == "extractive":
            raise Unavailable(f"{ask.role} has no model that writes; set roles.{ask.role}", 60.0)
        built, model = await self._factory.judgement(ask, call)
        asked = GenerateRequest(
            messages=built.messages,
            max_tokens=built.manifest.reserve_tokens,
            sampling=self.roles.roles[ask.role].sampled(model.sampling),
            contract=ask.form.contract,
            schema=ask.form.schema,
        )
        async with aclosing(self._factory.send_aside(model, built, asked, ask.session_id, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Generated):
                    return _reply(piece, built, model.name)
        raise Unavailable(f"{model.name} ended without a reply", 5.0)


def _reply(reply: Generated, built: Built, name: str) -> RoleReply:
    return RoleReply(
        text=reply.text,
        packet_id=built.packet.full_id,
        prompt_sha256=built.manifest.prompt_sha256,
        model=name,
        fingerprint=reply.fingerprint,
        seed=reply.seed,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        tokens=reply.tokens,
        queue_ms=reply.queue_ms,
        prefill_ms=reply.prefill_ms,
        decode_ms=reply.decode_ms,
    )
