"""Questions that hold several, and the second search that takes names over from the first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.evidence import Evidence
from gaiad.research.hops import MOST_NEW_NAMES, MOST_PARTS, bridge, parts, with_new_names
from gaiad.research.query import SearchParameters
from gaiad.research.refine import SECOND_HOP, WEAKER_TOO, first_attempt, refine, search_requests
from gaiad.research.reflect import LOWER_THRESHOLD, ReflectionResult
from gaiad.schemas import Filters, Page


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What did Otto catch at the lake?", ()),
        ("Which pears and plums grow there?", ()),
        (
            "Where did Vera move, and what does she measure?",
            ("Where did Vera move", "what does she measure Vera"),
        ),
        ("What did Vera buy? And who sold it?", ("What did Vera buy", "who sold it Vera")),
        (
            "Which city have both Vera and Otto visited?",
            ("Which city have Vera visited?", "Which city have Otto visited?"),
        ),
    ],
)
def test_a_question_is_split_into_what_it_holds(question, expected):
    assert parts(question) == expected


@given(st.text())
def test_any_question_is_split_into_few(question):
    assert len(parts(question)) <= MOST_PARTS
    with_new_names(question, [question])


def page(text, speaker):
    return Page("p", "k", "", 0, "transcript", "", text, 0, len(text.encode()), "", speaker=speaker)


def evidence(text, speaker="Otto", near=()):
    item = Evidence(
        page=page(text, speaker), credits={}, lexical=0.5, cosine=None, fused=1.0, relevance=0.5, standing=0.5
    )
    return Evidence(
        **{name: getattr(item, name) for name in item.__struct_fields__ if name != "neighbours"}, neighbours=near
    )


def test_a_second_hop_asks_again_with_the_names_found():
    best = evidence("Otto: Well, my sister married Ludmila Brandt in spring, dear Vera.", near=(page("Oh!", "Vera"),))
    assert bridge("Where does the wife of Otto's sister work?", [best]) == (
        "Where does the wife of Otto's sister work Ludmila Brandt"
    )


def test_without_a_new_name_there_is_no_second_hop():
    assert bridge("Where does Otto's wife work?", [evidence("Otto: I work at the mill. We like it.")]) == ""
    assert bridge("Where does Otto's wife work?", []) == ""


@pytest.mark.parametrize(
    ("question", "leads_on"),
    [
        ("Where does Otto's wife work?", True),
        ("Which river runs through the town where Otto was born?", True),
        ("Who wrote the song that Otto sings?", True),
        ("When did the sister of Otto marry?", True),
        ("Where does Otto work?", False),
        ("Who met Otto at the lake?", False),
        ("Which songs does Otto sing?", False),
    ],
)
def test_only_a_question_that_means_something_by_something_else_has_a_second_hop(question, leads_on):
    assert bool(bridge(question, [evidence("Otto: We saw Ludmila's boat.")])) is leads_on


def test_few_names_are_taken_over_the_most_frequent_first():
    texts = ["We saw Ada, Ben, Cyd, Dan and Eve.", "Then Eve left."]
    query = with_new_names("Who was there?", texts, {"ada"})
    assert query == "Who was there Eve Ben Cyd Dan"
    assert with_new_names("Who?", [*texts, "It was Cyd."], {"ada"}) == "Who Cyd Eve Ben Dan"
    assert len(with_new_names("Who?", ["He saw Ada, Ben, Cyd, Dan, Eve."]).split()) == 1 + MOST_NEW_NAMES


def test_days_and_months_are_no_bridge():
    texts = ["We met Ada on Friday, on a cold Sunday's eve of March, as on all Mondays in Oct 2022."]
    assert with_new_names("Who was there?", texts) == "Who was there Ada"


def attempt_of(question):
    words = SearchParameters(text=question, kind="factual", search_text=question, keywords=(), expanded=())
    return first_attempt(words, Filters())


def test_the_parts_of_a_question_are_searched_beside_it():
    requests = search_requests(attempt_of("Where did Vera move, and what does she measure"), "local")
    assert [request.query for request in requests] == [
        "Where did Vera move, and what does she measure",
        "Where did Vera move",
        "what does she measure Vera",
    ]


def test_a_search_that_found_too_little_is_followed_by_one_second_hop():
    weak = ReflectionResult(
        is_sufficient=False,
        is_relevant=True,
        confidence=0.3,
        missing_aspects=(),
        refinement_suggestions=(LOWER_THRESHOLD,),
    )
    found = [evidence("Otto: My sister married Ludmila Brandt.")]
    question = "Where does Otto's wife work"
    hop = refine(attempt_of(question), weak, {}, 30, found)
    assert hop.done == (f"{SECOND_HOP}Ludmila Brandt",)
    queries = [request.query for request in search_requests(hop, "local")]
    assert queries == [question, f"{question} Ludmila Brandt"]
    lower = refine(hop, weak, {}, 30, found)
    assert lower.done[-1] == WEAKER_TOO
    assert refine(lower, weak, {}, 30, found) is None
    assert refine(attempt_of(question), weak, {}, 30, []).done[0] == WEAKER_TOO
