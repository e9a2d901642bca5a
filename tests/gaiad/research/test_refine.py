"""The first attempt searches for what a question names, its days among it."""

from datetime import UTC, datetime

import pytest

from gaiad.research.query import process_query
from gaiad.research.refine import first_attempt
from gaiad.schemas import Facets, Filters

NOW = datetime(2025, 12, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("Which country was Tim visiting in November 2023?", "Which country was Tim visiting November 2023"),
        ("Where was the harbour built on 7 May 2022?", "Where was the harbour built 7 May 2022"),
        ("What did Tim build last week?", "What did Tim build"),
        ("May Tim keep the 7 boats?", "May Tim keep the 7 boats"),
    ],
)
def test_days_that_a_question_names_are_searched_for(question, searched):
    parameters = process_query(question, Facets(), NOW, UTC)
    assert first_attempt(parameters, Filters()).query == searched
