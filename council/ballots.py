"""A round of voting (GCP 8.3) from the opened PROPOSAL to the decision in words; the count itself is quorum.tally.

One round, each role once. It closes when every role that can vote has voted or is known to be silent, or at its
deadline. What comes later, or a second time, is recorded and not counted. Pure: times are monotonic seconds that the
caller passes in, and so are the seats of the moment. Asking the models and writing the envelopes belong to others.
"""

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec

from council.observer_rules import without_secrets
from council.quorum import Ballot, CouncilRules, Matter, Seat, Vote, VoteTally, may_proceed, tally
from council.stage_output import read_marked, without_fence
from council.stages import fitted_schema
from gaiad.base.errors import BadInput

REASON_CHARACTERS = 300
Uncounted = Literal["", "late", "second"]
ClosedBy = Literal["all_voted", "all_heard", "deadline"]


class BallotForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role writes (JSON): its vote, how sure it is, and why. The vote comes first, should the reply be cut."""

    vote: Vote
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARACTERS)]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What is voted on. `proposal_id` is the PROPOSAL's full id; opened and deadline are monotonic seconds."""

    proposal_id: str
    matter: Matter
    proposer: str
    content: str
    opened_at: float
    deadline: float


class CastBallot(msgspec.Struct, frozen=True, kw_only=True):
    """One ballot as it came in. `uncounted` says why it is outside the round, "" when it is in it."""

    proposal_id: str
    role: str
    form: BallotForm
    at: float
    uncounted: Uncounted


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """How a round ended. `may_proceed` is also true for an answer without quorum; `reason` is for people.

    `closed_by` is all_heard when a role that could vote is known to give no ballot.
    """

    proposal_id: str
    matter: Matter
    passed: bool
    may_proceed: bool
    reduced_quorum: bool
    closed_by: ClosedBy
    at: float
    tally: VoteTally
    reason: str


def ballot_schema(max_tokens: int) -> dict[str, Any]:
    """The form of a ballot of at most `max_tokens`, for a model's grammar."""
    return fitted_schema(BallotForm, max_tokens)


def read_ballot(text: str) -> BallotForm:
    """A model's reply under `ballot_schema`. Raises BadInput saying what is wrong with it."""
    try:
        return msgspec.json.decode(text, type=BallotForm)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput(f"no ballot: {error}; write vote, confidence and reason as JSON") from error


class VotingRound:
    """One proposal's round. `ballots` has all that came, in order; `decision` is None while it is open."""

    def __init__(self, proposal: Proposal, seats: Sequence[Seat], rules: CouncilRules) -> None:
        if proposal.deadline <= proposal.opened_at:
            raise BadInput(
                f"proposal {proposal.proposal_id!r}: its deadline {proposal.deadline:g} is not after its opening "
                f"{proposal.opened_at:g}; give the voters time"
            )
        self.proposal = proposal
        self.ballots: list[CastBallot] = []
        self.decision: Decision | None = None
        self._rules = rules
        self._roles = frozenset(seat.role for seat in seats)

    def cast(self, role: str, form: BallotForm, now: float) -> CastBallot:
        """Record a ballot; a role's first one counts if it is in time. Raises BadInput for a role without a seat."""
        if role not in self._roles:
            known = ", ".join(sorted(self._roles))
            raise BadInput(f"ballot of {role!r}: no such role has a seat; seats: {known}")
        _check_form(role, form)
        made = CastBallot(
            proposal_id=self.proposal.proposal_id, role=role, form=form, at=now, uncounted=self._outside(role, now)
        )
        self.ballots.append(made)
        return made

    def advance(self, now: float, seats: Sequence[Seat], silent: Collection[str] = ()) -> Decision | None:
        """Close the round if it is time, by the seats of this moment; the decision when this call closed it.

        Nobody waits for roles in `silent`, which give no ballot any longer.
        """
        if self.decision is not None:
            return None
        self._check_seats(seats)
        standing = self.standing()
        waiting = [seat for seat in seats if seat.active and seat.can_vote and seat.role not in standing]
        if now < self.proposal.deadline and any(seat.role not in silent for seat in waiting):
            return None
        counted = [Ballot(role=role, vote=cast.form.vote) for role, cast in standing.items()]
        result = tally(seats, counted, self._rules, self.proposal.matter)
        heard: ClosedBy = "deadline" if now >= self.proposal.deadline else "all_heard"
        self.decision = self._decide(result, heard if waiting else "all_voted", now)
        return self.decision

    def standing(self) -> dict[str, CastBallot]:
        """The ballots that stand in the round, by role."""
        return {cast.role: cast for cast in self.ballots if not cast.uncounted}

    def _outside(self, role: str, now: float) -> Uncounted:
        if any(cast.role == role for cast in self.ballots):
            return "second"
        return "late" if self.decision is not None or now >= self.proposal.deadline else ""

    def _check_seats(self, seats: Sequence[Seat]) -> None:
        if {seat.role for seat in seats} != self._roles:
            given = ", ".join(sorted(seat.role for seat in seats)) or "none"
            raise BadInput(f"seats of {given}: the round was opened with {', '.join(sorted(self._roles))}; give those")

    def _decide(self, result: VoteTally, closed_by: ClosedBy, now: float) -> Decision:
        proposal = self.proposal
        proceed = may_proceed(proposal.matter, result)
        return Decision(
            proposal_id=proposal.proposal_id,
            matter=proposal.matter,
            passed=result.passed,
            may_proceed=proceed,
            reduced_quorum=not result.quorum,
            closed_by=closed_by,
            at=now,
            tally=result,
            reason=reason_in_words(proposal.matter, result, self._rules, proceed=proceed),
        )


def reason_in_words(matter: Matter, result: VoteTally, rules: CouncilRules, *, proceed: bool) -> str:
    """The decision as one sentence for people."""
    count = f"{result.yes} yes, {result.no} no, {result.abstain} abstained"
    silent = f"; silent: {', '.join(result.silent)}" if result.silent else ""
    outside = f"; not counted: {', '.join(result.uncounted)}" if result.uncounted else ""
    verdict = "passed" if result.passed else "failed"
    prime = rules.tie_break_role
    why = {
        "majority": f"{verdict} by majority",
        "prime": f"{verdict}: a tie, decided by {prime}'s own vote",
        "tie": f"failed: a tie, and no vote of {prime} to break it",
        "no_quorum": f"no quorum: {_lacking(result, rules)}; "
        + (f"the {matter} continues, marked reduced_quorum" if proceed else f"the {matter} is refused"),
    }[result.ground]
    return f"{why} ({count}{silent}{outside})"


def _lacking(result: VoteTally, rules: CouncilRules) -> str:
    """What a quorum lacks: roles, or the ballots of roles that are there."""
    cast = result.yes + result.no + result.abstain
    if cast + len(result.silent) < rules.quorum_roles:
        return f"{rules.quorum_roles} roles that can vote are needed"
    return f"{rules.quorum_roles} ballots are needed and {cast} were cast, though enough roles are active"


def _check_form(role: str, form: BallotForm) -> None:
    if not 0 <= form.confidence <= 1:
        raise BadInput(f"ballot of {role!r}: its confidence {form.confidence} is outside 0 to 1")


_CUT_VOTE = re.compile(r'"vote"\s*:\s*"(yes|no|abstain)"', re.IGNORECASE)
_CUT_CONFIDENCE = re.compile(r'"confidence"\s*:\s*([01](?:\.\d{1,8})?)\b')
_CUT_REASON = re.compile(r'"reason"\s*:\s*"((?:[^"\\]|\\.)*)')
_PLAIN_VOTE = re.compile(
    r"\W{0,4}(?:vote\W{1,4})?(yes|no|abstain)\b\W{0,3}(?=[.,:;!\n(\u2013\u2014-]|\Z)", re.IGNORECASE
)
_VOTE_LINE = re.compile(r"^\W{0,4}vote\W", re.IGNORECASE | re.MULTILINE)
_ANY_VOTE = re.compile(r"\b(yes|no|abstain)\b", re.IGNORECASE)
_PLAIN_CONFIDENCE = re.compile(r"\bconfidence\W{1,4}([01](?:\.\d{1,8})?)(?!\d|\.\d|\s?%)", re.IGNORECASE)
_NO_REASON = "no reason was given"


def read_ballot_text(text: str) -> BallotForm:
    """The ballot in a reply, its reason withheld if it shows a secret. Raises BadInput when there is none, or more than
    one vote.
    """
    found = _read(text)
    return msgspec.structs.replace(found, reason=without_secrets(found.reason))


def _read(text: str) -> BallotForm:
    marked = read_marked(text.encode("utf-8", "replace").decode(), "VOTE")
    own = marked.bodies("VOTE")
    if len(own) > 1:
        raise BadInput(f"{len(own)} ballots in one reply; a role votes once")
    body = without_fence("\n".join(own or [block.body for block in marked.blocks]))
    try:
        return read_ballot(body)
    except BadInput as error:
        found = _cut(body) if "{" in body else _plain(body)
        if found is None:
            raise error
        return found


def _cut(body: str) -> BallotForm | None:
    votes = {found[1].lower() for found in _CUT_VOTE.finditer(body)}
    if len(votes) != 1:
        return None
    reason = _CUT_REASON.search(body)
    return _form(votes.pop(), _CUT_CONFIDENCE.search(body), _string(reason[1]) if reason else "")


def _plain(body: str) -> BallotForm | None:
    found = _PLAIN_VOTE.match(body)
    if found is None or len(_VOTE_LINE.findall(body)) > 1:
        return None
    line = body.split("\n", 1)[0]
    if {other.lower() for other in _ANY_VOTE.findall(line)} - {found[1].lower()}:
        return None
    return _form(found[1].lower(), _PLAIN_CONFIDENCE.search(body), body[found.end() :].strip(" \n.,:;!-\u2013\u2014*_"))


def _form(vote: str, confidence: re.Match[str] | None, reason: str) -> BallotForm:
    """The struct; a share above 1 is none."""
    share = float(confidence[1]) if confidence else 0.0
    said = reason.strip()[:REASON_CHARACTERS] or _NO_REASON
    return BallotForm(vote=cast(Vote, vote), confidence=share if share <= 1 else 0.0, reason=said)


def _string(inside: str) -> str:
    try:
        return str(msgspec.json.decode(f'"{inside}"'))
    except msgspec.DecodeError:
        return ""
