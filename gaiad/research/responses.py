"""What is said instead of an answer: the seed's words for each failure mode (GAM, "Failure modes & mitigation"),
replies to small talk, and what a run had to do without. Pure.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from constants.load import load
from gaiad.research.sentences import inline, shown
from gaiad.research.words import lowered


class _Responses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_found: str
    nearest: str
    suggestions: tuple[str, ...]
    empty: str
    partial: str
    not_found_in_chat: str
    partial_in_chat: str
    unsure_in_chat: str
    stopped_note: str
    partial_note: str
    safeguard: str
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


def suggestions(*, empty: bool = False) -> list[str]:
    """What to try next; in an `empty` archive there is one thing only."""
    return [_responses().empty] if empty else list(_responses().suggestions)


def partial(packet_ids: list[str]) -> str:
    """Failure mode 2."""
    return _responses().partial + _sources(packet_ids)


def in_chat(answer: str, packet_ids: list[str]) -> str:
    """The answer with a short line for the seed's words, where packets and confidence are shown beside it."""
    table = _responses()
    if answer.startswith(table.not_found.partition("{")[0]):
        return table.not_found_in_chat
    sure = re.sub(rf"\n\nCONFIDENCE: [^\n]*\n\n{re.escape(safeguard())}$", "", answer)
    text = sure.replace(f"\n\n{partial(packet_ids)}", "", 1)
    line = table.partial_in_chat if text != sure else table.unsure_in_chat if sure != answer else ""
    return f"{text}\n\n{line}" if line else text


def _sources(packet_ids: list[str]) -> str:
    sources = ", ".join(inline(packet_id) for packet_id in packet_ids)
    return f"\n\nSources: {sources}" if sources else ""


def partial_note(at_limit: bool) -> str:
    """Why a PARTIAL run ended: at its limit of iterations (GAM's words), or before, with nothing new to try."""
    return _responses().partial_note if at_limit else _responses().stopped_note


def safeguard() -> str:
    """Failure mode 3, shown below high confidence."""
    return _responses().safeguard


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
