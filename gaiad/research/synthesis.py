"""The synthesis layer (GAM 5), extractive: quotes in the order and shape the kind of question wants, with packet ids.

Pure. Text is composed from verified quotes only; nothing is said that no packet says, apart from dates, speakers,
counts and the words that hold quotes together.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, tzinfo

import msgspec

from gaiad.research.citations import cite, inline, shown
from gaiad.research.cue_words import deciding_stems
from gaiad.research.evidence import Evidence, Term, speaks_of
from gaiad.research.listing import Listing
from gaiad.research.query import SearchParameters
from gaiad.research.quotes import Quote, joined, pick, wanted
from gaiad.research.reasons import asks_why, gives_reason, with_reasons
from gaiad.research.replaced import replacing
from gaiad.research.selection import decided
from gaiad.research.who_said import asks_who_said, said_by
from gaiad.research.words import content_words, stem, stems
from gaiad.schemas import Citation

THREADS_MAX = 5
NEAR_THE_POINT = 0.6  # of the best quote's cover of the question: a reason is asked of one thing
_ABOUT = re.compile(r"\b(?:about|regarding|concerning|on) (.+)$", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Statement(msgspec.Struct, frozen=True):
    """One quote, its citation, and the side of a comparison it stands on, "" when none."""

    quote: Quote
    citation: Citation
    side: str = ""


def _state(quote: Quote, side: str = "") -> Statement:
    return Statement(quote, cite(quote.page, quote.start, quote.end), side)


def plan_statements(
    parameters: SearchParameters, selected: Sequence[Evidence], terms: Sequence[Term], max_quotes: int
) -> list[Statement]:
    """Which quotes the answer is made of, in the order they will stand."""
    if not selected:
        return []
    if len(parameters.subjects) == 2:
        return _for_each_side(parameters, selected, terms, max_quotes)
    quotes = _in_order(parameters, _picked(parameters, selected, terms, max_quotes), selected)
    return [_state(quote) for quote in joined(quotes)]


def _picked(
    parameters: SearchParameters, selected: Sequence[Evidence], terms: Sequence[Term], max_quotes: int
) -> list[Quote]:
    """The best quotes of the kind the question wants: of one place, of all that was decided, or with their reasons."""
    one_place = parameters.kind == "factual"
    fields = parameters.focus == "behavioral_state" or bool(parameters.metrics)
    of_decisions = one_place and decided(parameters)
    most = (2, 5 if of_decisions else 3) if one_place else (3, max_quotes)
    quotes = pick(selected, terms, parameters.text, *most, fields=fields)
    if asks_why(parameters.text):
        least = NEAR_THE_POINT * max((quote.score for quote in quotes), default=0.0)
        near = [one for one in quotes if one_place or one.score >= least or gives_reason(one.text)]
        return with_reasons(near, selected)
    return _to_the_point(quotes) if of_decisions else quotes


def _in_order(parameters: SearchParameters, quotes: list[Quote], selected: Sequence[Evidence]) -> list[Quote]:
    """By time where the question asks how it went, or one packet takes another's place; else the likeliest first."""
    if parameters.kind in ("evolution", "conceptual") or parameters.dated:
        return sorted(quotes, key=lambda one: (one.page.timestamp, one.page.packet_id, one.page.sequence, one.start))
    if parameters.kind != "factual":
        return quotes
    if decided(parameters) or replacing(quotes):
        return sorted(quotes, key=lambda one: (one.page.timestamp, one.page.packet_id, one.start))
    likeliest_first = list(dict.fromkeys(item.page.packet_id for item in selected))
    return sorted(quotes, key=lambda one: likeliest_first.index(one.page.packet_id))


def _to_the_point(quotes: Sequence[Quote]) -> list[Quote]:
    """Of each packet its best quote, those that cover at least half as much of the question, and what was decided."""
    best: dict[str, float] = {}
    for quote in quotes:
        best[quote.page.packet_id] = max(quote.score, best.get(quote.page.packet_id, 0.0))
    return [
        quote
        for quote in quotes
        if quote.score >= 0.5 * best[quote.page.packet_id] or stems(quote.text) & deciding_stems()
    ]


def _for_each_side(
    parameters: SearchParameters, selected: Sequence[Evidence], terms: Sequence[Term], max_quotes: int
) -> list[Statement]:
    """Quotes by the side they speak for; what names both stands on its own, after the sides."""
    first, second = parameters.subjects
    places = ((first, second, max(2, max_quotes // 2)), (second, first, max(2, max_quotes // 2)), ("", "", 2))
    by_side: dict[str, list[Quote]] = {}
    for side, other, most in places:
        foreign = {stem(word) for word in content_words(other)}
        own = [term for term in terms if term.stem not in foreign] or list(terms)
        quotes = [q for q in pick(selected, own, parameters.text, 50, 50) if _side(q, parameters.subjects) == side]
        by_side[side] = sorted(
            quotes[:most], key=lambda quote: (quote.page.timestamp, quote.page.sequence, quote.start)
        )
    chosen: list[Statement] = []
    for side, quotes in _on_topic(parameters, by_side, terms).items():
        chosen += [_state(quote, side or f"{first} and {second}") for quote in joined(quotes, 0)]
    return chosen


def _on_topic(
    parameters: SearchParameters, by_side: dict[str, list[Quote]], terms: Sequence[Term]
) -> dict[str, list[Quote]]:
    """Without what was said of other things, where the question says what `about` and any quote speaks of that."""
    named = _ABOUT.search(parameters.text)
    words = stems(named[1]) if named else set()
    topic = [term for term in terms if term.stem in words]
    about = {
        side: [quote for quote in quotes if any(term.said_in(stems(quote.text)) for term in topic)]
        for side, quotes in by_side.items()
    }
    return about if any(about.values()) else by_side


def _side(quote: Quote, subjects: Sequence[str]) -> str:
    """Whose side a quote is on: who says it, else the one thing it names, else the one its packet is of."""
    page = quote.page
    for text in (page.speaker, quote.text, page.model, page.topic):
        named = [subject for subject in subjects if speaks_of(text, subject)]
        if named:
            return named[0] if len(named) == 1 else ""
    return ""


def compose(parameters: SearchParameters, statements: Sequence[Statement], zone: tzinfo) -> str:
    """The answer's text. Dates are days of `zone`."""
    if len(parameters.subjects) == 2:
        return _compare(parameters.subjects, statements, zone)
    if parameters.order != "relevance":
        return _end_of_time(parameters, statements, zone)
    if parameters.kind == "evolution":
        return "\n".join(f"- {_dated(statement.quote, zone)}" for statement in statements)
    if parameters.kind == "conceptual":
        return _concept(parameters, statements, zone)
    who = asks_who_said(parameters.text)
    later = replacing([statement.quote for statement in statements])
    with_dates = parameters.dated or decided(parameters) or wanted(parameters.text).want == "time" or bool(later)
    lines = [_dated(s.quote, zone, who=who) if with_dates else _said(s.quote, who=who) for s in statements]
    marked = zip(statements, lines, strict=True)
    return "\n".join(f"Replaced on {line}" if statement.quote in later else line for statement, line in marked)


def _said(quote: Quote, *, who: bool = False) -> str:
    """The quote, its speaker outside of it, and its packet; the packet's model, too, when the question is `who`."""
    text = shown(quote.text)
    if speaker := said_by(quote.page) if who else quote.page.speaker:
        return f'{shown(speaker)}: "{text}" {inline(quote.page.packet_id)}'
    return f"{text} {inline(quote.page.packet_id)}"


def _dated(quote: Quote, zone: tzinfo, *, who: bool = False) -> str:
    return f"{show_day(quote.page.timestamp, zone)}: {_said(quote, who=who)}"


def _compare(subjects: Sequence[str], statements: Sequence[Statement], zone: tzinfo) -> str:
    parts = []
    for side in (*subjects, " and ".join(subjects)):
        lines = [f"- {_dated(s.quote, zone)}" for s in statements if s.side == side]
        if side in subjects and not lines:
            lines = ["- No statement found that is about this side alone."]
        if lines:
            parts.append("\n".join([f"{shown(side)}:", *lines]))
    return "\n\n".join(parts)


def _end_of_time(parameters: SearchParameters, statements: Sequence[Statement], zone: tzinfo) -> str:
    page = statements[0].quote.page
    which = "First" if parameters.order == "earliest" else "Last"
    topic = f' ("{shown(page.topic)}")' if page.topic else ""
    head = f"{which} discussed in {inline(page.packet_id)} on {show_day(page.timestamp, zone)}{topic}."
    return "\n".join([head, *(_said(statement.quote) for statement in statements)])


def _concept(parameters: SearchParameters, statements: Sequence[Statement], zone: tzinfo) -> str:
    threads = common_threads(parameters, [statement.quote for statement in statements])
    lines = [f"- {_dated(statement.quote, zone)}" for statement in statements]
    return "\n".join([*([f"Common threads: {', '.join(threads)}."] if threads else []), *lines])


def common_threads(parameters: SearchParameters, quotes: Sequence[Quote]) -> list[str]:
    """Words that stand in the quotes of two packets or more and are not the question's, most shared first."""
    asked = {stem(word) for word in (*parameters.keywords, *content_words(parameters.text))}
    packets: dict[str, set[str]] = {}
    written: dict[str, Counter[str]] = {}
    for quote in quotes:
        for word in content_words(quote.text):
            if len(word) > 3 and not any(character.isdigit() for character in word) and stem(word) not in asked:
                packets.setdefault(stem(word), set()).add(quote.page.packet_id)
                written.setdefault(stem(word), Counter())[word] += 1
    shared = sorted((key for key, ids in packets.items() if len(ids) > 1), key=lambda key: (-len(packets[key]), key))
    return [written[key].most_common(1)[0][0] for key in shared[:THREADS_MAX]]


def list_packets(listing: Listing, leads: dict[str, Citation], zone: tzinfo) -> str:
    """A listing, in its order: day, topic, model, and each packet's own first words with its citation mark."""
    many = f"{listing.total} {listing.noun}s, {'newest' if listing.latest_first else 'oldest'} first:"
    head = many if listing.total != 1 else f"1 {listing.noun}:"
    lines = [f"At least {head}" if listing.open_ended else head]
    for packet in listing.packets:
        model = f" ({shown(packet.model)})" if packet.model else ""
        lead = leads.get(packet.packet_id)
        words = f" {shown(lead.quote)}" if lead else ""
        topic = f' "{shown(packet.topic)}"' if packet.topic else ""
        lines.append(f"- {show_day(packet.timestamp, zone)}:{topic}{model}{words} {inline(packet.packet_id)}")
    if more := listing.total - len(listing.packets):
        lines.append(f"({more} more; narrow the question to see them.)")
    lines.append("Open one with: gaiad packets show PACKET_ID")
    return "\n".join(lines)


def show_day(timestamp: str, zone: tzinfo) -> str:
    """`Nov 27, 2025`: the day of a UTC timestamp in `zone`."""
    moment = datetime.fromisoformat(timestamp).astimezone(zone)
    return f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}"
