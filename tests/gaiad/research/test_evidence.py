"""What a page earns of a question's words: all forms of an irregular word are the same word."""

from datetime import UTC, datetime
from typing import Any

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.research.evidence import Term, credits_of, lookup_words, make_terms, sentence_credit
from gaiad.research.loop import Researcher
from gaiad.research.query import process_query
from gaiad.wire.schemas import Facets, ResearchRequest

NOW = datetime(2025, 12, 15, 12, tzinfo=UTC)
QUESTION = "Who did Vera meet in Lisbon?"


def terms_of(question: str, frequencies: dict[str, int]) -> dict[str, Term]:
    parameters = process_query(question, Facets(pages=10), NOW, UTC)
    assert frequencies.keys() <= set(lookup_words(parameters))
    return {term.word: term for term in make_terms(parameters, frequencies, 10)}


@pytest.mark.parametrize("frequencies", [{"met": 3}, {"meet": 1, "met": 2}, {"meet": 3}])
def test_all_forms_of_an_irregular_word_count_as_the_word(frequencies: dict[str, int]) -> None:
    met = terms_of(QUESTION, frequencies)["meet"]
    assert (met.frequency, met.unknown) == (3, False)
    assert met.weight < terms_of(QUESTION, {"meet": 1})["meet"].weight


def test_a_form_earns_what_the_word_earns(page: Any) -> None:
    terms = list(terms_of(QUESTION, {"met": 1, "vera": 1, "lisbon": 1}).values())
    said = page("Vera met Otto in Lisbon.")
    assert credits_of(said, [], terms) == {"vera": 1.0, "meet": 1.0, "lisbon": 1.0}
    assert sentence_credit(said.text, "", terms) == sentence_credit("Vera meets Otto in Lisbon.", "", terms) == 1.0


def test_two_forms_in_a_question_are_one_term() -> None:
    assert list(terms_of("Did the child or the children paint?", {"children": 2})) == ["child", "paint"]


async def test_the_sentence_with_the_other_form_is_quoted(memory: Any, page: Any) -> None:
    text = "Vera has been in Lisbon since March and is fond of its harbour, where the old ferries lie. " * 3
    archive = memory([page(f"{text}Vera met Otto at the lighthouse in Lisbon. {text}"), page("Nothing here.", "tp-2")])
    researcher = Researcher(archive, FrozenClock(NOW), load_config((), {}).research)
    result = await researcher.research(ResearchRequest(query=QUESTION), RequestContext())
    assert (result.status, result.iterations_used) == ("SUCCESS", 1)
    assert "met Otto" in result.citations[0].quote
    assert "meet" not in result.missing_aspects
