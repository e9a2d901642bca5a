"""Questions for who said something: "Which model defended RAG?", "Who said that the pump costs 2400 euros?" Pure.

A transcript tells its speaker by itself. Of any other quote only the model of its packet is known, and is told then.
"""

import re

from gaiad.research.query import is_role
from gaiad.schemas import Page

_SAYING = (
    "said|says|claim|argu|defend|propos|suggest|think|thought|believ|wrote|writes|told|mention|object|recommend|warn|"
    "explain|answer|criticis|criticiz|reject|support|disagree|agree|prefer|refus"
)
_MODEL = r"(?:ai |language )?(?:models?|assistants?|ais?|llms?)\b"
_WHO = re.compile(
    rf"which {_MODEL}(?! of\b)|what {_MODEL} (?:\w+ )?(?:{_SAYING})|who (?:\w+ )?(?:{_SAYING})|"
    r"whose (?:idea|words|view|opinion|proposal|argument|objection)\b|"
    r".*\b(?:by|from|to) (?:which|what) (?:model|assistant)\b",
    re.IGNORECASE,
)


def asks_who_said(question: str) -> bool:
    """Whether the answer is a model or a speaker."""
    return _WHO.match(question.strip()) is not None


def said_by(page: Page) -> str:
    """Who says what the page says, "" when nobody knows: its speaker, and the model where the speaker is a role."""
    if page.speaker and not is_role(page.speaker):
        return page.speaker
    if not page.model:
        return page.speaker
    return f"{page.speaker} ({page.model})" if page.speaker else f"{page.model} (model of the packet)"
