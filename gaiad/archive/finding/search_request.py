"""What a search may ask: limits, and combinations of mode, query and filters that mean something."""

import msgspec

from gaiad.archive.finding.filters import check_filters, has_filters
from gaiad.errors import BadInput
from gaiad.schemas import SearchRequest

MAX_LIMIT = 1000
MAX_ADJACENT = 20
MAX_QUERY_CHARS = 1_000_000
MAX_PHRASES = 100


def check_request(request: SearchRequest) -> None:
    """Raise BadInput, naming value and remedy, for a request that cannot be meant."""
    if not 1 <= request.limit <= MAX_LIMIT:
        raise BadInput(f"limit = {request.limit}: ask for 1 to {MAX_LIMIT} hits")
    if not 0 <= request.adjacent <= MAX_ADJACENT:
        raise BadInput(f"adjacent = {request.adjacent}: ask for 0 to {MAX_ADJACENT} neighbours on either side")
    try:
        msgspec.json.encode(request)
    except UnicodeEncodeError as error:
        raise BadInput(f"the request holds half a character ({error.reason}); send valid Unicode") from error
    _check_length(request)
    check_filters(request.filters)
    check_filters(request.boosts)
    if len(request.page_ids) > MAX_LIMIT:
        raise BadInput(f"{len(request.page_ids)} page_ids: ask for at most {MAX_LIMIT} at once")
    if request.mode == "page_id":
        if not request.page_ids:
            raise BadInput("mode page_id without page_ids; give the ids that search hits show")
        return
    if request.mode == "dense" and not request.query.strip():
        raise BadInput("mode dense without a query; give the text to compare pages with, or use mode metadata")
    blank = not request.query.strip() and not any(phrase.strip() for phrase in request.phrases)
    if blank and not has_filters(request.filters):
        raise BadInput("the query is empty and there are no filters; give words to look for, or a filter")


def _check_length(request: SearchRequest) -> None:
    """Raise BadInput for texts and lists that are larger than anybody means."""
    if len(request.query) > MAX_QUERY_CHARS:
        raise BadInput(f"the query has {len(request.query)} characters; search with at most {MAX_QUERY_CHARS}")
    for name in ("phrases", "people"):
        values: list[str] = getattr(request, name)
        if len(values) > MAX_PHRASES:
            raise BadInput(f"{len(values)} {name}: give at most {MAX_PHRASES} in one search")
        if sum(map(len, values)) > MAX_QUERY_CHARS:
            raise BadInput(f"{sum(map(len, values))} characters of {name}: give at most {MAX_QUERY_CHARS}")
