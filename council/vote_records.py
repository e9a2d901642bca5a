"""What a vote leaves on record (GCP 8.1, 8.3): its messages for all to read and its rows in the audit.

PROPOSAL, a VOTE for each ballot in answer to it, and an INFO with the decision. Each goes to the audit first or right
after it is posted, and whoever is told that it is recorded can rely on both. Who votes is `balloting`'s.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from council.ballots import CastBallot, Decision
from council.envelope import Envelope, struct_content
from council.floor import Floor
from council.quorum import Matter
from gaiad.council_ports import Audit
from gaiad.council_schemas import BallotRecord, VoteRecord
from gaiad.ports import Call

HOUSE_SENDER = "gaiad"
_AUDITED_CHARACTERS = 1000
_KEPT_WHOLE: Matter = "governance"
"""Of all other matters the audit, which is one for all tenants and never shortened, keeps hashes of what was said."""


class ProposalContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a PROPOSAL; `closes_at` is UTC."""

    matter: Matter
    subject: str
    closes_at: str


class VoteContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a VOTE; `uncounted` says why it stands outside the round, "" when it stands in it."""

    vote: str
    reason: str
    uncounted: str


class DecisionContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the INFO that ends a round."""

    passed: bool
    may_proceed: bool
    reduced_quorum: bool
    reason: str


class VoteRecords:
    """The written side of all rounds. Everything here raises BadInput and Unavailable."""

    def __init__(self, floor: Floor, audit: Audit) -> None:
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
        content = struct_content(ProposalContent(matter=matter, subject=subject, closes_at=closes_at))
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
        await self._audit.append("council.proposal", paper.sender, body, Call(tenant))

    async def ballot(self, tenant: str, paper: Envelope, matter: Matter, ballot: CastBallot, turn_id: str) -> None:
        """Post a VOTE in answer to the PROPOSAL, also one that is not counted."""
        form = ballot.form
        content = VoteContent(vote=form.vote, reason=form.reason, uncounted=ballot.uncounted)
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
        await self._audit.append("council.ballot", ballot.role, body, Call(tenant))

    async def decision(self, tenant: str, paper: Envelope, decision: Decision, reason: str, turn_id: str) -> None:
        """The audit's row first, for what stands in it is what was decided; then the INFO."""
        content = DecisionContent(
            passed=decision.passed,
            may_proceed=decision.may_proceed,
            reduced_quorum=decision.reduced_quorum,
            reason=reason,
        )
        facts = {"proposal_id": paper.full_id, "matter": decision.matter, "closed_by": decision.closed_by}
        body = {**facts, **msgspec.to_builtins(content)}
        await self._audit.append("council.decision", HOUSE_SENDER, body, Call(tenant))
        await self._tell(tenant, paper, struct_content(content), turn_id)

    async def withdrawn(self, tenant: str, paper: Envelope, matter: Matter, turn_id: str) -> None:
        """The round ended without a decision: said first, for it may be the audit that fails."""
        await self._tell(tenant, paper, "withdrawn: nobody waits for the decision any more", turn_id)
        body = {"proposal_id": paper.full_id, "matter": matter}
        await self._audit.append("council.withdrawn", HOUSE_SENDER, body, Call(tenant))

    async def _tell(self, tenant: str, paper: Envelope, content: str, turn_id: str) -> None:
        await self._floor.post(
            tenant, sender=HOUSE_SENDER, role="council", type="INFO", content=content, turn_id=turn_id, parent=paper
        )


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def vote_record(subject: str, decision: Decision, ballots: list[CastBallot], silences: dict[str, str]) -> VoteRecord:
    """The round for the turn log; why roles were silent stands behind the decision's reason."""
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
