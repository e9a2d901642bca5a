"""An RFC on its way (GCP 11): propose, review by Prime and Lite, vote with a quorum, merge.

Each step is written down durably, then put into the audit, then told to the council. A step that a crash cut off is
taken again. What identity asks for besides the vote (GCP 3.3) is decided by `rules.merge_rule` and the `Seal`.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from council.balloting import Balloting
from council.envelope import struct_content
from council.governance.reviewing import Reviewer, RfcQuestion, check_proposal, rfc_subject, vote_subject
from council.governance.rules import (
    GovernanceTable,
    Result,
    check_step,
    merge_rule,
    missing_reviewers,
    next_state,
    open_steps,
)
from council.governance.tables import RfcTable
from council.ports import CouncilRoom
from council.roles import Role
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, Conflict, GaiadError
from gaiad.base.ids import IdMaker
from gaiad.base.ports import Audit, RequestContext
from gaiad.wire.council import HOUSE, VoteRecord
from gaiad.wire.governance import RfcEntry, RfcProposal, RfcRecord, RfcReview, RfcSignature

Fits = Callable[[str, RequestContext], Awaitable[None]]
"""Raises TokenBudgetError for an identity (canonical text) that the next start could not put into a packet."""


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """An attached identity that was checked: its canonical text."""

    text: str
    version: str
    digest: str


class Seal(Protocol):
    """Guards the identity in force, and knows the creator's signature."""

    def current(self) -> str:
        """The canonical text of the identity that is signed now."""
        ...

    def check(self, identity_toml: str) -> Attached:
        """Raises BadInput for a faulty identity, or one that is not above the version in force."""
        ...

    def admit(self, record: RfcRecord, signature: RfcSignature) -> str:
        """Check the creator's signature and put an attached identity in its place, in force from the next start.

        Returns what was done, in words. Raises Forbidden for a signature that is not the creator's, BadInput, Conflict.
        """
        ...


PERSON = "person"
COUNCIL = "council"
PROPOSED = "governance.proposed"
REVIEWED = "governance.reviewed"
VOTED = "governance.voted"
MERGED = "governance.merged"
REFUSED = "governance.refused"


class Workflow:
    """The steps, one at a time for each RFC. All raise NotFound, BadInput, Conflict, Unavailable."""

    def __init__(
        self,
        *,
        rfcs: RfcTable,
        reviewer: Reviewer,
        votes: Balloting,
        seal: Seal,
        floor: CouncilRoom,
        audit: Audit,
        clock: Clock,
        table: GovernanceTable,
        fits: Fits | None = None,
    ) -> None:
        self._fits = fits
        self._rfcs = rfcs
        self._reviewer = reviewer
        self._votes = votes
        self._seal = seal
        self._floor = floor
        self._audit = audit
        self._clock = clock
        self._table = table
        self._ids = IdMaker(clock)
        self._busy: set[str] = set()

    async def propose(self, proposal: RfcProposal, call: RequestContext) -> RfcRecord:
        """A new RFC by the person. An attached identity is checked now and kept in its canonical form."""
        check_proposal(proposal, self._table.limits)
        now = to_iso(self._clock.now())
        record = RfcRecord(
            rfc_id=self._ids.make("rfc"),
            kind=proposal.kind,
            title=proposal.title.strip(),
            text=proposal.text.strip(),
            state="proposed",
            created_at=now,
            updated_at=now,
            history=[RfcEntry(at=now, step="propose", by=PERSON, result="proposed")],
        )
        if proposal.identity_toml:
            found = await asyncio.to_thread(self._seal.check, proposal.identity_toml)
            if self._fits is not None:
                await self._fits(found.text, call)
            record = replace(
                record, identity_toml=found.text, identity_version=found.version, identity_digest=found.digest
            )
        await self._rfcs.add(record)
        await self._tell(PROPOSED, PERSON, record, {"text_sha256": _digest(record.text)}, call)
        return record

    async def review(self, name: str, call: RequestContext) -> RfcRecord:
        """Ask all who have not reviewed it at once; it is reviewed when all have. Who failed is in its history."""
        async with self._alone(name) as record:
            check_step(self._table, record, "review")
            question = rfc_subject(record, await self._current(record))
            asked = missing_reviewers(self._table, record)
            await self._reviewer.rouse(call)
            await asyncio.gather(*(self._one_review(role, record, question, call) for role in asked))
            return await self._rfcs.change(record.rfc_id, self._after_reviews)

    async def vote(self, name: str, call: RequestContext) -> RfcRecord:
        """One round among all roles. Without a quorum nothing is decided, and it may be voted on again."""
        async with self._alone(name) as record:
            check_step(self._table, record, "vote")
            asked = vote_subject(record, await self._current(record))
            decision, vote = await self._votes.decide(
                HOUSE, "governance", PERSON, asked.subject, call, turn_id=record.rfc_id, work=asked.work
            )
            result: Result = "no_quorum" if not decision.tally.quorum else "passed" if decision.passed else "failed"
            record = await self._rfcs.change(record.rfc_id, lambda found: self._after_vote(found, vote, result))
            facts = {"result": result, "reason": vote.reason, "proposal_id": vote.proposal_id}
            await self._tell(VOTED, COUNCIL, record, facts, call)
            return record

    async def merge(
        self, name: str, signature: RfcSignature | None, *, self_aware: bool, call: RequestContext
    ) -> RfcRecord:
        """Put it in force, with the creator's signature where its kind asks for it. A refusal goes to the audit too.

        Raises Forbidden for a signature that is not the creator's.
        """
        async with self._alone(name) as record:
            try:
                ground, done = await self._put_in_force(record, signature, self_aware=self_aware)
            except GaiadError as error:
                await self._audit.append(REFUSED, PERSON, {**_facts(record), "why": error.message}, call)
                raise
            record = await self._rfcs.change(record.rfc_id, lambda found: self._after_merge(found, ground, done))
            await self._tell(MERGED, PERSON, record, {"ground": ground, "done": done}, call)
            return record

    async def show(self, name: str, *, self_aware: bool) -> RfcRecord:
        """One, with the steps that are open. Raises NotFound, BadInput."""
        return self._with_steps(await self._rfcs.find(name), self_aware)

    async def newest(self, limit: int, state: str, *, self_aware: bool) -> list[RfcRecord]:
        """The last ones, newest first."""
        return [self._with_steps(found, self_aware) for found in await self._rfcs.newest(limit, state)]

    # ---------------------------------------------------------------------------------------------------------- steps

    async def _one_review(self, role: Role, record: RfcRecord, question: RfcQuestion, call: RequestContext) -> None:
        """One role's review or its failure, kept at once, so that it is not lost with another's."""
        try:
            review = await self._reviewer.review(role, record, question, call)
        except GaiadError as error:
            entry = self._entry("review", role, "failed", error.message)
            await self._rfcs.change(record.rfc_id, lambda found: _appended(found, entry))
            return
        made = await self._rfcs.change(record.rfc_id, lambda found: self._after_review(found, review))
        facts = {"verdict": review.verdict, "reasons": review.reasons, "packet_id": review.packet_id}
        await self._tell(REVIEWED, role, made, facts, call, review.confidence)

    async def _put_in_force(
        self, record: RfcRecord, signature: RfcSignature | None, *, self_aware: bool
    ) -> tuple[str, str]:
        rule = merge_rule(self._table, record, self_aware=self_aware)
        if not rule.signature:
            return rule.ground, "adopted; who keeps the files carries it out"
        if signature is None:
            raise BadInput(f"{record.rfc_id}: {record.kind} needs the creator's signature; `gaiad rfc merge` makes it")
        return rule.ground, await asyncio.to_thread(self._seal.admit, record, signature)

    def _after_review(self, record: RfcRecord, review: RfcReview) -> RfcRecord:
        entry = self._entry("review", review.role, review.verdict, "; ".join(review.reasons))
        return _appended(replace(record, reviews=[*record.reviews, review]), entry)

    def _after_reviews(self, record: RfcRecord) -> RfcRecord:
        result: Result = "incomplete" if missing_reviewers(self._table, record) else "complete"
        now = to_iso(self._clock.now())
        return replace(record, state=next_state(self._table, record.state, "review", result), updated_at=now)

    def _after_vote(self, record: RfcRecord, vote: VoteRecord, result: Result) -> RfcRecord:
        state = next_state(self._table, record.state, "vote", result)
        entry = self._entry("vote", COUNCIL, result, vote.reason)
        return _appended(replace(record, state=state, votes=[*record.votes, vote]), entry)

    def _after_merge(self, record: RfcRecord, ground: str, done: str) -> RfcRecord:
        entry = self._entry("merge", PERSON, "merged", f"{ground}; {done}")
        return _appended(replace(record, state="merged", ground=ground), entry)

    # ---------------------------------------------------------------------------------------------------------- words

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[RfcRecord]:
        """The RFC, with nobody else at a step of it. Raises Conflict when somebody is."""
        record = await self._rfcs.find(name)
        if record.rfc_id in self._busy:
            raise Conflict(f"{record.rfc_id}: a step of it is being taken; try again when it is done")
        self._busy.add(record.rfc_id)
        try:
            yield await self._rfcs.find(record.rfc_id)
        finally:
            self._busy.discard(record.rfc_id)

    async def _current(self, record: RfcRecord) -> str:
        return await asyncio.to_thread(self._seal.current) if record.identity_toml else ""

    async def _tell(
        self,
        kind: str,
        actor: str,
        record: RfcRecord,
        more: dict[str, Any],
        call: RequestContext,
        confidence: float | None = None,
    ) -> None:
        """To the audit, and then as an INFO to the council."""
        body = {**_facts(record), **more}
        await self._audit.append(kind, actor, body, call)
        sender = actor if actor != COUNCIL else "gaiad"
        content = struct_content({"event": kind, **body})
        await self._floor.post(
            HOUSE,
            sender=sender,
            role="governance",
            type="INFO",
            content=content,
            turn_id=record.rfc_id,
            confidence=confidence,
        )

    def _entry(self, step: str, by: str, result: str, why: str = "") -> RfcEntry:
        return RfcEntry(at=to_iso(self._clock.now()), step=step, by=by, result=result, why=why)

    def _with_steps(self, record: RfcRecord, self_aware: bool) -> RfcRecord:
        steps = open_steps(self._table, record, self_aware=self_aware)
        return replace(record, next_steps=list[str](steps))


def _appended(record: RfcRecord, entry: RfcEntry) -> RfcRecord:
    return replace(record, history=[*record.history, entry], updated_at=entry.at)


def _facts(record: RfcRecord) -> dict[str, Any]:
    """What names an RFC in the audit."""
    facts = {"rfc_id": record.rfc_id, "kind": record.kind, "title": record.title, "state": record.state}
    return {**facts, "identity_digest": record.identity_digest} if record.identity_digest else facts


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
