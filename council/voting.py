"""All rounds of voting that are open, and the last closed ones, which still record what comes late."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from council.ballots import BallotForm, CastBallot, Decision, Proposal, VotingRound
from council.envelope import Envelope, struct_content
from council.limits import VotingLimits
from council.ports import CouncilRoom
from council.quorum import CouncilRules, Matter, Seat
from gaiad.base.errors import Conflict, NotFound
from gaiad.base.ports import Audit, RequestContext
from gaiad.wire.council import BallotRecord, VoteRecord


class Voting:
    """One for a council. A proposal that is open or kept is not opened again, so that none is decided twice."""

    def __init__(self, rules: CouncilRules, limits: VotingLimits) -> None:
        self._rules = rules
        self._limits = limits
        self._rounds: dict[str, VotingRound] = {}

    def open(
        self,
        proposal_id: str,
        matter: Matter,
        proposer: str,
        content: str,
        now: float,
        seats: Sequence[Seat],
        deadline: float | None = None,
    ) -> VotingRound:
        """A new round; its deadline (monotonic seconds) is the shipped one from `now` unless given.

        Raises Conflict when the proposal was opened before, BadInput for a deadline that has passed.
        """
        if proposal_id in self._rounds:
            raise Conflict(f"proposal {proposal_id!r} was opened before; a proposal is voted on once, make a new one")
        until = now + self._limits.deadline_s if deadline is None else deadline
        proposal = Proposal(
            proposal_id=proposal_id, matter=matter, proposer=proposer, content=content, opened_at=now, deadline=until
        )
        self._rounds[proposal_id] = VotingRound(proposal, seats, self._rules)
        return self._rounds[proposal_id]

    def cast(self, proposal_id: str, role: str, form: BallotForm, now: float) -> CastBallot:
        """Record a ballot. Raises NotFound when there is no such round, or it closed too long ago; BadInput."""
        return self.round(proposal_id).cast(role, form, now)

    def advance(self, now: float, seats: Sequence[Seat]) -> list[Decision]:
        """Close the rounds whose time has come, in the order they were opened."""
        made = [found for one in self.open_rounds() if (found := one.advance(now, seats)) is not None]
        self._forget()
        return made

    def round(self, proposal_id: str) -> VotingRound:
        """The round on a proposal, open or kept. Raises NotFound."""
        if proposal_id not in self._rounds:
            raise NotFound(f"proposal {proposal_id!r}: no round of voting on it is open or kept")
        return self._rounds[proposal_id]

    def withdraw(self, proposal_id: str) -> None:
        """End an open round without a decision, for nobody waits for one. Raises NotFound, and Conflict when closed."""
        if self.round(proposal_id).decision is not None:
            raise Conflict(f"proposal {proposal_id!r} is decided; it cannot be withdrawn")
        del self._rounds[proposal_id]

    def open_rounds(self) -> list[VotingRound]:
        """In the order they were opened."""
        return [one for one in self._rounds.values() if one.decision is None]

    def _forget(self) -> None:
        closed = [name for name, one in self._rounds.items() if one.decision is not None]
        for name in closed[: max(0, len(closed) - self._limits.kept_rounds)]:
            del self._rounds[name]


HOUSE_SENDER = "gaiad"
_AUDITED_CHARACTERS = 1000
_KEPT_WHOLE: Matter = "governance"
"""Of all other matters the audit, which is one for all tenants and never shortened, keeps hashes of what was said."""


class VoteRecords:
    """The written side of all rounds. Everything here raises BadInput and Unavailable."""

    def __init__(self, floor: CouncilRoom, audit: Audit) -> None:
        self._floor = floor
        self._audit = audit

    async def proposal(
        self,
        tenant: str,
        matter: Matter,
        proposer: str,
        subject: str,
        closes_at: str,
        turn_id: str,
    ) -> Envelope:
        """Post the PROPOSAL that all else answers; its row in the audit is `proposed`'s."""
        content = struct_content({"matter": matter, "subject": subject, "closes_at": closes_at})
        return await self._floor.post(
            tenant, sender=proposer, role="proposer", type="PROPOSAL", content=content, turn_id=turn_id
        )

    async def proposed(
        self, tenant: str, paper: Envelope, matter: Matter, subject: str, turn_id: str, audited: Mapping[str, Any]
    ) -> None:
        """The PROPOSAL's row in the audit, with what is `audited` besides."""
        said = {"subject": subject[:_AUDITED_CHARACTERS]} if matter == _KEPT_WHOLE else {}
        body = {
            "proposal_id": paper.full_id,
            "matter": matter,
            **said,
            **audited,
            "subject_sha256": _digest(subject),
            "turn_id": turn_id,
        }
        await self._audit.append("council.proposal", paper.sender, body, RequestContext(tenant))

    async def ballot(self, tenant: str, paper: Envelope, matter: Matter, ballot: CastBallot, turn_id: str) -> None:
        """Post a VOTE in answer to the PROPOSAL, also one that is not counted."""
        form = ballot.form
        content = {"vote": form.vote, "reason": form.reason, "uncounted": ballot.uncounted}
        posted = await self._floor.post(
            tenant,
            sender=ballot.role,
            role="voter",
            type="VOTE",
            content=struct_content(content),
            turn_id=turn_id,
            parent=paper,
            confidence=form.confidence,
        )
        ids = {"proposal_id": paper.full_id, "ballot_id": posted.full_id}
        said = {"reason": form.reason} if matter == _KEPT_WHOLE else {"reason_sha256": _digest(form.reason)}
        body = {**ids, "vote": form.vote, "uncounted": ballot.uncounted, **said, "confidence": form.confidence}
        await self._audit.append("council.ballot", ballot.role, body, RequestContext(tenant))

    async def decision(self, tenant: str, paper: Envelope, decision: Decision, reason: str, turn_id: str) -> None:
        """The audit's row first, for what is in it is what was decided; then the INFO."""
        content = {
            "passed": decision.passed,
            "may_proceed": decision.may_proceed,
            "reduced_quorum": decision.reduced_quorum,
            "reason": reason,
        }
        facts = {"proposal_id": paper.full_id, "matter": decision.matter, "closed_by": decision.closed_by}
        body = {**facts, **content}
        await self._audit.append("council.decision", HOUSE_SENDER, body, RequestContext(tenant))
        await self._tell(tenant, paper, struct_content(content), turn_id)

    async def withdrawn(self, tenant: str, paper: Envelope, matter: Matter, turn_id: str) -> None:
        """The round ended without a decision: said first, for it may be the audit that fails."""
        await self._tell(tenant, paper, "withdrawn: the caller no longer waits for the decision", turn_id)
        body = {"proposal_id": paper.full_id, "matter": matter}
        await self._audit.append("council.withdrawn", HOUSE_SENDER, body, RequestContext(tenant))

    async def _tell(self, tenant: str, paper: Envelope, content: str, turn_id: str) -> None:
        await self._floor.post(
            tenant, sender=HOUSE_SENDER, role="council", type="INFO", content=content, turn_id=turn_id, parent=paper
        )


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def vote_record(subject: str, decision: Decision, ballots: list[CastBallot], silences: dict[str, str]) -> VoteRecord:
    """The round for the turn log; why roles were silent is behind the decision's reason."""
    why = "".join(f"; {role} gave no ballot: {said}" for role, said in sorted(silences.items()))
    return VoteRecord(
        proposal_id=decision.proposal_id,
        matter=decision.matter,
        subject=subject,
        passed=decision.passed,
        may_proceed=decision.may_proceed,
        reduced_quorum=decision.reduced_quorum,
        reason=decision.reason + why,
        ballots=[
            BallotRecord(
                role=ballot.role,
                vote=ballot.form.vote,
                confidence=ballot.form.confidence,
                reason=ballot.form.reason,
                uncounted=ballot.uncounted,
            )
            for ballot in ballots
        ],
    )
