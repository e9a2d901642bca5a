"""Whether a question can be asked at all: known before a run begins, for nobody waits for those that go on alone."""

from datetime import datetime

from gaiad.clock import Clock
from gaiad.errors import BadInput
from gaiad.schemas import ResearchRequest

QUERY_MAX_CHARS = 4000


def must_be_askable(request: ResearchRequest, clock: Clock) -> None:
    """Raise BadInput for an empty or too long question, or a bad `now`."""
    if not request.query.strip():
        raise BadInput('the question is empty; ask one, for example: gaiad ask "What did we discuss last week?"')
    if len(request.query) > QUERY_MAX_CHARS:
        raise BadInput(f"the question has {len(request.query)} characters; ask in at most {QUERY_MAX_CHARS}")
    asked_at(request, clock)


def asked_at(request: ResearchRequest, clock: Clock) -> datetime:
    """The moment that "last week" is counted from: the request's, or the present. Raises BadInput."""
    if not request.now:
        return clock.now()
    try:
        now = datetime.fromisoformat(request.now)
    except ValueError as error:
        raise BadInput(f"now = {request.now!r}: write it as ISO 8601, 2025-12-15T12:00:00Z") from error
    return now if now.tzinfo else now.replace(tzinfo=clock.zone)
