"""What a turn looks up before anybody asks the archive (GAM, Integration Point 2): whether a message asks for what was
said before, whether the archive knows what it speaks of, and the memos that seed a plan (JIT).

"Explain the convergent scan" asks for nothing said before, but somebody said it before. One search by words answers
that: a page has to cover the words of the message that are not everyday ones. A needless look costs milliseconds and
some room in the prompt, a missed one costs the answer. A memo is made of what was said, so it is data like any quoted
page, no instruction.
"""

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import chain, zip_longest

import msgspec

from constants.load import load
from gaiad.base.errors import NotFound
from gaiad.base.ports import Archive, RequestContext
from gaiad.research.answer import tokens_of
from gaiad.research.evidence import asks, only_asked, own_words, repeats_question
from gaiad.research.one_run import QUERY_MAX_CHARS
from gaiad.research.query import SearchParameters, process_query, request_words
from gaiad.research.sentences import split
from gaiad.research.words import content_words, cut, forms, normalise, stem, stems, stop_words
from gaiad.wire.memory import Memo
from gaiad.wire.schemas import Facets, Page, SearchRequest


class _Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    why: str
    pattern: str


class _Signs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sign: tuple[_Sign, ...]


# A time alone asks for nothing that was said: "What holidays are in November?"
_LOOKS_BACK = re.compile(r"\b(?:was|were|did|had|have|has|we|us|our|i|my|me|\w{2,}ed)\b", re.IGNORECASE)


def history_need(message: str, facets: Facets, now: datetime, zone: tzinfo) -> str:
    """Why the archive is to be looked into, in words; "" when the message shows no sign of it."""
    if why := asks_back(message):
        return why
    found = process_query(message, facets, now, zone)
    if found.date_text and _LOOKS_BACK.search(message) and _is_remembered(found, facets, now, zone):
        return f"names a time: {found.date_text}"
    for kind, values in (("topic", found.topics), ("person", found.people), ("model", found.models)):
        if values:
            return f"names a {kind} of the archive: {values[0]}"
    return ""


def asks_back(message: str) -> str:
    """How the message asks for what only the person's own memory can tell, in words; "" when it does not."""
    lowered = " ".join(message.lower().split())
    return next((why for why, pattern in _signs() if pattern.search(lowered)), "")


def _is_remembered(found: SearchParameters, facets: Facets, now: datetime, zone: tzinfo) -> bool:
    """Whether the time began before today and did not end before the archive begins."""
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    is_past = found.since is None or found.since < today
    oldest = datetime.fromisoformat(facets.first) if facets.first else None
    return is_past and (oldest is None or found.until is None or found.until > oldest)


@functools.cache
def _signs() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((sign.why, re.compile(sign.pattern)) for sign in load("history_words.toml", _Signs).sign)


COVERED, COVERED_OF_OURS, COVERED_FOR_A_TASK = 0.6, 0.5, 1.0
PAGES_READ = 12
MOST_WORDS = 24  # of a long message its first ones


class _Everyday(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[str, ...]
    ours: tuple[str, ...]
    tasks: tuple[str, ...]


class MessageTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What a message can be known by: `words` normalised, once each; `least` of them have to occur in one page, which
    is `share` of them at least, one of `rare` among them unless it is empty."""

    words: tuple[str, ...]
    share: float
    least: int
    rare: tuple[str, ...] = ()

    def shown_by(self, page: Page) -> list[str]:
        """The words that occur in the page, [] when they are too few."""
        return self.shown_in(f"{page.text} {page.topic} {page.model}")

    def shown_in(self, text: str) -> list[str]:
        """The words that occur in the text, [] when they are too few."""
        standing = stems(text)
        found = [word for word in self.words if not standing.isdisjoint(map(stem, (word, *forms(word))))]
        enough = len(found) >= max(self.least, self.share * len(self.words))
        return found if enough and (not self.rare or not set(self.rare).isdisjoint(found)) else []


def telling(message: str) -> MessageTerms:
    """The words that would tell it: uncommon ones; of what is said to be ours everyday words too.

    One uncommon word among others tells nothing alone: in "what is a unit test" a page about units of storage has it.
    """
    table, plain = _table(), " ".join(message.lower().split())
    spoken = [word.lower for word in cut(message)]
    words = [word for word in dict.fromkeys(spoken) if word not in stop_words() and not _is_number(word)]
    words = [word for word in words if word not in request_words()]
    rare = [word for word in words if stem(word) not in everyday_stems()]
    if any(re.search(pattern, plain) for pattern in table.tasks):
        return MessageTerms(words=tuple(rare[:MOST_WORDS]), share=COVERED_FOR_A_TASK, least=2)
    if set(spoken) & set(table.ours) and words:
        return MessageTerms(words=tuple(words[:MOST_WORDS]), share=COVERED_OF_OURS, least=1)
    if len(rare) == 1 and len(words) > 1:
        return MessageTerms(words=tuple(words[:MOST_WORDS]), share=COVERED, least=2, rare=tuple(rare))
    return MessageTerms(words=tuple(rare[:MOST_WORDS]), share=COVERED, least=min(2, len(rare)))


def told_before(message: str, said: Collection[str]) -> str:
    """The sentence of what the person `said`, no question, that has most of what the message can be known by, of equals
    the latest; "" for none. Who asks about their own affairs may do so in everyday words alone.
    """
    told = telling(message)
    if not told.least and asks_back(message):
        told = MessageTerms(words=tuple(content_words(message)), share=COVERED_OF_OURS, least=1)
    best, most = "", 0
    for text in (sentence.text for one in said for sentence in split(one)) if told.least else ():
        shown = 0 if asks(text) else len(told.shown_in(text))
        best, most = (text, shown) if shown >= max(most, 1) else (best, most)
    return best


async def familiar(archive: Archive, message: str, passed_over: Collection[str], call: RequestContext) -> list[str]:
    """The words of the message that a page knows, [] when none does.

    Pages of `passed_over` (packet ids), the same question asked before, what a person only asked of gaiad in a chat and
    what a model of ours said do not count.
    Raises what the archive raises.
    """
    told = telling(message)
    if not told.words or told.least < 1:
        return []
    request = SearchRequest(query=" ".join(told.words), mode="bm25", limit=PAGES_READ, tenant=call.tenant)
    hits = [hit for hit in (await archive.search(request, call)).hits if hit.packet_id not in passed_over]
    pages = await archive.pages([hit.page_id for hit in hits], call) if hits else []
    pages = [page for page in pages if not own_words(page) and not repeats_question(page, message)]
    return most_shown(told, [page for page in pages if not only_asked(page, message)])


def most_shown(told: MessageTerms, pages: Sequence[Page]) -> list[str]:
    """What the page with most of the words has of them."""
    return max((told.shown_by(page) for page in pages), key=len, default=[])


def _is_number(word: str) -> bool:
    return not any(character.isalpha() for character in word)


@functools.cache
def _table() -> _Everyday:
    return load("everyday_words.toml", _Everyday)


@functools.cache
def everyday_stems() -> frozenset[str]:
    """Stems of words of ordinary talk and of everyday tasks."""
    return frozenset(stem(word) for word in _table().words)


NAME = re.compile(r"(?<!^)(?<![.!?]\s)\b[^\W\d_a-z][\w'’-]+")
_OF_WHAT = re.compile(r"\bthe ((?:[a-z-]+ )?[a-z-]+)['’]s\b|\bof the ((?:[a-z-]+ )?[a-z-]+)[?.!]*$")
_POSSESSIVE = re.compile(r"['’]s?$")


def names_asked_about(message: str) -> set[str]:
    """The names in a question that gives no number itself, as `bare_name`: "matthi" of "How old is Matthis?"; without
    one what it asks for something of: "choir" of "Who is the choir's conductor?"."""
    if any(map(str.isdigit, message)) or not asks(message):
        return set()
    names = {bare_name(name) for name in NAME.findall(message) if normalise(name) not in stop_words()}
    return names or owners_asked_about(message)


def owners_asked_about(message: str) -> set[str]:
    """What a question asks for something of, by a definite noun that not everybody talks of; stems."""
    found = [stem(word) for one in _OF_WHAT.finditer(message) for word in content_words(one[1] or one[2])]
    return set() if set(found) <= everyday_stems() else set(found)


def bare_name(name: str) -> str:
    """Its stem, without the ending that says whose something is."""
    return stem(_POSSESSIVE.sub("", name).lower())


MOST_TOKENS = 200
PAGES = 8


async def plan_seeds(archive: Archive, session_id: str, question: str, call: RequestContext) -> list[str]:
    """Memo texts for a plan, the most useful first, `MOST_TOKENS` together at most by a cautious estimate.

    A turn has the labels of what it is given, and these lines are not among it: what any channel does not see is left
    out, as whatever is written from the plan may be read on another channel.

    [] when nothing is remembered. Raises DeadlineExceeded, Cancelled, and what the archive's search raises.
    """
    call = call.without(call.guarded, ())
    try:
        own = await archive.session_memos(session_id, call)
        found = await _matching(archive, session_id, question, call)
    except NotFound:  # a tenant that nobody has spoken in yet
        return []
    return list(_within(MOST_TOKENS, _ordered(own, found, question)))


async def _matching(archive: Archive, session_id: str, question: str, call: RequestContext) -> list[str]:
    """Memos of other sessions' pages that the archive finds, best first."""
    if not content_words(question):
        return []
    request = SearchRequest(query=question[:QUERY_MAX_CHARS], limit=PAGES, tenant=call.tenant)
    hits = (await archive.search(request, call)).hits
    others = [hit.page_id for hit in hits if hit.session_id != session_id]
    return [header.memo_snapshot for header in await archive.page_headers(others, call)]


def _ordered(own: Sequence[Memo], found: Sequence[str], question: str) -> Iterator[str]:
    """The latest of the session, then one by one the session's best and the archive's best."""
    wanted = {stem(word) for word in content_words(question)}
    shared = {memo.page_id: len(wanted & stems(memo.text)) for memo in own}
    matching = [memo for memo in own if shared[memo.page_id]]
    matching.sort(key=lambda memo: (shared[memo.page_id], memo.sequence), reverse=True)
    pairs = zip_longest([memo.text for memo in matching], found, fillvalue="")
    return chain((memo.text for memo in own[-1:]), chain.from_iterable(pairs))


def _within(tokens: int, texts: Iterator[str]) -> Iterator[str]:
    """Each text once, those that still fit; a long one makes room for shorter ones after it."""
    left, said = tokens, set[str]()
    for text in texts:
        cost = tokens_of(text)
        if text and text not in said and cost <= left:
            left -= cost
            said.add(text)
            yield text
