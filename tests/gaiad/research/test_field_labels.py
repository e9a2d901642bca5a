"""The names of a packet's fields are not what it says."""

from typing import Any

import pytest

from gaiad.research.field_labels import only_field, value_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("torsion_analysis/coherence_assessment: Short and direct session.", "Short and direct session."),
        ("origin_node (type Decision): The proposal of the second round\ndrift_path (total_torsion 1.1)", None),
        ("directive (priority HIGH): Report an interval beside every figure.", None),
        ("Cost: every reflection is a further call.", "Cost: every reflection is a further call."),
        ("metrics/sycophancy_level: 0.2", "metrics/sycophancy_level: 0.2"),
        ("See https://example.org: it is there.", "See https://example.org: it is there."),
    ],
)
def test_the_value_speaks_without_the_name_where_it_can(text: str, value: str | None) -> None:
    start, end = value_of(text)
    assert text[start:end] == (value or text.split(": ", 1)[1].split("\n")[0])


def test_a_field_by_itself_tells_nothing() -> None:
    assert only_field("metrics/sycophancy_level: 0.2")
    assert only_field("drift_path/vector (step 2, torsion 0.4)")
    assert not only_field("Report an interval (of 95 %)")
    assert not only_field("we chose the pump")


@pytest.mark.parametrize(
    "query",
    [
        "What is torsion?",
        "What drift path was recorded for the pilot?",
        "What is the origin node of the pilot session?",
        "What challenge phrases were used?",
        "What do the forward directives of the pilot say?",
    ],
)
async def test_no_answer_from_the_samples_names_fields(ask: Any, query: str) -> None:
    result = await ask(query)
    assert result.citations
    assert not any(only_field(citation.quote) for citation in result.citations)
    assert "_path" not in result.answer
    assert "/vector" not in result.answer
