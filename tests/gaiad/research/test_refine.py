"""The first attempt searches for what a question names, its days among it."""

from datetime import UTC, datetime

import pytest

from gaiad.research.query import process_query
from gaiad.research.refine import first_attempt, search_requests
from gaiad.wire.schemas import Facets, Filters

NOW = datetime(2025, 12, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("Which country was Tim visiting in November 2023?", "Which country was Tim visiting in November 2023?"),
        ("Please tell me about the harbour of 7 May 2022.", "the harbour of 7 May 2022."),
        ("What did Tim build last week?", "What did Tim build"),
        ("May Tim keep the 7 boats?", "May Tim keep the 7 boats?"),
    ],
)
def test_a_question_is_searched_for_in_its_own_words_and_the_days_it_names(question, searched):
    parameters = process_query(question, Facets(), NOW, UTC)
    assert first_attempt(parameters, Filters()).query == searched


@pytest.mark.parametrize(
    ("question", "filters"),
    [
        ('When did Tim read "The Red Harbour"?', [[], ["The Red Harbour"]]),
        ('"The Red Harbour"?', [["The Red Harbour"]]),
        ("When did Tim read?", [[]]),
    ],
)
def test_quoted_words_are_searched_for_beside_all_else_and_alone_where_nothing_else_is_asked(question, filters):
    parameters = process_query(question, Facets(), NOW, UTC)
    requests = search_requests(first_attempt(parameters, Filters()), "local")
    assert [request.phrases for request in requests] == filters
