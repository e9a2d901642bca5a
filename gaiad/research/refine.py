"""Refinement (GAM 6, failure mode 1): each attempt differs from the one before by one named change, and no attempt is
made twice. When nothing new can be tried the loop stops early.
"""

import re
from datetime import timedelta

import msgspec

from constants.calendar import MONTHS
from gaiad.base.clock import to_iso
from gaiad.research.dates import moved
from gaiad.research.query import SearchParameters, opened
from gaiad.research.reflect import DROP_FILTERS, EXPAND_DATES, LOWER_THRESHOLD, WIDEN_FOCUS, ReflectionResult
from gaiad.research.words import content_words
from gaiad.wire.schemas import Filters, SearchRequest

WIDER_PERIOD = "with a wider period, by "
ALL_SECTIONS = "with all sections"
WEAKER_TOO = "with weaker pages too"
UNQUOTED_TOO = "with pages that lack the quoted words too"
"""How a reader is told what an attempt changed."""
FIRST_LIMIT, DEEP_LIMIT = 24, 60
FIRST_FLOOR, LOW_FLOOR = 0.3, 0.2


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One way of searching. `floor` is the relevance a page needs to be used; `done` names the refinements so far.

    `beside` are queries searched besides the question: of the parts it holds, and of a second hop. Pages that hold the
    `phrases` are searched for besides all others, and alone where the question `only_quotes`.
    """

    parameters: SearchParameters
    query: str
    filters: Filters
    phrases: tuple[str, ...]
    only_quotes: bool = False
    beside: tuple[str, ...] = ()
    limit: int = FIRST_LIMIT
    floor: float = FIRST_FLOOR
    done: tuple[str, ...] = ()


def first_attempt(parameters: SearchParameters, filters: Filters) -> Attempt:
    """The question as asked. `filters` are the user's own flags; they hold through every refinement."""
    return Attempt(
        parameters=parameters,
        query=_asked(parameters),
        filters=filters,
        phrases=parameters.phrases,
        only_quotes=_only_quotes(parameters),
    )


def _asked(parameters: SearchParameters) -> str:
    """The question's own words.

    Days, months and years that it names are among them, as they stand above every packet; a day told from today ("last
    week") is not.
    """
    when = [word for word in re.findall(r"\w+", parameters.date_text.lower()) if word in MONTHS or word.isdigit()]
    if parameters.dated and not when:
        return parameters.search_text
    own = opened(parameters.text)
    return own if content_words(own) else parameters.search_text


def _only_quotes(parameters: SearchParameters) -> bool:
    """Whether the question is about nothing but the words it quotes."""
    quoted = {word for phrase in parameters.phrases for word in content_words(phrase)}
    return bool(parameters.phrases) and quoted.issuperset(parameters.keywords)


def boosts(parameters: SearchParameters) -> Filters:
    """What the words of the question prefer: period, models, topics, metric ranges (ARCHITECTURE decision 18)."""
    return Filters(
        since=to_iso(parameters.since) if parameters.since else "",
        until=to_iso(parameters.until) if parameters.until else "",
        models=list(parameters.models),
        topics=list(parameters.topics),
        metrics=list(parameters.metrics),
    )


def search_requests(attempt: Attempt, tenant: str) -> list[SearchRequest]:
    """The searches of one attempt: the question, pages that hold what it quotes, what is searched beside it, one for
    each side of a comparison, one in time order when asked."""
    parameters = attempt.parameters
    base = SearchRequest(
        query=attempt.query,
        tenant=tenant,
        limit=attempt.limit,
        filters=attempt.filters,
        boosts=boosts(parameters),
        phrases=list(attempt.phrases) if attempt.only_quotes else [],
        people=list(parameters.people),
        focus=parameters.focus,
        adjacent=1,
        explain=True,
    )
    requests = [base]
    if attempt.phrases and not attempt.only_quotes:
        requests.append(msgspec.structs.replace(base, phrases=list(attempt.phrases)))
    requests += [msgspec.structs.replace(base, query=query) for query in attempt.beside]
    for subject in parameters.subjects:
        others = [other for other in parameters.subjects if other != subject]
        topic = " ".join(word for word in parameters.keywords if word not in " ".join(others).lower().split())
        requests.append(msgspec.structs.replace(base, query=f"{subject} {topic}"))
    if parameters.order != "relevance" and parameters.keywords:
        in_order = msgspec.structs.replace(
            base, query=" ".join(parameters.keywords), mode="bm25", order=parameters.order, limit=DEEP_LIMIT
        )
        requests.append(in_order)
    return requests


def refine(attempt: Attempt, reflection: ReflectionResult, expand_days: int) -> Attempt | None:
    """The next attempt, or None when every suggestion has been tried or has nothing to try."""
    for suggestion in reflection.refinement_suggestions:
        if suggestion == EXPAND_DATES and not _tried(attempt, WIDER_PERIOD):
            return _with_wider_dates(attempt, expand_days)
        if suggestion == WIDEN_FOCUS and not _tried(attempt, ALL_SECTIONS):
            wider = msgspec.structs.replace(attempt.parameters, focus="full_context")
            return _step(attempt, ALL_SECTIONS, parameters=wider)
        if suggestion == LOWER_THRESHOLD and attempt.floor > LOW_FLOOR:
            return _step(attempt, WEAKER_TOO, floor=LOW_FLOOR, limit=DEEP_LIMIT)
        if suggestion == DROP_FILTERS and attempt.only_quotes:
            return _step(attempt, UNQUOTED_TOO, only_quotes=False)
    return None


def _tried(attempt: Attempt, refinement: str) -> bool:
    return any(name.startswith(refinement) for name in attempt.done)


def _step(attempt: Attempt, name: str, **changes: object) -> Attempt:
    return msgspec.structs.replace(attempt, done=(*attempt.done, name), **changes)


def _with_wider_dates(attempt: Attempt, days: int) -> Attempt:
    """Prefer a wider period. What counts as inside stays what the user asked; this only finds its neighbourhood."""
    since, until, margin = attempt.parameters.since, attempt.parameters.until, timedelta(days=days)
    wider = msgspec.structs.replace(
        attempt.parameters,
        since=moved(since, -margin) if since else None,
        until=moved(until, margin) if until else None,
    )
    return _step(attempt, f"{WIDER_PERIOD}{days} days on both sides", parameters=wider)
