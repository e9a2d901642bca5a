"""All rounds of voting that are open, and the last closed ones, which still record what comes late."""

from collections.abc import Sequence

from council.ballots import BallotForm, CastBallot, Decision, Proposal, VotingRound
from council.limits import VotingLimits
from council.quorum import CouncilRules, Matter, Seat
from gaiad.errors import Conflict, NotFound


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

    def next_deadline(self) -> float | None:
        """When `advance` must be called at the latest; None while nothing is open."""
        return min((one.proposal.deadline for one in self.open_rounds()), default=None)

    def _forget(self) -> None:
        closed = [name for name, one in self._rounds.items() if one.decision is not None]
        for name in closed[: max(0, len(closed) - self._limits.kept_rounds)]:
            del self._rounds[name]
