"""The synthesis layer (GAM 5), extractive: quotes in the order and shape the kind of question wants, with packet ids.

Pure. Text is composed from verified quotes only; nothing is said that no packet says, apart from dates, speakers,
counts and the words that hold quotes together.
"""

import functools
import re
from collections.abc import Callable, Sequence, Set
from datetime import datetime, tzinfo

from gaiad.base.citations import as_text
from gaiad.research.disagreement import replacing
from gaiad.research.evidence import speaks_of
from gaiad.research.listing import Listing
from gaiad.research.query import SearchParameters, is_role
from gaiad.research.scoring import wants_of
from gaiad.research.sentences import Quote, Statement, cite, inline, shown
from gaiad.research.unit_lines import ROW
from gaiad.research.words import content_words, stem, stems
from gaiad.wire.schemas import Citation, Page

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


def _called(page: Page) -> str:
    """The speaker for reading: the person is "You", a reply its model's where that is known."""
    if page.speaker == "user":
        return "You"
    return page.model if page.speaker == "assistant" and page.model else page.speaker


_ABOUT = re.compile(r"\b(?:about|regarding|concerning|on) (.+)$", re.IGNORECASE)
_ENTRY = re.compile(r"(?:[-*+•]|\d{1,3}[.)])\s|[^\s:]{1,80}(?: \([^\n]*\))?(?::\s|$)|\|")
_FIELD = re.compile(r"(?P<label>[^\s:]{1,80}): (?P<value>[^,]{1,40})")
_NUMBERED = re.compile(r"\d{1,3}[.)]\s")
_MARKS = re.compile(r"\*\*|__(?=\w)|(?<=\w)__|^\s*#{1,6}\s+")
_FENCE = re.compile(r"(?:```|~~~)\w*$|[|:\s-]+$")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _state(quote: Quote, side: str = "") -> Statement:
    return Statement(quote, cite(quote.page, quote.start, quote.end), side)


def in_order(parameters: SearchParameters, quotes: list[Quote]) -> list[Quote]:
    """By time where the question asks how it went; else as they come."""
    if parameters.kind in ("evolution", "conceptual") or parameters.dated:
        return sorted(quotes, key=_when)
    return quotes


def _when(quote: Quote) -> tuple[str, str, int, int]:
    return quote.page.timestamp, quote.page.packet_id, quote.page.sequence, quote.start


def side_by_side(
    parameters: SearchParameters, best: Callable[[int, Callable[[Quote], bool]], list[Quote]], most: int
) -> list[Statement]:
    """Quotes by the side they speak for; what names both stands on its own, after the sides. Where the question says
    what `about`, nothing else is quoted unless no quote speaks of that.

    `best` gives so many of the best quotes that it is told to accept.
    """
    subjects, named = parameters.subjects, _ABOUT.search(parameters.text)
    topic = {stem(word) for word in content_words(named[1])} if named else set()

    def of_side(side: str, about: Set[str], quote: Quote) -> bool:
        return _side(quote, subjects) == side and (not about or not about.isdisjoint(stems(quote.text)))

    def told(about: Set[str]) -> list[Statement]:
        found: list[Statement] = []
        for side, room in (*((one, max(2, most // 2)) for one in subjects), ("", 2)):
            quotes = best(room, functools.partial(of_side, side, about))
            found += [_state(quote, side or " and ".join(subjects)) for quote in sorted(quotes, key=_when)]
        return found

    return told(topic) or told(set())


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
    if parameters.kind in ("evolution", "conceptual"):
        return "\n".join(_item(_dated(statement.quote, zone)) for statement in statements)
    who = asks_who_said(parameters.text)
    later = replacing([statement.quote for statement in statements])
    with_dates = parameters.dated or wants_of(parameters.text) == "time" or bool(later)
    lines = [_dated(s.quote, zone, who=who) if with_dates else _said(s.quote, who=who) for s in statements]
    marked = zip(statements, lines, strict=True)
    return "\n".join(f"Replaced on {line}" if statement.quote in later else line for statement, line in marked)


def _said(quote: Quote, *, who: bool = False) -> str:
    """The quote, its speaker outside of it, and its packet; the packet's model, too, when the question is `who`.

    Before a list of what the question counts, how many it lists.
    """
    text = as_text(laid_out(quote.text))
    if quote.counted:
        text = f"{quote.counted} listed:\n{text.lstrip()}"
    mark = f"\n{inline(quote.page.packet_id)}" if text.endswith("|") else f" {inline(quote.page.packet_id)}"
    if speaker := said_by(quote.page) if who else _called(quote.page):
        words = text if text.startswith("\n") else f' "{text}"'
        return f"{shown(speaker)}:{words}{mark}"
    return f"{text.lstrip()}{mark}"


def quoted(statements: Sequence[Statement]) -> str:
    """The quotes by themselves, a paragraph each."""
    return "\n".join(_said(one.quote) for one in statements)


def laid_out(text: str) -> str:
    """A quote for reading: lists, tables and records a line an entry, Markdown's marks left out; text on one line."""
    rows = [shown(line) for line in text.splitlines() if line.strip()]
    if len(rows) > 1 and all(ROW.match(row) for row in rows):
        return "\n" + "\n".join(rows)
    lines = [_unmarked(line) for line in text.splitlines()]
    lines = [line for line in lines if line]
    if values := _of_one_field(lines):
        return values
    entries = [line for line in lines if _ENTRY.match(line)]
    if len(lines) < 2 or len(entries) * 2 < len(lines):
        return " ".join(lines)
    told = [line if _NUMBERED.match(line) else f"- {line.lstrip('-*+• ')}" for line in lines]
    first = told[0] if _ENTRY.match(lines[0]) else lines[0]
    return "\n" + "\n".join([first, *told[1:]])


def _of_one_field(lines: Sequence[str]) -> str:
    """Short values of one field, a line each, as one line; "" for anything else."""
    fields = [_FIELD.fullmatch(line) for line in lines]
    if len(fields) < 2 or len({field and field["label"] for field in fields}) > 1 or not fields[0]:
        return ""
    return f"{fields[0]['label']}: {', '.join(field['value'] for field in fields if field)}"


def _item(text: str) -> str:
    """An item of a list, its further lines below it."""
    return "- " + text.replace("\n", "\n  ")


def _unmarked(line: str) -> str:
    plain = shown(_MARKS.sub("", line))
    return "" if _FENCE.match(plain) else plain


def _dated(quote: Quote, zone: tzinfo, *, who: bool = False) -> str:
    """The quote below or beside its day: a list or a table begins on a line of its own."""
    said = _said(quote, who=who)
    gap = "\n" if said.startswith(("- ", "|")) else " "
    return f"{show_day(quote.page.timestamp, zone)}:{gap}{said}"


def _compare(subjects: Sequence[str], statements: Sequence[Statement], zone: tzinfo) -> str:
    parts = []
    for side in (*subjects, " and ".join(subjects)):
        lines = [_item(_dated(s.quote, zone)) for s in statements if s.side == side]
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
