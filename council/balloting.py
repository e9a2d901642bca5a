"""A vote from the PROPOSAL to the decision (GCP 8.3): every role that can vote is asked, at once and by itself.

No role sees another's ballot, and the proposer votes too, for decision 10 leaves nobody out. Rounds and their count are
`voting`'s, what is posted and audited `vote_records`'; no decision is given that is not on record. A role that fails is
silent, and costs the round nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, cast

import msgspec

from council.ballots import Decision, VotingRound, ballot_schema, read_ballot_text
from council.envelope import Envelope
from council.limits import VotingLimits
from council.ports import Ask, CouncilRoom, Speaker, in_words
from council.quorum import Matter, Seat, council_rules
from council.roles import Role, voters
from council.stages import Form
from council.voting import VoteRecords, Voting, vote_record
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Cancelled, DeadlineExceeded, GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Audit, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.wire.council import VoteRecord
from prompts.packet import WorkItem

Sleep = Callable[[float], Coroutine[Any, Any, None]]
Rouse = Callable[[RequestContext], Coroutine[Any, Any, list[Seat]]]
LOOK_AGAIN_S = 1.0  # how soon a caller that left, or a role that became inactive, is noticed
_log = get_logger("gaiad.balloting")


class Motion(msgspec.Struct, frozen=True, kw_only=True):
    """What is put to the vote, and for whom."""

    tenant: str
    matter: Matter
    proposer: str
    subject: str
    call: RequestContext
    turn_id: str
    session_id: str
    work: tuple[WorkItem, ...] = ()
    audited: Mapping[str, Any] = {}

    @property
    def told(self) -> str:
        """What is voted on, for the log."""
        return in_words(self.subject, self.work).encode("utf-8", "replace").decode()


class Poll(msgspec.Struct, kw_only=True):
    """A round that is held. `asked` has each role's task; `silences` say why a role gave no ballot."""

    question: Motion
    paper: Envelope
    round: VotingRound
    asked: dict[str, "asyncio.Task[None]"] = {}
    silences: dict[str, str] = {}
    unrecorded: list[BaseException] = []


class Balloting:
    """One for a council. Rounds are open for `vote_s` seconds, by default as long as `limits` say.

    `rouse` wakes the models of roles that sleep, for those count after a wake probe (decision 5).
    """

    def __init__(
        self,
        floor: CouncilRoom,
        speaker: Speaker,
        voting: Voting,
        audit: Audit,
        clock: Clock,
        limits: VotingLimits,
        vote_s: float | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
        rouse: Rouse | None = None,
    ) -> None:
        self._floor = floor
        self._speaker = speaker
        self._voting = voting
        self._records = VoteRecords(floor, audit)
        self._clock = clock
        self._limits = limits
        self._vote_s = limits.deadline_s if vote_s is None else vote_s
        self._rules = council_rules()
        self._sleep = sleep
        self._rouse = rouse
        self._tasks = TaskGroup("balloting")
        self._closed = False

    async def decide(
        self,
        tenant: str,
        matter: Matter,
        proposer: str,
        subject: str,
        call: RequestContext,
        *,
        turn_id: str = "",
        session_id: str = "",
        work: Sequence[WorkItem] = (),
        audited: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[Decision, VoteRecord]:
        """Put `subject` to the vote and wait for the decision, at the call's deadline at the latest.

        `subject` is gaiad's own sentence; what others wrote, and is voted on, is `work`. `audited` goes into the
        PROPOSAL's row of the audit, which keeps the words of governance alone.
        `tenant` is whose log it is in, `proposer` a role or `person`. Without a quorum nobody is asked, and the
        decision says so. Late ballots are posted afterwards and not counted. Raises Cancelled and DeadlineExceeded when
        there is no time for a round (the PROPOSAL is withdrawn), BadInput and Unavailable when it cannot be recorded.
        """
        question = Motion(
            tenant=tenant,
            matter=matter,
            proposer=proposer,
            subject=subject.encode("utf-8", "replace").decode(),
            call=call,
            turn_id=turn_id,
            session_id=session_id,
            work=tuple(work),
            audited=dict(audited),
        )
        await self.seats(call)
        poll = await self._open(question)
        try:
            self._ask_all(poll)
            decision = await self._wait(poll)
        except BaseException:
            self._withdraw(poll)
            raise
        return decision, await self._conclude(poll, decision)

    def use(self, vote_s: float) -> None:
        """Another time for rounds, from the next one on."""
        self._vote_s = vote_s

    async def seats(self, call: RequestContext) -> list[Seat]:
        """Who sits there now, after those who slept were woken as far as they can be."""
        call.check(self._clock.monotonic())
        return self._floor.seats() if self._rouse is None else await self._rouse(call)

    async def close(self) -> None:
        """Stop everybody who is still asked: late ballots are heard no more, who waits for a round gets Cancelled."""
        self._closed = True
        await self._tasks.stop()

    async def _open(self, question: Motion) -> Poll:
        """Post the PROPOSAL and open its round."""
        room_s = self._until(question.call) - self._clock.monotonic()
        closes_at = to_iso(self._clock.now() + timedelta(seconds=room_s))
        tenant, matter, proposer = question.tenant, question.matter, question.proposer
        paper = await self._records.proposal(tenant, matter, proposer, question.told, closes_at, question.turn_id)
        try:
            await self._records.proposed(tenant, paper, matter, question.told, question.turn_id, question.audited)
            until, now = self._until(question.call), self._clock.monotonic()
            seats = self._floor.seats()
            opened = self._voting.open(paper.full_id, matter, proposer, question.told, now, seats, until)
        except GaiadError:
            self._say_withdrawn(question, paper)
            raise
        return Poll(question=question, paper=paper, round=opened)

    def _until(self, call: RequestContext) -> float:
        """A round's deadline. Raises Cancelled, and DeadlineExceeded when the call leaves no time for one."""
        now = self._clock.monotonic()
        call.check(now)
        until = now + self._vote_s
        if call.deadline is None or until <= call.deadline:
            return until
        if call.deadline <= now:
            raise DeadlineExceeded("the call's deadline leaves no time for a vote")
        return call.deadline

    def _ask_all(self, poll: Poll) -> None:
        """Ask every role that can vote now, if they are enough for a quorum."""
        able = voters(self._floor.seats())
        for role in able if len(able) >= self._rules.quorum_roles else ():
            work = self._ask(poll, cast(Role, role))
            poll.asked[role] = self._tasks.start(f"ballot/{poll.paper.msg_id}/{role}", work)

    async def _ask(self, poll: Poll, role: Role) -> None:
        """One role's ballot from the question to the record; what fails on the way to it is that role's silence."""
        question, proposal_id = poll.question, poll.paper.full_id
        until = poll.round.proposal.deadline + self._limits.late_s
        call = RequestContext(question.call.tenant, until, question.call.priority, question.turn_id)
        try:
            said = await self._speaker.say(self._ask_of(question, role), call)
        except GaiadError as error:
            self._silent(poll, role, error.message, error)
            return
        finally:
            call.cancel()
        try:
            form = read_ballot_text(said.text)
        except BadInput as error:
            self._silent(poll, role, "what it wrote is not a ballot", error)
            return
        ballot = self._voting.cast(proposal_id, role, form, self._clock.monotonic())
        try:
            await self._records.ballot(question.tenant, poll.paper, question.matter, ballot, question.turn_id)
        except BaseException as error:
            poll.unrecorded.append(error)
            raise

    def _silent(self, poll: Poll, role: Role, in_words: str, error: GaiadError) -> None:
        """The role gives no ballot: why, for people and for the log."""
        poll.silences[role] = in_words
        _log.warning("no_ballot", role=role, proposal=poll.paper.full_id, why=error.message)

    def _ask_of(self, question: Motion, role: Role) -> Ask:
        return Ask(
            role=role,
            task_instruction="ballot",
            subject=question.subject,
            work=question.work,
            form=Form(schema=ballot_schema(self._limits.ballot_tokens)),
            max_tokens=self._limits.ballot_tokens,
            turn_id=question.turn_id,
            session_id=question.session_id,
        )

    async def _wait(self, poll: Poll) -> Decision:
        """Until all have voted or are known to be silent, or the round's deadline. Raises Cancelled."""
        while True:
            if self._closed:
                raise Cancelled("the council is closing; ask again after the start")
            if (decision := self._advance(poll)) is not None:
                return decision
            now = self._clock.monotonic()
            poll.question.call.check(now)
            await self._pause(poll, min(LOOK_AGAIN_S, poll.round.proposal.deadline - now))

    def _advance(self, poll: Poll) -> Decision | None:
        """The decision when the round is closed, by this or by another's look at the clock."""
        seats = self._floor.seats()
        waited_for = {role for role, task in poll.asked.items() if not task.done()}
        silent = {seat.role for seat in seats} - waited_for
        poll.round.advance(self._clock.monotonic(), seats, silent)
        return poll.round.decision

    async def _pause(self, poll: Poll, seconds: float) -> None:
        """Until a role that is asked has ended, or so many seconds."""
        writing = {task for task in poll.asked.values() if not task.done()}
        timer = self._tasks.start("timer", self._sleep(seconds))
        try:
            await asyncio.wait({timer, *writing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _conclude(self, poll: Poll, decision: Decision) -> VoteRecord:
        """Put the decision on record, after the ballots that stand in it. Raises Unavailable when one is not on it."""
        standing = poll.round.standing()
        if late := {task for role, task in poll.asked.items() if role not in standing and not task.done()}:
            self._tasks.start(f"late/{poll.paper.msg_id}", self._hear_late(late))
        if recording := [task for role, task in poll.asked.items() if role in standing]:
            await asyncio.wait(recording)
        if poll.unrecorded:
            raise Unavailable(f"proposal {poll.paper.full_id!r}: a ballot cannot be recorded ({poll.unrecorded[0]!r})")
        record = vote_record(poll.question.told, decision, poll.round.ballots, _silences(poll, decision))
        tenant, turn_id = poll.question.tenant, poll.question.turn_id
        await self._records.decision(tenant, poll.paper, decision, record.reason, turn_id)
        self._voting.advance(self._clock.monotonic(), self._floor.seats())
        return record

    async def _hear_late(self, late: set["asyncio.Task[None]"]) -> None:
        """Let roles that are still writing come to their end, for a bounded time."""
        timer = self._tasks.start("timer", self._sleep(self._limits.late_s))
        try:
            while late and not timer.done():
                done, _ = await asyncio.wait({timer, *late}, return_when=asyncio.FIRST_COMPLETED)
                late -= done
        finally:
            for task in (timer, *late):
                task.cancel()

    def _withdraw(self, poll: Poll) -> None:
        """Nobody waits for the decision any longer: stop who is asked, and say so beside the PROPOSAL."""
        for task in poll.asked.values():
            task.cancel()
        if poll.round.decision is None:
            self._voting.withdraw(poll.paper.full_id)
            self._say_withdrawn(poll.question, poll.paper)

    def _say_withdrawn(self, question: Motion, paper: Envelope) -> None:
        said = self._records.withdrawn(question.tenant, paper, question.matter, question.turn_id)
        self._tasks.start(f"withdrawn/{paper.msg_id}", said)


def _silences(poll: Poll, decision: Decision) -> dict[str, str]:
    """Why each role that was asked and is counted as silent gave no ballot."""
    return {
        role: poll.silences.get(role, "too slow" if not task.done() else "an internal error; the log has it")
        for role, task in poll.asked.items()
        if role in decision.tally.silent
    }
