"""The words of a reflection's advice: Lite writes, Prime accepts. Without models that can, a fixed sentence."""

import asyncio
from collections.abc import Callable

from council.execute_review import read_review, review_form
from council.ports import Ask, Speaker
from council.roles import Role
from council.stages import Form
from gaiad.base.errors import Cancelled, GaiadError
from gaiad.base.logs import get_logger
from gaiad.base.ports import RequestContext
from gaiad.context.advice import LONGEST
from gaiad.models.probe import Duty
from prompts.packet import WorkItem

Able = Callable[[Role, Duty], bool]
"""Whether a role's model has shown that it can do a duty."""
_WRITER: Role = "lite"
_REVIEWER: Role = "prime"
_TOKENS = 64
_WAIT_S = 60.0
_log = get_logger("gaiad.context")


class AdviceWriter:
    """Asks behind what people wait for."""

    def __init__(self, speaker: Speaker, able: Able) -> None:
        self._speaker = speaker
        self._able = able

    async def write(self, fault: str, rule: str, call: RequestContext) -> str:
        """Advice against a fault that was seen (in words): Lite's when Prime accepts it, else `rule`."""
        if not (self._able(_WRITER, "plan") and self._able(_REVIEWER, "verify")):
            return rule
        seen = WorkItem("FAULT", fault, "")
        try:
            text = await self._say(_WRITER, "advice", "What to do about the fault.", (seen,), Form(), call)
            advice = next((line for line in map(str.strip, text.splitlines()) if line), "")[:LONGEST]
            if not advice:
                return rule
            given = (seen, WorkItem("ADVICE", advice, _WRITER))
            asked = "Whether the quoted advice may be given."
            review = read_review(await self._say(_REVIEWER, "advice_review", asked, given, review_form(_TOKENS), call))
        except Cancelled:
            raise
        except (GaiadError, TimeoutError) as error:
            _log.info("advice_by_rule", reason=str(error))
            return rule
        return advice if review.verdict == "accept" else rule

    async def _say(
        self, role: Role, key: str, subject: str, work: tuple[WorkItem, ...], form: Form, call: RequestContext
    ) -> str:
        ask = Ask(role=role, task_instruction=key, subject=subject, work=work, form=form, max_tokens=_TOKENS)
        async with asyncio.timeout(_WAIT_S):
            return (await self._speaker.say(ask, call)).text
