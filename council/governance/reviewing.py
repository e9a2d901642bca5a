"""The reviews of an RFC (GCP 11): Prime and Lite read it, each by itself, and say approve or object, and why."""

import asyncio
import difflib
from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec

from council.balloting import Rouse
from council.governance.rules import GovernanceTable, RfcLimits
from council.observer_rules import without_secrets
from council.ports import Ask, CouncilRoom, Speaker
from council.roles import Role
from council.stages import Form, fitted_schema
from gaiad.base.clock import Clock, to_iso
from gaiad.base.errors import BadInput, DeadlineExceeded, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.wire.governance import RfcProposal, RfcRecord, RfcReview
from prompts.packet import WorkItem

MOST_REASONS = 4
_SIGNED_AS = b"gaiad rfc 1\n"  # so that a signature made for something else never fits


class ReviewForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a reviewer writes (JSON): its verdict, how sure it is, and its reasons. The verdict comes first."""

    verdict: Literal["approve", "object"]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    reasons: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=200)], ...],
        msgspec.Meta(min_length=1, max_length=MOST_REASONS),
    ]


def review_form(max_tokens: int) -> Form:
    """The form of a review of at most `max_tokens`, for a model's grammar."""
    return Form(schema=fitted_schema(ReviewForm, max_tokens))


def read_review(text: str) -> ReviewForm:
    """A model's reply under `review_form`, without reasons that show a secret. Raises BadInput when it is none."""
    try:
        found = msgspec.json.decode(text, type=ReviewForm)
        return msgspec.structs.replace(found, reasons=tuple(map(without_secrets, found.reasons)))
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise BadInput("what it wrote is not a review; ask it again") from error


def check_proposal(proposal: RfcProposal, limits: RfcLimits) -> None:
    """Raises BadInput for one that is too long, empty, or whose kind and attached identity do not fit."""
    for name, text, most in (
        ("title", proposal.title, limits.title_characters),
        ("text", proposal.text, limits.text_characters),
    ):
        if not text.strip():
            raise BadInput(f"the RFC's {name} is empty; say what is to change, and why")
        if len(text) > most:
            raise BadInput(f"the RFC's {name} has {len(text)} characters, {most} is the most; make it shorter")
    if "\n" in proposal.title:
        raise BadInput("the RFC's title has more than one line; write it as one")
    if proposal.kind == "identity" and not proposal.identity_toml:
        raise BadInput("an RFC of kind identity needs the new identity; attach its file (--identity FILE)")
    if proposal.identity_toml and proposal.kind not in ("identity", "security"):
        raise BadInput(f"an identity is attached to an RFC of kind {proposal.kind}; propose it as identity or security")


class RfcQuestion(NamedTuple):
    """gaiad's own sentence, and what others wrote: the RFC, the change of the identity, the reviews."""

    subject: str
    work: tuple[WorkItem, ...]


def rfc_subject(record: RfcRecord, current_identity: str) -> RfcQuestion:
    """What a reviewer reads. `current_identity` is the canonical text of the one in force, "" when nothing changes."""
    work = [WorkItem("RFC", f"{record.title}\n\n{record.text}", "person")]
    subject = f"Whether the quoted RFC of kind {record.kind} should be adopted."
    if record.identity_toml:
        subject += f" It changes the identity as quoted, to version {record.identity_version}."
        work.append(WorkItem("IDENTITY CHANGE", identity_change(current_identity, record.identity_toml), "person"))
    return RfcQuestion(subject, tuple(work))


def vote_subject(record: RfcRecord, current_identity: str) -> RfcQuestion:
    """What a voter reads: the RFC, and its reviews."""
    asked = rfc_subject(record, current_identity)
    reviews = (WorkItem("REVIEW", review_words(review), review.role) for review in record.reviews)
    return RfcQuestion(asked.subject, (*asked.work, *reviews))


def review_words(review: RfcReview) -> str:
    """A review on a few lines."""
    reasons = "\n".join(f"- {reason}" for reason in review.reasons)
    return f"{review.role}: {review.verdict} (confidence {review.confidence:g})\n{reasons}"


def identity_change(current: str, proposed: str) -> str:
    """The lines that go (-) and come (+), with nothing around them."""
    lines = difflib.unified_diff(current.splitlines(), proposed.splitlines(), lineterm="", n=0)
    changed = [line for line in lines if line[:1] in "+-" and not line.startswith(("+++", "---"))]
    return "\n".join(changed) or "no line changes"


def rfc_bytes(record: RfcRecord) -> bytes:
    """What a creator signs of an RFC that attaches no identity: its id, kind, title and text as one JSON list."""
    parts: Sequence[str] = (record.rfc_id, record.kind, record.title, record.text)
    return _SIGNED_AS + msgspec.json.encode(parts)


INSTRUCTION = "rfc_review"


class Reviewer:
    """Asks one role for its review. `rouse` wakes the models of roles that sleep."""

    def __init__(
        self, floor: CouncilRoom, speaker: Speaker, clock: Clock, table: GovernanceTable, rouse: Rouse | None = None
    ) -> None:
        self._floor = floor
        self._speaker = speaker
        self._clock = clock
        self._limits = table.limits
        self._rouse = rouse

    async def rouse(self, call: RequestContext) -> None:
        """Before a review: wake the sleepers that can be woken."""
        if self._rouse is not None:
            await self._rouse(call)

    async def review(self, role: Role, record: RfcRecord, asked: RfcQuestion, call: RequestContext) -> RfcReview:
        """The role's review, within the limit of time. Raises as Speaker.say, and Unavailable for a role that cannot.

        A reply that is not a review raises BadInput.
        """
        self._require(role)
        limit_s = self._limits.review_s
        ask = Ask(
            role=role,
            task_instruction=INSTRUCTION,
            subject=asked.subject,
            work=asked.work,
            form=review_form(self._limits.review_tokens),
            max_tokens=self._limits.review_tokens,
            turn_id=record.rfc_id,
        )
        timer = asyncio.timeout(limit_s)
        try:
            async with timer:
                said = await self._speaker.say(ask, call.until(self._clock.monotonic() + limit_s))
        except TimeoutError as error:
            if not timer.expired():
                raise
            raise DeadlineExceeded(f"{role} wrote no review within {limit_s:g} s; ask again") from error
        form = read_review(said.text)
        return RfcReview(
            role=role,
            verdict=form.verdict,
            confidence=form.confidence,
            reasons=list(form.reasons),
            at=to_iso(self._clock.now()),
            packet_id=said.packet_id,
            model=said.model,
        )

    def _require(self, role: Role) -> None:
        seat = next((seat for seat in self._floor.seats() if seat.role == role), None)
        if seat is None or not seat.active:
            raise Unavailable(f"{role} is inactive; see `gaiad council status`, and ask again when it is active")
        if not seat.can_vote:
            raise Unavailable(
                f"{role} has a model that only quotes; give it one that writes (roles.{role} in config.toml)"
            )
