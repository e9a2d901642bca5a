"""The room where the council sits: who is there, what is said, what is going on. It implements `ports.CouncilRoom`.

Everything that is said goes through `post`: one after the other, so that ids, log and event hub have one order, and a
reader that goes on after an id misses nothing.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

import msgspec

from council.ballots import VotingRound
from council.envelope import Envelope, MessageType, make_envelope, struct_content, write_envelope
from council.heartbeat import StateChange
from council.limits import CouncilLimits
from council.pulse import Beat, Member, Pulse, change_in_words, known_role
from council.quorum import CouncilRules, Seat
from council.roles import Role, RoleTable, voters
from council.voting import Voting
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, GaiadError
from gaiad.base.events import EventHub
from gaiad.base.ids import IdMaker
from gaiad.base.logs import get_logger
from gaiad.base.ports import CouncilMessages, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.wire.council import (
    HOUSE,
    CouncilStatus,
    EscalationRecord,
    OpenEscalation,
    OpenProposal,
    RoleState,
    RunningTurn,
    StoredMessage,
)
from prompts.packet import RiskLevel

MOST_SHOWN = 20
"""Of a tenant's open escalations the last so many are shown; the log has all of them."""


class Unanswered:
    """Written through: what is here is in the log already. Call `load` once."""

    def __init__(self, log: CouncilMessages) -> None:
        self._log = log
        self._open: list[OpenEscalation] = []

    async def load(self) -> None:
        """Remember what an earlier life left open. Raises Unavailable."""
        self._open = await self._log.open_escalations(MOST_SHOWN)

    async def add(self, tenant: str, session_id: str, record: EscalationRecord) -> None:
        """Open until the person speaks in that session. Raises Unavailable."""
        await self._log.add_escalation(tenant, session_id, record)
        self._open.append(OpenEscalation(tenant=tenant, session_id=session_id, record=record))
        own = [one for one in self._open if one.tenant == tenant]
        for one in own[:-MOST_SHOWN]:
            self._open.remove(one)

    async def answer(self, tenant: str, session_id: str) -> None:
        """The person speaks in that session. Raises Unavailable."""
        answered = [one for one in self._open if (one.tenant, one.session_id) == (tenant, session_id)]
        if answered:
            await self._log.answer_escalations(tenant, session_id)
            self._open = [one for one in self._open if one not in answered]

    def of(self, tenant: str) -> list[EscalationRecord]:
        """The tenant's and the house's, in the order they came, each with the session it is answered in."""
        return [
            msgspec.structs.replace(one.record, session_id=one.session_id)
            for one in self._open
            if one.tenant in (tenant, HOUSE)
        ]


ID_PREFIX = "msg"
EVENT_KIND = "council"
NO_WRITER = "extractive"
"""The kind of model that quotes and cannot vote (decision 4)."""
_log = get_logger("council.room")


class Room:
    """One for a daemon. `members` has the model of each role, `depth` is the setting that status shows, `duties` tells
    what a model has shown that it can do, None for one that may do all.

    Call `start` once, then `close`. Not for other threads than the event loop's.
    """

    def __init__(
        self,
        members: Mapping[Role, Member],
        log: CouncilMessages,
        hub: EventHub,
        clock: Clock,
        *,
        table: RoleTable,
        rules: CouncilRules,
        limits: CouncilLimits,
        depth: str = "auto",
        duties: Callable[[str], frozenset[str] | None] = lambda model: None,
    ) -> None:
        self._members = {role: members[role] for role in table.roles}
        self._log, self._hub, self._clock = log, hub, clock
        self._table, self._rules = table, rules
        self._ids = IdMaker(clock)
        self._saying = asyncio.Lock()
        self._tasks = TaskGroup("council/room")
        self._running: dict[str, tuple[str, RunningTurn]] = {}
        self._proposals: OrderedDict[str, str] = OrderedDict()
        self._limits = limits
        self._unanswered = Unanswered(log)
        self.depth = depth
        self.voting = Voting(rules, limits.voting)
        self.pulse = Pulse(self._members, limits.heartbeat, clock, self._post_beat, self._post_change)
        self.duties = duties

    def use(self, table: RoleTable, depth: str) -> None:
        """Other stages and another depth, as status shows them from now on."""
        self._table, self.depth = table, depth

    async def start(self) -> None:
        """Remember what nobody answered in an earlier life, and begin to feel the pulses. Raises Unavailable."""
        await self._unanswered.load()
        self.pulse.start()

    async def look_again(self) -> None:
        """Another log was put in place of the old one: remember what is unanswered in that. Raises Unavailable."""
        await self._unanswered.load()

    async def close(self) -> None:
        """End the pulses; what is being said is said to its end."""
        await self.pulse.close()
        await self._tasks.wait()

    # -- who is there

    def seats(self) -> list[Seat]:
        """All roles as they are at this moment, in the table's order."""
        self.pulse.look()
        return [self._seat(role, member) for role, member in self._members.items()]

    def _seat(self, role: Role, member: Member) -> Seat:
        duties, writes = self.duties(member.name), member.kind != NO_WRITER
        can_vote = writes and (duties is None or "vote" in duties)
        active = self.pulse.state(role) == "ready"
        return Seat(role=role, active=active, can_vote=can_vote, duties=duties if writes else None)

    def is_free(self, role: Role) -> bool:
        """Whether the role's model is there and awake, has a free place, and nobody waits for it."""
        return self.pulse.state(role) == "ready" and self._members[role].has_room

    def model_state(self, role: str) -> str:
        """What the role's model says of itself (ready, sleeping, starting, inactive, failed). Raises BadInput."""
        return self._members[known_role(role)].state

    @property
    def quorum(self) -> bool:
        """Whether enough distinct roles can vote now (decision 10)."""
        return len(voters(self.seats())) >= self._rules.quorum_roles

    async def rouse(self, call: RequestContext) -> list[Seat]:
        """Before a vote: wake the roles whose models sleep, all at once; the seats after that.

        One that cannot be woken (no room in memory, no time) stays as it is; why is in the log. Raises nothing.
        """
        sleepers = [role for role in self.pulse.sleepers() if self._members[role].kind != NO_WRITER]
        results = await asyncio.gather(*(self.pulse.rouse(role, call) for role in sleepers), return_exceptions=True)
        for role, result in zip(sleepers, results, strict=True):
            if isinstance(result, GaiadError):
                _log.warning("not_woken", role=role, reason=result.message)
            elif result is not None:
                raise result
        return self.seats()

    async def settled(self, call: RequestContext, at_most_s: float = 10.0) -> list[Seat]:
        """Before a turn soon after the start: wait while models are being loaded; the seats then. Raises nothing."""
        until = self._clock.monotonic() + at_most_s
        await self.pulse.settled(until if call.deadline is None else min(until, call.deadline))
        return self.seats()

    def role_states(self) -> list[RoleState]:
        """Every role with its model and state (GCP 8.5), in the table's order."""
        return [self._state_of(seat, role) for seat, role in zip(self.seats(), self._members, strict=True)]

    def _state_of(self, seat: Seat, role: Role) -> RoleState:
        member = self._members[role]
        return RoleState(
            role=role,
            model=member.name,
            state=self.pulse.state(role),
            last_heartbeat=self.pulse.last_beat(role),
            can_vote=seat.active and seat.can_vote,
            kind=member.kind,
            stages=list(self._table.roles[role].stages),
            reason=self.pulse.trouble(role),
        )

    # -- what is said

    async def post(
        self,
        tenant: str,
        *,
        sender: str,
        role: str,
        type: MessageType,
        content: str,
        turn_id: str = "",
        parent: Envelope | None = None,
        confidence: float | None = None,
        risk_level: RiskLevel | None = None,
    ) -> Envelope:
        """Say it to all: durable in the log first, then published on the hub. Raises BadInput, Unavailable.

        A caller that goes away in between takes nothing back: what is stored is also published.
        """
        make = partial(
            make_envelope,
            sender=sender,
            role=role,
            type=type,
            content=content,
            parent=parent,
            confidence=confidence,
            risk_level=risk_level,
        )
        return await asyncio.shield(self._tasks.start("say", self._say(tenant, turn_id, make)))

    async def _say(self, tenant: str, turn_id: str, make: Callable[..., Envelope]) -> Envelope:
        async with self._saying:
            envelope = make(full_id=self._ids.make(ID_PREFIX), timestamp=to_iso(self._clock.now()))
            body = write_envelope(envelope)
            message = StoredMessage(full_id=envelope.full_id, type=envelope.type, turn_id=turn_id, body=body)
            await self._log.add(tenant, message)
            if envelope.type == "PROPOSAL":
                self._note_proposal(envelope.full_id, tenant)
            self._hub.publish(EVENT_KIND, tenant, **msgspec.to_builtins(envelope))
            return envelope

    async def _post_beat(self, beat: Beat) -> None:
        said = {"model": beat.model, "ms": None if beat.ms is None else round(beat.ms, 1)}
        await self.post(HOUSE, sender=beat.role, role="member", type="HEARTBEAT", content=struct_content(said))

    async def _post_change(self, change: StateChange) -> None:
        role = known_role(change.role)
        words = change_in_words(change, self._table.roles[role].title, self.pulse.trouble(role))
        await self.post(HOUSE, sender="gaiad", role="steward", type="INFO", content=words)

    # -- what is going on

    @property
    def running(self) -> Mapping[str, RunningTurn]:
        """The turns that are being taken, by id."""
        return {turn_id: turn for turn_id, (_, turn) in self._running.items()}

    def begin(self, tenant: str, turn: RunningTurn) -> None:
        """A turn begins. Raises BadInput when it runs already."""
        if turn.turn_id in self._running:
            raise BadInput(f"turn {turn.turn_id!r} runs already; a turn begins once")
        self._running[turn.turn_id] = (tenant, turn)

    def step(self, turn_id: str, stage: str, role: str, depth: str = "") -> None:
        """The turn is at another stage, or its depth is known now; one that does not run is left alone."""
        if turn_id in self._running:
            tenant, turn = self._running[turn_id]
            changed = msgspec.structs.replace(turn, stage=stage, role=role, depth=depth or turn.depth)
            self._running[turn_id] = (tenant, changed)

    def end(self, turn_id: str) -> None:
        """The turn ended, however."""
        self._running.pop(turn_id, None)

    def open_proposals(self, tenant: str) -> list[OpenProposal]:
        """What is voted on now: the tenant's own and the house's, in the order they were opened."""
        rounds = self.voting.open_rounds()
        return [made for one in rounds if (made := self._open_proposal(one, tenant)) is not None]

    def _open_proposal(self, one: VotingRound, tenant: str) -> OpenProposal | None:
        proposal = one.proposal
        if self._proposals.get(proposal.proposal_id) not in (tenant, HOUSE):
            return None
        left = timedelta(seconds=proposal.deadline - self._clock.monotonic())
        return OpenProposal(
            proposal_id=proposal.proposal_id,
            matter=proposal.matter,
            proposer=proposal.proposer,
            subject=proposal.content,
            closes_at=to_iso(self._clock.now() + left),
            ballots=len(one.standing()),
        )

    def _note_proposal(self, full_id: str, tenant: str) -> None:
        self._proposals[full_id] = tenant
        while len(self._proposals) > self._limits.voting.kept_rounds:
            self._proposals.popitem(last=False)

    # -- what went up

    async def escalated(self, tenant: str, record: EscalationRecord, session_id: str = "") -> None:
        """Something went up; what went to the person is in status until it is answered. Raises Unavailable."""
        if record.to == "person":
            await self._unanswered.add(tenant, session_id, record)

    async def resolved(self, tenant: str, session_id: str = "") -> None:
        """The person speaks in this session again: what went up there is answered. Raises Unavailable."""
        await self._unanswered.answer(tenant, session_id)

    def escalations(self, tenant: str) -> list[EscalationRecord]:
        """The last ones that went to the person and nobody answered, the tenant's and the house's, oldest first."""
        return self._unanswered.of(tenant)

    # -- at a glance

    def status(self, tenant: str) -> CouncilStatus:
        """The council as this tenant may see it."""
        return CouncilStatus(
            quorum=self.quorum,
            roles=self.role_states(),
            depth=self.depth,
            turns=[turn for owner, turn in self._running.values() if owner == tenant],
            open_proposals=self.open_proposals(tenant),
            escalations=self.escalations(tenant),
        )
