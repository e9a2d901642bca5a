"""A council in one process: scripted roles, a real room, real logs, a real memory; turns go through it whole."""

from contextlib import nullcontext
from unittest.mock import AsyncMock

from council.balloting import Balloting
from council.execute_review import ExecuteReview
from council.limits import council_limits
from council.quorum import council_rules
from council.room import Room
from gaiad.base.config import CognitionConfig, CouncilConfig
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.ports import RequestContext
from gaiad.ledger.approvals import ApprovalLog
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import CognitionLog, TurnLog
from gaiad.models.plain.extractive import ExtractiveModel
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.models.probe import NEEDS
from gaiad.research.loop import Researcher
from gaiad.service.approvals import ApprovalService
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.beside import PrefixWarmup
from gaiad.turn.cognition import Assembler
from gaiad.turn.prompt_factory import RoleSpeaker
from gaiad.turn.services import TurnServices, rulebook
from gaiad.turn.stage_call import ModelRates
from gaiad.turn.taker import TurnTaker
from gaiad.turn.turn_store import TurnStore
from gaiad.wire.chat import ChatAnswer, ChatRequest
from gaiad.wire.generation import Sampling
from prompts.registry import RegistryWatch
from tests.makers.stand_in_shell import StandInShell

ROLES = ("prime", "lite", "codemind")
DUTIES = frozenset(NEEDS)
COUNCIL = CouncilConfig(
    depth="auto",
    deadline_s=20.0,
    full_deadline_s=40.0,
    vote_s=5.0,
    observer_windows=True,
    stages={},
    sampling={},
    keep_heartbeats_days=7,
)


class RoleModel(ScriptedModel):
    """A role's model by itself. `state` can be set, also to what a dead or sleeping one has."""

    kind, window, state, has_room, sampling = "scripted", 0, "ready", True, Sampling()

    def __init__(self, name, replies, clock):
        super().__init__(name, replies, clock)
        self.name, self._time = name, clock

    @property
    def heard_at(self):
        return self._time.monotonic() if self.state == "ready" else None

    async def beat(self, call):
        return 0.1

    async def wake(self, call):
        self.state = "ready"


class Pool:
    """Role -> its model."""

    def __init__(self, models):
        self.models, self.roles = models, {role: role for role in models}

    def name_of(self, name="", role=""):
        return role or name

    def model(self, name):
        return self.models[name]

    def kind_of(self, name):
        return self.models[name].kind


class House:
    """`says` are the replies by role; a text stands for a reply that is always given. `duties` are what each model has
    shown it can do, None when it was not measured. Open, then `say`.
    """

    def __init__(
        self, home, archive, clock, config, says, *, turn_store=TurnStore, history_turns=50, proactive=False,
        duties=DUTIES, **settings
    ):  # fmt: skip
        self.proactive, self.duties = proactive, duties
        self._turn_store, self._history_turns = turn_store, history_turns
        self.home, self.archive, self.clock = home, archive, clock
        self.models = {
            role: RoleModel(role, _replies(says.get(role, "RESPONSE: I heard you.")), clock) for role in ROLES
        }
        self.seeds, self.reflected, self.limits = [], [], council_limits()
        self.hub, self.shell = EventHub(clock), StandInShell()
        self._shell_config = config.shell
        self.council = CouncilConfig(**{**{n: getattr(COUNCIL, n) for n in COUNCIL.__struct_fields__}, **settings})
        self._research = config.research

    async def open(self):
        home, clock, ids = self.home, self.clock, IdMaker(self.clock)
        self.databases = databases = HomeDatabases(home)
        self.log, self.turn_log, self.cognition = (log(databases, clock) for log in (CouncilLog, TurnLog, CognitionLog))
        self.audit = AuditLog.open(databases.state, clock)
        roles = rulebook(self.council).roles
        limits = self.limits
        self.room = Room(
            self.models, self.log, self.hub, clock, table=roles, rules=council_rules(), limits=limits,
            duties=lambda model: self.duties,
        )  # fmt: skip
        await self.room.start()
        await self.room.settled(RequestContext())
        registry = RegistryWatch(home)
        self.turn_store = self._turn_store(self.archive, self.cognition, clock)
        self.assembler = assembler = Assembler(
            config=CognitionConfig(
                mtu=4096, reserve_tokens=256, history_turns=50, context_pages=4, proactive_context=self.proactive
            ),
            archive=self.archive,
            researcher=Researcher(self.archive, clock, self._research),
            registry=registry,
            pool=Pool(self.models),
            embedder=None,
            clock=clock,
            turn_store=self.turn_store,
            report=lambda _: None,
        )
        self.speaker = speaker = RoleSpeaker(assembler.factory, roles)
        self.balloting = Balloting(
            self.room, speaker, self.room.voting, self.audit, clock, limits.voting, self.council.vote_s
        )
        self.queue = ApprovalLog(databases)
        self.before_command = AsyncMock()
        self.approvals = ApprovalService(
            home, self.queue, self.audit, self.shell, self.hub, clock, self._shell_config, self.before_command
        )
        self.services = TurnServices(
            room=self.room,
            turn_log=self.turn_log,
            audit=self.audit,
            speaker=speaker,
            review_with=lambda table: ExecuteReview(
                self.room, speaker, self.balloting, self.audit, clock, table, limits.execute
            ),
            person=nullcontext,
            add_seed=self._add_seed,
            reflect=self._reflect,
            config=self.council,
            approvals=self.approvals,
            rates=ModelRates(),
        )
        self.taker = TurnTaker(
            assembler, self.archive, self.turn_store, self.services, ids, clock, self._history_turns, PrefixWarmup()
        )
        await self.approvals.start(self.taker.verify)
        return self

    async def close(self):
        await self.approvals.stop()
        await self.balloting.close()
        await self.room.close()
        await self.turn_store.close()
        self.audit.close()
        self.databases.close()

    async def _add_seed(self, tenant, text, turn_id):
        self.seeds.append(text)

    async def _reflect(self, stage, outcome, confidence):
        self.reflected.append((stage, outcome, confidence))

    async def events(self, message, **more):
        """All events of a turn; depth full unless it is given."""
        request = ChatRequest(message=message, **{"session_id": "s", "depth": "full", **more})
        return [event async for event in self.taker.take(request, RequestContext())]

    async def say(self, message, **more):
        """The answer, and the turn as the log has it."""
        answer = (await self.events(message, **more))[-1][1]
        assert isinstance(answer, ChatAnswer)
        return answer, await self.turn_log.find("local", answer.turn_id)


def quoting(clock):
    """A model that only quotes, as a member of the council."""

    class Quoting(ExtractiveModel):
        kind, window, state, has_room, heard_at, name = "extractive", 0, "ready", True, None, "extractive"

        async def beat(self, call):
            return 0.0

        async def wake(self, call):
            return None

    return Quoting("extractive", clock)


def _replies(said):
    return [ScriptedReply(text=said)] if isinstance(said, str) else said
