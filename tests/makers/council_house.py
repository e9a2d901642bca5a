"""A council in one process: scripted roles, a real room, real logs, a real memory; turns go through it whole."""

from contextlib import nullcontext

from council.balloting import Balloting
from council.execute_review import ExecuteReview
from council.limits import council_limits
from council.quorum import council_rules
from council.room import Room
from gaiad.approving import Approving
from gaiad.chat_schemas import ChatAnswer, ChatRequest
from gaiad.config import CognitionConfig, CouncilConfig
from gaiad.events import EventHub
from gaiad.ids import IdMaker
from gaiad.ledger.approvals import ApprovalLog
from gaiad.ledger.audit import AuditLog
from gaiad.ledger.cognition_log import CognitionLog
from gaiad.ledger.council_log import CouncilLog
from gaiad.ledger.turn_log import TurnLog
from gaiad.models.plain.extractive import ExtractiveModel
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.ports import Call
from gaiad.research.loop import Researcher
from gaiad.turn.cognition import Assembler
from gaiad.turn.company import Company, rulebook
from gaiad.turn.reading_ahead import ReadAhead
from gaiad.turn.remembering import Keeper
from gaiad.turn.speaking import RoleSpeaker
from gaiad.turn.taker import TurnTaker
from prompts.registry import RegistryWatch
from tests.makers.stand_in_shell import StandInShell

ROLES = ("prime", "lite", "codemind")
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

    kind, window, state, has_room = "scripted", 0, "ready", True

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
    """`says` are the replies by role; a text stands for a reply that is always given. Open, then `say`."""

    def __init__(
        self, home, archive, clock, config, says, *, keeper=Keeper, history_turns=50, proactive=False, **settings
    ):
        self.proactive = proactive
        self._keeper, self._history_turns = keeper, history_turns
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
        self.log, self.turn_log = CouncilLog(home / "council", clock), TurnLog(home / "turns", clock)
        self.cognition, self.audit = CognitionLog(home / "cognition", clock), AuditLog.open(home, clock)
        roles = rulebook(self.council).roles
        limits = self.limits
        self.room = Room(
            self.models, self.log, self.hub, clock, table=roles, rules=council_rules(), limits=limits, depth="auto"
        )
        await self.room.start()
        await self.room.settled(Call())
        registry = RegistryWatch(home)
        self.keeper = self._keeper(self.archive, self.cognition, clock)
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
            keeper=self.keeper,
            report=lambda _: None,
        )
        speaker = RoleSpeaker(assembler, self.keeper, ids, roles)
        self.balloting = Balloting(
            self.room, speaker, self.room.voting, self.audit, clock, limits.voting, self.council.vote_s
        )
        self.queue = ApprovalLog(home / "approvals")
        self.approvals = Approving(home, self.queue, self.audit, self.shell, self.hub, clock, self._shell_config)
        self.company = Company(
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
        )
        self.taker = TurnTaker(
            assembler, self.archive, self.keeper, self.company, ids, clock, self._history_turns, ReadAhead()
        )
        await self.approvals.start(self.taker.verify)
        return self

    async def close(self):
        await self.approvals.stop()
        await self.queue.close()
        await self.balloting.close()
        await self.room.close()
        await self.keeper.close()
        for one in (self.log, self.turn_log, self.cognition):
            await one.close()
        self.audit.close()

    async def _add_seed(self, tenant, text, turn_id):
        self.seeds.append(text)

    async def _reflect(self, stage, outcome, confidence):
        self.reflected.append((stage, outcome, confidence))

    async def events(self, message, **more):
        """All events of a turn; depth full unless it is given."""
        request = ChatRequest(message=message, **{"session_id": "s", "depth": "full", **more})
        return [event async for event in self.taker.take(request, Call())]

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
