"""Integration (JIT): what a round's evidence comes to so far, folded into one state. Pure.

It is made in every round before the reflection, by the rules, with what a model adds where one thinks: the pages that
its own searches brought, and what it finds missing. The words a model answers in come with the synthesis, at the end.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from gaiad.research.citations import inline, shown

if TYPE_CHECKING:  # a trail holds states, and the synthesis stands above trails
    from gaiad.research.synthesis import Statement


class IntegrationState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JIT's IntegrationState. Facts are quotes with their packet, `used_pages` ids, best first."""

    briefing_draft: str = ""
    key_facts: tuple[str, ...] = ()
    open_questions: tuple[str, ...] = ()
    used_pages: tuple[str, ...] = ()


def integrate(
    before: IntegrationState, draft: str, statements: "Sequence[Statement]", used: Iterable[str]
) -> IntegrationState:
    """The state with this round's `draft`, its quotes as facts, and the pages in `used`; what was open stays open until
    the round is judged.

    A round that brings nothing leaves what was there.
    """
    if not statements:
        return before
    facts = [fact_of(one.quote.text, one.citation.packet_id) for one in statements]
    return msgspec.structs.replace(
        before, briefing_draft=draft, key_facts=tuple(dict.fromkeys(facts)), used_pages=tuple(dict.fromkeys(used))
    )


def left_open(state: IntegrationState, missing: Iterable[str], *, enough: bool) -> IntegrationState:
    """The state once the round is judged: what is `missing` is asked after, nothing where it is `enough`."""
    questions = () if enough else tuple(question_on(aspect) for aspect in missing)
    return msgspec.structs.replace(state, open_questions=questions)


def question_on(aspect: str) -> str:
    """A missing aspect as a question."""
    return f"Is there anything on: {aspect}?"


def fact_of(quote: str, packet_id: str) -> str:
    """A quote as a key fact."""
    return f"{shown(quote)} {inline(packet_id)}"
