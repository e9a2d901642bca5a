"""The council in this process on one GGUF for all roles: turns of full depth go through it as in the daemon.

But for the models' replies (`measured_pool`), and for the observer, who reads along from the first word.
"""

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from pathlib import Path

import msgspec

from council.balloting import Balloting
from council.execute_review import ExecuteReview
from council.limits import CouncilLimits, council_limits
from council.pulse import Member
from council.quorum import council_rules
from council.roles import Role
from council.room import Room
from council.stages import stage_form, stage_table
from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import SystemClock
from gaiad.base.config import Config, assign, load_config
from gaiad.base.errors import Unavailable
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.logs import configure_logs
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import CognitionLog, TurnLog
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import GgufTokenizer, TokenWorker
from gaiad.research.loop import Researcher
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.beside import PrefixWarmup
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import RoleSpeaker
from gaiad.turn.services import TurnServices, rulebook
from gaiad.turn.stage_call import ModelRates
from gaiad.turn.taker import TurnTaker
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatAnswer, ChatRequest
from gaiad.wire.council import TurnRecord
from gaiad.wire.generation import Generated, GenerateRequest
from gaiad.wire.governance import Approval, ApprovalWish
from gaiad.wire.memory import SessionTurn
from prompts.registry import RegistryWatch
from tests.bench.made_session import SESSION
from tests.bench.measured_pool import Asked, MeasuredPool, narrowed

ROLES: tuple[Role, ...] = ("prime", "lite", "codemind")
_EARLY_CHARACTERS = 1  # a text of 64 tokens is too short for the look that is due after 600 characters


class CouncilHouse:
    """Open; `say` takes a turn of full depth."""

    def __init__(self, pool: MeasuredPool, taker: TurnTaker, turn_log: TurnLog, ahead: PrefixWarmup) -> None:
        self.pool = pool
        self._taker = taker
        self._turn_log = turn_log
        self._ahead = ahead

    async def say(self, message: str, tokens: int) -> tuple[TurnRecord, float]:
        """The turn as the log has it, and the seconds until its answer was whole. Raises as TurnTaker.take."""
        self.pool.tokens, self.pool.asked[:] = tokens, []
        request = ChatRequest(message=message, session_id=SESSION, depth="full", max_tokens=tokens, seed=1)
        answer: object = None
        started = time.perf_counter()
        async with aclosing(self._taker.take(request, RequestContext())) as events:
            async for _, data in events:
                answer = data
        seconds = time.perf_counter() - started
        await self._ahead.stop()
        if not isinstance(answer, ChatAnswer):
            raise Unavailable("the turn under measurement ended without an answer")
        return await self._turn_log.find("local", answer.turn_id), seconds

    async def make_forms(self, tokens: int) -> float:
        """Load the vocabulary, make the forms of the stages' replies: else the first turn does so. Seconds."""
        tokenizer = self.pool.model(self.pool.name_of(role="prime")).tokenizer
        assert isinstance(tokenizer, GgufTokenizer)
        started = time.perf_counter()
        for stage, entry in stage_table().stages.items():
            most = tokens if stage == "act" else entry.max_tokens
            form = stage_form(stage, most)
            request = GenerateRequest(max_tokens=most, contract=form.contract, schema=form.schema)
            await tokenizer.compile(narrowed(request, tokens), RequestContext())
        return time.perf_counter() - started

    async def cold(self, asked: Asked) -> tuple[Generated, float]:
        """The same call in a worker that has read nothing; its seconds. Raises Unavailable."""
        name = self.pool.name_of(role="prime")
        async with self.pool.fresh(name) as model:
            started = time.perf_counter()
            async with aclosing(model.generate(asked.request, RequestContext())) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Generated):
                        return piece, time.perf_counter() - started
        raise Unavailable(f"a cold call of {asked.stage} ended without a reply")


@asynccontextmanager
async def open_house(
    home: Path, model: Path, turns: Sequence[SessionTurn], *settings: str
) -> AsyncIterator[CouncilHouse]:
    """With `turns` said before in the session. Raises BadInput, Unavailable."""
    configure_logs("error", "text")
    roles = [f"roles.{role}={model}" for role in ROLES]
    config = load_config(environment={}, assignments=[*roles, *settings])
    clock = SystemClock("UTC")
    async with AsyncExitStack() as stack:
        databases = HomeDatabases(home)
        stack.callback(databases.close)
        archive = LocalArchive(databases, config, clock, None, Metrics())
        await archive.start()
        stack.push_async_callback(archive.close)
        await archive.remember_turns(turns, RequestContext())
        names, models = assign(config.roles, config.models.known)
        dependencies = ModelDependencies(
            settings=config.models, clock=clock, tokenizer_process=TokenWorker(clock), environment=os.environ
        )
        pool = MeasuredPool(names, [Pooled(name, one) for name, one in models.items()], dependencies)
        await pool.start()
        stack.push_async_callback(pool.close)
        await pool.load(pool.name_of(role="prime"), RequestContext())
        yield await _furnished(stack, databases, config, clock, archive, pool)


async def _furnished(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    config: Config,
    clock: SystemClock,
    archive: LocalArchive,
    pool: MeasuredPool,
) -> CouncilHouse:
    cognition_log, turn_log = CognitionLog(databases, clock), TurnLog(databases, clock)
    turn_store = TurnStore(archive, cognition_log, clock)
    stack.push_async_callback(turn_store.close)
    assembler = Assembler(
        config=config.cognition,
        archive=archive,
        researcher=Researcher(archive, clock, config.research),
        registry=RegistryWatch(databases.home),
        pool=pool,
        embedder=None,
        clock=clock,
        turn_store=turn_store,
        report=lambda _: None,
    )
    services = await _services(stack, databases, config, clock, pool, assembler, turn_store, turn_log)
    ahead = PrefixWarmup()
    stack.push_async_callback(ahead.stop)
    history = config.cognition.history_turns
    taker = TurnTaker(assembler, archive, turn_store, services, IdMaker(clock), clock, history, ahead)
    return CouncilHouse(pool, taker, turn_log, ahead)


async def _services(
    stack: AsyncExitStack,
    databases: HomeDatabases,
    config: Config,
    clock: SystemClock,
    pool: ModelPool,
    assembler: Assembler,
    turn_store: TurnStore,
    turn_log: TurnLog,
) -> TurnServices:
    rules = rulebook(config.council)
    limits, log = council_limits(), CouncilLog(databases, clock)
    audit = AuditLog.open(databases.state, clock)
    stack.callback(audit.close)
    members: dict[Role, Member] = {role: pool.model(pool.name_of(role=role)) for role in ROLES}
    hub = EventHub(clock)
    room = Room(members, log, hub, clock, table=rules.roles, rules=council_rules(), limits=limits, depth="full")
    stack.push_async_callback(room.close)
    await room.start()
    await room.settled(RequestContext())
    speaker = RoleSpeaker(assembler.factory, rules.roles)
    balloting = Balloting(room, speaker, room.voting, audit, clock, limits.voting, config.council.vote_s)
    stack.push_async_callback(balloting.close)
    services = TurnServices(
        room=room,
        turn_log=turn_log,
        audit=audit,
        speaker=speaker,
        review_with=lambda table: ExecuteReview(room, speaker, balloting, audit, clock, table, limits.execute),
        person=nullcontext,
        add_seed=_nothing,
        reflect=_nothing,
        config=config.council,
        approvals=NothingRuns(),
        rates=ModelRates(),
    )
    services.rules = msgspec.structs.replace(services.rules, limits=_looking_early(limits))
    return services


class NothingRuns:
    """Approvals of a house without a shell."""

    refusal = "a bench has no shell"

    async def ask(self, wish: ApprovalWish, call: RequestContext) -> Approval:
        raise Unavailable(self.refusal, 60.0)


def _looking_early(limits: CouncilLimits) -> CouncilLimits:
    observer = msgspec.structs.replace(limits.observer, every_characters=_EARLY_CHARACTERS)
    return msgspec.structs.replace(limits, observer=observer)


async def _nothing(*_: object) -> None:
    """A measure keeps no thoughts for later, and no record of its own stability."""
