"""Counting a vote (GCP 8.3): a pure tally over roles and ballots; who is active and who waits is known elsewhere.

Quorum is two distinct active roles that can vote; for actions and governance as many must have voted too, if only to
abstain. Majority of yes and no wins, a tie goes to Prime's own ballot, and without an active Prime a tie fails. Without
quorum answers go on, marked; actions and governance do not.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from constants.load import load
from gaiad.base.errors import BadInput

Vote = Literal["yes", "no", "abstain"]
Matter = Literal["answer", "execute", "governance"]
Ground = Literal["majority", "prime", "tie", "no_quorum"]


class CouncilRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many distinct roles make a quorum, and whose ballot breaks a tie."""

    quorum_roles: int
    tie_break_role: str


class QuorumTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/limits.toml."""

    council: CouncilRules


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """A role at the moment of counting: `active` by its heartbeat, `can_vote` by its model.

    `duties` are those that its model has shown it can do, None when it was not measured.
    """

    role: str
    active: bool = True
    can_vote: bool = True
    duties: frozenset[str] | None = None

    def can(self, duty: str) -> bool:
        """Whether its model may do a stage, or review a command."""
        return self.can_vote if self.duties is None else duty in self.duties


class Ballot(msgspec.Struct, frozen=True, kw_only=True):
    """One role's vote on one proposal."""

    role: str
    vote: Vote


class VoteTally(msgspec.Struct, frozen=True, kw_only=True):
    """The count. `silent` are voting roles without a ballot, `uncounted` ballots of roles that could not vote.

    `quorum` is whether there was one for the matter; a matter can lack it by its ballots though the roles are there.
    """

    passed: bool
    ground: Ground
    yes: int
    no: int
    abstain: int
    quorum: bool
    silent: tuple[str, ...]
    uncounted: tuple[str, ...]


def council_rules() -> CouncilRules:
    """The shipped rules of GCP 8.3."""
    return load("limits.toml", QuorumTable).council


def tally(seats: Sequence[Seat], ballots: Sequence[Ballot], rules: CouncilRules, matter: Matter) -> VoteTally:
    """Count the ballots. A silent role counts as neither; a ballot of an inactive or unable role is named, not counted.

    An action or a change of the rules needs ballots of a quorum, so that nobody carries one alone while others are
    silent. Raises BadInput when a role sits or votes twice, or votes without a seat.
    """
    _refuse_twice("seat", [seat.role for seat in seats])
    _refuse_twice("ballot", [ballot.role for ballot in ballots])
    known = {seat.role for seat in seats}
    for ballot in ballots:
        if ballot.role not in known:
            raise BadInput(f"ballot of {ballot.role!r}: no such role has a seat; seats: {', '.join(sorted(known))}")
    voters = {seat.role for seat in seats if seat.active and seat.can_vote}
    votes = {ballot.role: ballot.vote for ballot in ballots if ballot.role in voters}
    cast = list(votes.values())
    present = len(voters) if matter == "answer" else len(cast)
    quorum = present >= rules.quorum_roles
    passed, ground = _decide(cast.count("yes"), cast.count("no"), quorum, votes.get(rules.tie_break_role))
    return VoteTally(
        passed=passed,
        ground=ground,
        yes=cast.count("yes"),
        no=cast.count("no"),
        abstain=cast.count("abstain"),
        quorum=quorum,
        silent=tuple(sorted(voters - votes.keys())),
        uncounted=tuple(sorted(ballot.role for ballot in ballots if ballot.role not in voters)),
    )


def may_proceed(matter: Matter, result: VoteTally) -> bool:
    """Whether it may go on: an answer also without quorum (marked `reduced_quorum`), the rest only with one."""
    return result.passed or (matter == "answer" and not result.quorum)


def _decide(yes: int, no: int, quorum: bool, prime: Vote | None) -> tuple[bool, Ground]:
    if not quorum:
        return False, "no_quorum"
    if yes != no:
        return yes > no, "majority"
    if prime in ("yes", "no"):
        return prime == "yes", "prime"
    return False, "tie"


def _refuse_twice(what: str, roles: Sequence[str]) -> None:
    for role in roles:
        if roles.count(role) > 1:
            raise BadInput(f"{what} of {role!r}: given {roles.count(role)} times; a role has one")
