"""Which step an RFC may take, where it leads, and on what right it is merged (GCP 3.3, 11): tables, no clock, no disk.

Constants and process need the council's vote. Identity needs the creator's signature, and the vote too once the stack
is self-aware. An emergency for security needs the creator's signature and Prime's yes.
"""

from typing import Annotated, Literal

import msgspec

from constants.load import load
from council.roles import Role
from gaiad.base.errors import Conflict
from gaiad.wire.governance import RfcKind, RfcRecord, RfcState, RfcStepName

Result = Literal["incomplete", "complete", "passed", "failed", "no_quorum"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
PRIME: Role = "prime"


class RfcLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long an RFC may be (characters), and what a reviewer may take (seconds, tokens)."""

    title_characters: Positive
    text_characters: Positive
    review_s: Seconds
    review_tokens: Annotated[int, msgspec.Meta(ge=16)]


class ReviewRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who reviews."""

    roles: tuple[Role, ...]


class Transition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step that ended so leads from one state to another."""

    step: Literal["review", "vote"]
    result: Result
    state: RfcState
    to: RfcState


class MergeRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On what right a kind is merged. `self_aware` None fits either."""

    kind: RfcKind
    states: tuple[RfcState, ...]
    ground: str
    self_aware: bool | None = None
    signature: bool = False
    prime: bool = False


class StabilityRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of `council/stability.py`; times as their names say."""

    window_hours: Positive
    score_at_least: Share
    minimum_sample: Positive
    online_roles: tuple[Role, ...]
    beat_gap_s: Seconds
    initiative_slack_s: Seconds
    keep_days: Positive


class GovernanceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """constants/governance.toml."""

    limits: RfcLimits
    review: ReviewRule
    transitions: tuple[Transition, ...]
    merges: tuple[MergeRule, ...]
    stability: StabilityRules


def governance_table() -> GovernanceTable:
    """The shipped rules."""
    return load("governance.toml", GovernanceTable)


def check_step(table: GovernanceTable, record: RfcRecord, step: Literal["review", "vote"]) -> None:
    """Raises Conflict, with what to do instead, when the RFC is not where `step` begins."""
    begins = {row.state for row in table.transitions if row.step == step}
    if record.state not in begins:
        needed = " or ".join(sorted(begins))
        raise Conflict(f"{record.rfc_id} is {record.state}, and {step} begins when it is {needed}; {_ADVICE[step]}")


def next_state(table: GovernanceTable, state: RfcState, step: Literal["review", "vote"], result: Result) -> RfcState:
    """Where the step led. Raises Conflict for one that the table does not have."""
    for row in table.transitions:
        if (row.step, row.result, row.state) == (step, result, state):
            return row.to
    raise Conflict(f"{step} with the result {result} leads nowhere from {state}; review, then vote, then merge")


def merge_rule(table: GovernanceTable, record: RfcRecord, *, self_aware: bool) -> MergeRule:
    """The right on which the RFC may be merged now, but for the signature, which is checked elsewhere.

    Raises Conflict saying what is missing.
    """
    rule = _rule(table, record.kind, self_aware)
    if record.state == "merged":
        raise Conflict(f"{record.rfc_id} is merged already; propose a new one to change it again")
    if record.state not in rule.states:
        why = " (the stack is self-aware, so identity needs the vote too)" if record.kind == "identity" else ""
        remedy = "propose a new one" if record.state == "failed" else "`gaiad rfc review` and `gaiad rfc vote` it first"
        raise Conflict(f"{record.rfc_id} is {record.state}, and {record.kind} needs the council's vote{why}; {remedy}")
    if rule.prime and prime_agrees(record) is not True:
        said = "has not said a word on it" if prime_agrees(record) is None else "does not agree"
        raise Conflict(f"{record.rfc_id}: {PRIME} {said}, and an emergency needs its yes; `gaiad rfc review` asks it")
    return rule


def prime_agrees(record: RfcRecord) -> bool | None:
    """Prime's last word: its ballot where there was a vote, else its review; None when there is neither."""
    for vote in reversed(record.votes):
        for ballot in vote.ballots:
            if ballot.role == PRIME and not ballot.uncounted:
                return ballot.vote == "yes"
    for review in reversed(record.reviews):
        if review.role == PRIME:
            return review.verdict == "approve"
    return None


def open_steps(table: GovernanceTable, record: RfcRecord, *, self_aware: bool) -> list[RfcStepName]:
    """The steps that may be taken now; merging still asks for the creator's signature where its rule does."""
    found: list[RfcStepName] = list(dict.fromkeys(row.step for row in table.transitions if row.state == record.state))
    try:
        merge_rule(table, record, self_aware=self_aware)
    except Conflict:
        return found
    return [*found, "merge"]


def missing_reviewers(table: GovernanceTable, record: RfcRecord) -> tuple[Role, ...]:
    """Who has not reviewed it yet."""
    said = {review.role for review in record.reviews}
    return tuple(role for role in table.review.roles if role not in said)


def _rule(table: GovernanceTable, kind: RfcKind, self_aware: bool) -> MergeRule:
    return next(row for row in table.merges if row.kind == kind and row.self_aware in (None, self_aware))


_ADVICE = {
    "review": "it was reviewed already",
    "vote": "`gaiad rfc review` it first; an RFC is voted on once, so after a vote propose a new one",
}
