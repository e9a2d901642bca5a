"""What is said instead of an answer: the seed's words for each failure mode (GAM, "Failure modes & mitigation"),
replies to small talk, and what a run had to do without. Pure.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from constants.load import load
from gaiad.research.sentences import shown
from gaiad.research.words import lowered
from gaiad.wire.schemas import ResearchResult


class _Responses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_found: str
    nearest: str
    not_said_then: str
    suggestions: tuple[str, ...]
    empty: str
    not_found_in_chat: str
    partial_in_chat: str
    unsure_in_chat: str
    partial_note: str
    clarify: str
    offer: str


def _responses() -> _Responses:
    return load("responses.toml", _Responses)


def not_found(query: str, *, empty: bool = False) -> str:
    """Failure mode 1, suggestions included."""
    lines = [_responses().not_found.format(query=shown(query)), "", "Suggestions:"]
    return "\n".join([*lines, *(f"- {suggestion}" for suggestion in suggestions(empty=empty))])


def nearest() -> str:
    """What is said before quotes that come near a question without answering it."""
    return _responses().nearest


def not_said_then(date_text: str) -> str:
    """What is said before the packets of a period in which nothing answers."""
    return _responses().not_said_then.format(then=date_text)


def suggestions(*, empty: bool = False) -> list[str]:
    """What to try next; in an `empty` archive there is one thing only."""
    return [_responses().empty] if empty else list(_responses().suggestions)


def in_chat(result: ResearchResult) -> str:
    """The answer with a short line for the seed's words, where packets and confidence are shown beside it."""
    table = _responses()
    if result.answer.startswith(table.not_found.partition("{")[0]):
        return table.not_found_in_chat
    doubt = table.partial_in_chat if result.status == "PARTIAL" else ""
    if not doubt and result.status == "SUCCESS" and result.confidence_band == "LOW":
        doubt = table.unsure_in_chat
    return f"{result.answer}\n\n{doubt}" if doubt else result.answer


def at_limit() -> str:
    """Why a PARTIAL run ended at its limit of iterations."""
    return _responses().partial_note


def offer() -> str:
    """What is said before topics to choose from."""
    return _responses().offer


def clarify(query: str) -> str:
    """The question back to the person when theirs names nothing."""
    return _responses().clarify.format(vague=shown(query))


FORM_MISSED = "did not keep to the form"
_STEP = re.compile(r"(?P<step>\w+) by rules: (?P<why>.*)", re.DOTALL)


def by_rules(step: str, why: str) -> str:
    """The sentence for a step that a model did not take; `step` is one word, such as "reflection"."""
    return f"{step} by rules: {why}"


def told_once(reasons: Sequence[str]) -> tuple[str, ...]:
    """Each reason once, in the order of its first time; steps with the same one stand together.

    Of replies that missed their form in several ways the first is told.
    """
    steps: dict[str, Counter[str]] = {}
    told: dict[str, str] = {}
    for reason in reasons:
        match = _STEP.fullmatch(reason)
        why = match["why"] if match else reason
        before, missed, _ = why.partition(FORM_MISSED)
        kind = (before + missed if missed else why) if match else reason
        told.setdefault(kind, why)
        steps.setdefault(kind, Counter()).update([match["step"]] if match else [])
    return tuple(by_rules(_listed(steps[kind]), why) if steps[kind] else why for kind, why in told.items())


def _listed(steps: Counter[str]) -> str:
    named = [step if times == 1 else f"{step} ({times} times)" for step, times in steps.items()]
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)


_WORDS_MAX = 6


class _Said(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]
    reply: str


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    greeting: _Said
    thanks: _Said
    farewell: _Said


@functools.cache
def _table() -> _Table:
    return load("small_talk.toml", _Table)


def reply_to(text: str) -> str:
    """The reply to a message that only greets, thanks or takes leave; "" for any other."""
    words = lowered(text)
    if not words or len(words) > _WORDS_MAX or "?" in text:
        return ""
    kinds = (_table().thanks, _table().greeting, _table().farewell)
    return next((kind.reply for kind in kinds if set(words) <= set(kind.words)), "")
