"""The reviews of an RFC (GCP 11): Prime and Lite read it, each by itself, and say approve or object, and why."""

import asyncio

from council.balloting import Rouse
from council.floor import Ask, Floor, Speaker
from council.governance.rules import GovernanceTable
from council.governance.words import RfcQuestion, read_review, review_form
from council.roles import Role
from gaiad.clock import Clock, to_iso
from gaiad.errors import DeadlineExceeded, Unavailable
from gaiad.governance_schemas import RfcRecord, RfcReview
from gaiad.ports import Call

INSTRUCTION = "rfc_review"


class Reviewer:
    """Asks one role for its review. `rouse` wakes the models of roles that sleep."""

    def __init__(
        self, floor: Floor, speaker: Speaker, clock: Clock, table: GovernanceTable, rouse: Rouse | None = None
    ) -> None:
        self._floor = floor
        self._speaker = speaker
        self._clock = clock
        self._limits = table.limits
        self._rouse = rouse

    async def rouse(self, call: Call) -> None:
        """Before a review: wake the sleepers that can be woken."""
        if self._rouse is not None:
            await self._rouse(call)

    async def review(self, role: Role, record: RfcRecord, asked: RfcQuestion, call: Call) -> RfcReview:
        """The role's review, within the limit of time. Raises as Speaker.say, and Unavailable for a role that cannot.

        A reply that is no review raises BadInput.
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
            raise Unavailable(f"{role} is inactive; see `gaiad council status`, and ask again when it is there")
        if not seat.can_vote:
            raise Unavailable(
                f"{role} has a model that only quotes; give it one that writes (roles.{role} in config.toml)"
            )
