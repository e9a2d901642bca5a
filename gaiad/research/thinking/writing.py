"""A model's sentences as an answer: each held against what it cites, dropped where nothing carries it, and put together
in the order that the kind of question wants, every sentence with the packets it comes from (GAM 5). Pure.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo

from gaiad.research.citations import cite, inline, shown
from gaiad.research.query import SearchParameters
from gaiad.research.quotes import Quote
from gaiad.research.synthesis import Statement, show_day
from gaiad.research.thinking.forms import Sentence, Synthesis
from gaiad.research.thinking.passages import Passage
from gaiad.research.thinking.steps import Draft, Written, statements_of
from gaiad.research.thinking.support import unsupported

_MARK = re.compile(r"\s*[\[(]\s*(?:packet\s*:|s\d+\b)[^\])]*[\])]", re.IGNORECASE)


def carried(
    said: Synthesis, passages: Mapping[str, Passage], parameters: SearchParameters, engine: str, zone: tzinfo
) -> tuple[Draft, list[str]]:
    """The sentences that their passages carry, in the order of the answer, and why others were dropped."""
    kept: list[Written] = []
    dropped: list[str] = []
    for sentence in said.sentences:
        written, why = _held(sentence, passages, parameters.text, zone)
        if written is None:
            dropped.append(why)
        elif written.text not in [other.text for other in kept]:
            kept.append(written)
    if parameters.kind == "evolution" or parameters.dated:
        kept.sort(key=_first_said)
    return Draft(
        statements=statements_of(kept), sentences=tuple(kept), engine=engine, unsupported=len(dropped)
    ), dropped


def _held(
    sentence: Sentence, passages: Mapping[str, Passage], question: str, zone: tzinfo
) -> tuple[Written | None, str]:
    text = shown(_MARK.sub("", sentence.text)).strip()
    if unknown := [label for label in sentence.sources if label not in passages]:
        return None, f"{unknown[0]!r} is no passage of the context"
    quotes = [passages[label] for label in dict.fromkeys(sentence.sources)]
    if not text:
        return None, "it says nothing"
    if why := unsupported(text, quotes, question, zone):
        return None, why
    return Written(text, tuple(_statement(quote) for quote in quotes)), ""


def _statement(passage: Passage) -> Statement:
    quote = Quote(passage.page, passage.start, passage.end, 1.0)
    return Statement(quote, cite(passage.page, passage.start, passage.end))


def _first_said(written: Written) -> str:
    return min(statement.quote.page.timestamp for statement in written.statements)


def composed(parameters: SearchParameters, sentences: Sequence[Written], zone: tzinfo) -> str:
    """The answer's text: a line a moment for an evolution, else one paragraph. Dates are days of `zone`."""
    if parameters.kind == "evolution":
        return "\n".join(f"- {show_day(_first_said(one), zone)}: {_with_marks(one)}" for one in sentences)
    return " ".join(_with_marks(one) for one in sentences)


def _with_marks(written: Written) -> str:
    packets = dict.fromkeys(statement.citation.packet_id for statement in written.statements)
    return " ".join([written.text, *(inline(packet_id) for packet_id in packets)])
