"""The query interface (GAM 1): a question in natural language to SearchParameters. Pure; the archive's facets, the day
and the zone come in as values.

Dates, models and people read from words are preferences. Only a listing question, or a flag, makes them filters.
"""

import functools
import re
import unicodedata
from collections.abc import Collection
from datetime import datetime, timedelta, tzinfo
from typing import Literal

import msgspec

from constants.load import load
from gaiad.research.dates import Period, find_periods, hull
from gaiad.research.entities import Entities, find_metrics, ranges_of_packets, recognise, without_metrics
from gaiad.research.words import content_words, cut, is_letter, stop_words
from gaiad.wire.schemas import Facets, Focus, MetricRange

_PACKETS = r"(?:packets?|conversations?|sessions?|discussions?|chats?)"
_ENDS = r"(?:first|last|latest|earliest|oldest|newest|most recent)"
_NUMBERS = {
    word: number
    for number, word in enumerate(
        ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"], start=2
    )
}
_NUMBER = rf"(?P<number>\d{{1,3}}|{'|'.join(_NUMBERS)})(?![\w.])"
# After one of these a number counts; after any other word it may be a version (GPT 4 conversations).
_BEFORE = rf"(?:^|\b(?:me|us|the|our|my|show|list|give|get|find|pull|fetch|which|what|{_ENDS})\s+)"
_COUNT = re.compile(rf"{_BEFORE}(?P<all>{_NUMBER}\s+)(?:[\w'’.-]+\s+){{0,3}}?{_PACKETS}\b", re.IGNORECASE)
_ONE = re.compile(
    rf"\b{_ENDS}\s+(?:[\w'’.-]+\s+){{0,2}}?(?:packet|conversation|session|discussion|chat)\b", re.IGNORECASE
)
_END = re.compile(rf"\b{_ENDS}\b(?=(?:\s+[\w'’.-]+){{0,3}}?\s+{_PACKETS}\b)", re.IGNORECASE)
_SPEAK = r"(?:mention|speak of|talk about|discuss|contain|involve|name)"
_LEFT_OUT = re.compile(
    r"[\s,;]+(?:"
    r"(?:except|excluding)(?: for)?|apart from|other than|(?<=everything )but|(?<=all )but"
    rf"|(?:(?<=[,;] )|but |and )not|(?<=[,;] )without|(?:that |which )?(?:do|does|did)(?:n['’]t| not) {_SPEAK}"
    rf"|(?<=s )without(?=\s+(?-i:[A-Z]))|(?<=packets )without|(?<=conversations )without|(?<=sessions )without"
    r")\s+(?P<what>[^,;?.!]+)",
    re.IGNORECASE,
)


class ListWords(msgspec.Struct, frozen=True, kw_only=True):
    """`text` is the question without the words of the list; `most` how many packets it wants, 0 for all; `left_out`
    the words for what is not to be in it, "" when all is."""

    text: str
    most: int = 0
    left_out: str = ""


def read_list(question: str) -> ListWords:
    """`question` asks for a list and has no dates any more."""
    found = _LEFT_OUT.search(question)
    text = question if found is None else f"{question[: found.start()]} {question[found.end() :]}"
    count = _COUNT.search(text)
    most = 1 if _ONE.search(text) else 0
    if count is not None:
        said = count["number"].lower()
        most = _NUMBERS.get(said) or int(said)
        text = f"{text[: count.start('all')]} {text[count.end('all') :]}"
    text = " ".join(_END.sub(" ", text).split())
    return ListWords(text=text, most=most, left_out=found["what"].strip() if found else "")


_MORE = (
    r"(?:much |far |still |a lot |even )?"
    r"(?:more|less|fewer|better|worse|(?!(?:rather|whether|either|neither|number|other|under|over|after|ever|never)\b)\w{2,}er)\b"
)
_DETERMINER = r"(?:the|our|my|your|his|her|their|a|an|this|that)"
_THING = rf"(?:{_DETERMINER}\s+\w+(?:\s\w+)?|(?-i:[A-Z])[\w.-]*(?:\s(?-i:[A-Z0-9])[\w.-]*)?)"
_IS, _DOES = r"(?:is|was|are|were|has|had)", r"(?:does|do|did|will|would|can)"
# One is held against the other: "Is A dearer than B?", "Does A cost more than B?", "Which costs more, A or B?".
_EXCEEDS = (
    rf"{_MORE}.*?\b{_IS}\s+(?P<a>{_THING})\s+than\s+(?P<b>{_THING})",
    rf"{_MORE}.*?\b{_DOES}\s+(?P<a>{_THING})\s+\w+\s+than\s+(?P<b>{_THING})",
    rf"\b{_IS}\s+(?P<a>{_THING})\s+{_MORE}.*?\bthan\s+(?P<b>{_THING})",
    rf"\b{_DOES}\s+(?P<a>{_THING})\s+\w+\s+{_MORE}.*?\bthan\s+(?P<b>{_THING})",
    rf"\b(?:which|who|what)\b(?:\s\w+){{0,2}}\s{_MORE}[^,:]*[,:]\s*(?P<a>{_THING})\s+or\s+(?P<b>{_THING})",
)
_SUBJECTS = (
    r"(?:between|compar\w+)\s+(?P<a>.+?)\s+(?:and|with|to|vs\.?|versus)\s+(?P<b>.+?)(?=\s+(?:on|in|about|regarding|for|over|when|handle\w*|approach\w*)\b|[?.!,;]|$)",
    r"\bcompar\w+\s+how\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+(?:\w+(?:ed|led|ought|aid|aw|ent|ook|ell)|handle|see|view|think|feel|approach|describe)\b",
    r"\bhow\s+(?:do|did|does)\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+differ\b",
    r"\b(?:do|does|did)\s+(?P<a>.+?)\s+and\s+(?P<b>.+?)\s+have in common\b",
    r"(?P<a>[\w.-]+(?:\s[\w.-]+)?)\s+(?:vs\.?|versus)\s+(?P<b>[\w.-]+(?:\s[a-z]\b)?)",
    *_EXCEEDS,
)


def exceeds(question: str) -> bool:
    """Whether it asks if, or by how much, one thing is more than another one that it names."""
    return any(re.search(pattern, question, flags=re.IGNORECASE) for pattern in _EXCEEDS)


def subjects_of(question: str) -> tuple[str, ...]:
    """The two, without their articles; () when the question names none, or one twice."""
    for pattern in _SUBJECTS:
        match = re.search(pattern, question, flags=re.IGNORECASE)
        if match:
            first, second = (_bare_subject(match[group]) for group in ("a", "b"))
            return (first, second) if first and second and first.lower() != second.lower() else ()
    return ()


def _bare_subject(text: str) -> str:
    """The name in `GAM architecture` is GAM, `plan A` keeps its letter; without a name all words but articles."""
    said = text.strip(" \"'").split()
    if said and is_letter(said[-1]):
        return " ".join([*(word for word in said[-2:-1] if word.lower() not in stop_words()), said[-1]])
    names = [word for word in said if word[:1].isupper() and word.lower() not in stop_words()]
    return " ".join(names or [word for word in said if word.lower() not in ("how", "the", "a", "an")])


Kind = Literal["factual", "evolution", "comparative", "conceptual", "listing"]
Order = Literal["relevance", "earliest", "latest"]

# Who a question may be put to. Any other word before the comma ("Yesterday, what ...") is part of the question.
_ADDRESSED = (
    "gaiad?|assistant|prime|lite|codemind|claude|gemini|(?:chat)?gpt|grok|copilot|llama|mistral|qwen|gemma|deepseek"
)
_VOCATIVE = re.compile(
    rf"^(?:(?:hey|hi|hello) \w+[,:] |(?:(?:hey|hi|hello|ok|okay),? )*(?:(?:{_ADDRESSED})[,:] )?)"
    r"(?=please |what|when|who|why|how|where|which|find|show|tell|list|pull|compar|do|did|can|could)",
    re.IGNORECASE,
)
_OF_THE_LATEST = frozenset({"last", "now", "nowadays", "current", "currently", "moment"})
# Months that are first names too, after a word that may as well stand before a name ("of").
_LONE_MONTH = re.compile(
    r"(?:(?P<of>for|from|of|by|on|at)|[\w ]+) (?P<month>march|april|may|june|august)", re.IGNORECASE
)
_PHRASE = re.compile(r'"([^"]{2,})"|“([^”]{2,})”')


class _QueryWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    listing: tuple[str, ...]
    find_packet: tuple[str, ...]
    comparative: tuple[str, ...]
    evolution: tuple[str, ...]
    evolution_words: tuple[str, ...]
    conceptual: tuple[str, ...]
    earliest: tuple[str, ...]
    latest: tuple[str, ...]
    openings: tuple[str, ...]
    request_words: tuple[str, ...]
    vague_words: tuple[str, ...]
    roles: tuple[str, ...]
    metrics: dict[str, tuple[str, ...]]
    focus: dict[Focus, tuple[str, ...]]


class SearchParameters(msgspec.Struct, frozen=True, kw_only=True):
    """GAM 1's SearchParameters, and what the later steps need of the question.

    `keywords` are normalised content words, `search_text` is the question without its opening and its date;
    `since`/`until` are UTC, None when open; `unknown_models` are those of the `model_words` that no packet is of;
    `subjects` are the two things a comparison holds side by side; `most` is how many packets a list wants, 0 for all,
    `left_out` the words and `left_out_models` the models that it is to be without; `ambiguous` says why the question
    cannot be looked up, "" when it can.
    """

    text: str
    kind: Kind
    search_text: str
    keywords: tuple[str, ...]
    phrases: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    date_text: str = ""
    models: tuple[str, ...] = ()
    model_words: tuple[str, ...] = ()
    unknown_models: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    metrics: tuple[MetricRange, ...] = ()
    most: int = 0
    left_out: tuple[str, ...] = ()
    left_out_models: tuple[str, ...] = ()
    order: Order = "relevance"
    focus: Focus = "full_context"
    subjects: tuple[str, ...] = ()
    ambiguous: str = ""

    @property
    def dated(self) -> bool:
        return self.since is not None or self.until is not None


def process_query(text: str, facets: Facets, now: datetime, zone: tzinfo) -> SearchParameters:
    """Read a question (GAM 1). `now` is zone-aware; dates in words are days of `zone`."""
    question = plain_question(text)
    newest = datetime.fromisoformat(facets.last) if facets.last else None
    periods = [one for one in find_periods(question, now, zone, newest) if not _is_name(one, question, facets.people)]
    with_ranges = _without(question, periods)
    ranges = find_metrics(with_ranges, _table().metrics)
    metrics = tuple(one.range for one in ranges)
    bare = without_metrics(with_ranges, ranges)
    order, kind = _order(bare), "listing" if ranges_of_packets(with_ranges, ranges) else _kind(bare)
    listed = read_list(bare) if kind == "listing" else ListWords(text=bare)
    bare, without = listed.text, recognise(listed.left_out, facets, _table().roles)
    entities = recognise(bare, facets, _table().roles)
    topic_text = opened(bare)
    keywords = _keywords(topic_text if content_words(topic_text) else bare, entities, order, kind)
    kind = kind if keywords or not (periods or metrics) else "listing"
    since, until = hull(periods)
    phrases = tuple(first or second for first, second in _PHRASE.findall(question))
    parameters = SearchParameters(
        text=question,
        kind=kind,
        search_text=topic_text.strip(" ?.!") or bare,
        keywords=keywords,
        phrases=phrases,
        since=since,
        until=until,
        date_text=" and ".join(period.text for period in periods),
        models=tuple(dict.fromkeys(name for names in entities.models.values() for name in names)),
        model_words=(*entities.models, *entities.unknown_models),
        unknown_models=entities.unknown_models,
        topics=entities.topics,
        people=entities.people,
        names=entities.names,
        metrics=metrics,
        most=listed.most,
        left_out=_left_out(listed.left_out, without),
        left_out_models=tuple(dict.fromkeys(name for names in without.models.values() for name in names)),
        order=order,
        focus=_focus(with_ranges, metrics),
        subjects=subjects_of(bare) if kind == "comparative" else (),
    )
    return msgspec.structs.replace(parameters, ambiguous=_ambiguous(parameters))


def plain_question(text: str) -> str:
    """The question in one line, accents composed, without the name of whom it is put to."""
    return _VOCATIVE.sub("", " ".join(unicodedata.normalize("NFC", text).split()))


def _is_name(period: Period, question: str, people: Collection[str]) -> bool:
    """Whether a month alone is somebody's name: the letter from April, June's birthday. `in June` stays a month."""
    match = _LONE_MONTH.fullmatch(period.text)
    if match is None or not (match["of"] or question.startswith(("'s", "’s"), period.end)):
        return False
    return any(match["month"].lower() == word.lower for person in people for word in cut(person))


@functools.cache
def _table() -> _QueryWords:
    return load("query_words.toml", _QueryWords)


def _matches(patterns: tuple[str, ...], lower: str) -> bool:
    return any(re.search(pattern, lower) for pattern in patterns)


def _kind(question: str) -> Kind:
    lower, table = question.lower(), _table()
    if _matches(table.find_packet, lower):
        return "factual"
    if _matches(table.listing, lower):
        return "listing"
    if _matches(table.comparative, lower) or exceeds(question):
        return "comparative"
    if _matches(table.evolution, lower):
        return "evolution"
    if _order(question) == "relevance" and _matches(table.conceptual, lower):
        return "conceptual"
    return "factual"


def _order(question: str) -> Order:
    lower, table = question.lower(), _table()
    if _matches(table.earliest, lower):
        return "earliest"
    return "latest" if _matches(table.latest, lower) else "relevance"


def _without(question: str, periods: list[Period]) -> str:
    """The question with the words of its dates taken out."""
    for period in reversed(periods):
        question = question[: period.start] + " " + question[period.end :]
    return " ".join(question.split())


def opened(question: str) -> str:
    """The question without the openings that say what to do rather than what about."""
    for pattern in _table().openings:
        question = re.sub(pattern, "", question, flags=re.IGNORECASE).strip()
    return question


def _keywords(topic_text: str, entities: Entities, order: Order, kind: Kind) -> tuple[str, ...]:
    """The words that say what the question is about; words about packets and asking are not, unless it is a name."""
    asking = _OF_THE_LATEST if order == "latest" else frozenset()
    request = request_words().union(asking, _table().evolution_words if kind == "evolution" else ())
    return tuple(word for word in content_words(topic_text) if word not in request or word in entities.names)


@functools.cache
def request_words() -> frozenset[str]:
    """Words about packets and asking, normalised: they are not what a question is about."""
    return frozenset(_table().request_words)


def is_role(name: str) -> bool:
    """Whether a speaker's name is that of a role (user, assistant), behind which anybody may be."""
    return name.lower() in _table().roles


def _left_out(text: str, entities: Entities) -> tuple[str, ...]:
    """The words that no packet of a list is to speak of; a model's name is none of them."""
    called = {*entities.models, *entities.unknown_models}
    return tuple(word for word in content_words(text) if word not in request_words() and word not in called)


def _focus(question: str, metrics: tuple[MetricRange, ...]) -> Focus:
    lower = question.lower()
    for focus, cues in _table().focus.items():
        if not metrics and any(cue in lower for cue in cues):
            return focus
    return "full_context"


def _ambiguous(parameters: SearchParameters) -> str:
    """Why nothing can be looked up: no word that means something, no entity, no phrase, no date."""
    named = parameters.phrases or parameters.models or parameters.people or parameters.metrics or parameters.model_words
    if named or parameters.dated or parameters.kind == "listing":
        return ""
    vague = set(_table().vague_words)
    if all(word in vague for word in parameters.keywords):
        return f"the words of the question name no topic, model, person or date: {parameters.text!r}"
    return ""


# A day or a month tells packets apart as words do, a year hardly; and what was done on a day is told on the next ones.
SHORT_PERIOD, TOLD_WITHIN = timedelta(days=31), timedelta(days=1)


def in_period(timestamp: str, parameters: SearchParameters) -> bool:
    """Whether a page's time lies in the period asked about; true when the question names none."""
    if not parameters.dated:
        return True
    moment = datetime.fromisoformat(timestamp)
    after_start = parameters.since is None or moment >= parameters.since
    return after_start and (parameters.until is None or moment < parameters.until)


def told_then(timestamp: str, parameters: SearchParameters) -> bool:
    """Whether the question names a day or a month, and the page is of then or of just after it."""
    since, until = parameters.since, parameters.until
    if since is None or until is None or until - since > SHORT_PERIOD:
        return False
    moment = datetime.fromisoformat(timestamp)
    return since <= moment and moment - until < TOLD_WITHIN


def about_then(timestamp: str, parameters: SearchParameters) -> bool:
    """In the period asked about, or told just after a short one."""
    return in_period(timestamp, parameters) or told_then(timestamp, parameters)
