"""What a briefing gives beside an answer, or instead of one: pages near in meaning or with a name of the request."""

from gaiad.research.briefing import MOST, NEAR, completing, near_request
from gaiad.research.evidence import Evidence, Term
from tests.gaiad.research.conftest import make_page


def found(text: str, cosine: float | None = None, credits: dict[str, float] | None = None) -> Evidence:
    page = make_page(text, text)
    return Evidence(
        page=page, credits=credits or {}, lexical=0.3, cosine=cosine, fused=0.5, relevance=0.4, standing=0.4
    )


def told(items: list[Evidence]) -> list[str]:
    return [item.page.text for item in items]


def test_only_what_is_near_in_meaning_or_has_a_name_is_given() -> None:
    table, stove = found("We booked a table for four.", NEAR), found("The stove needs a flue.", NEAR - 0.01)
    clara = found("Clara moved to Madrid.", None, {"clara": 1.0})
    beside = found("It is a large city.", None, {"clara": 0.6})
    noted = found("Noted.", 0.9)
    assert told(near_request([table, stove, clara, beside, noted], ["clara"])) == [table.page.text, clara.page.text]
    assert near_request([clara], []) == [], "a word that is no name is on many pages"
    assert len(near_request([found(f"Table {number} is booked.", 0.5) for number in range(9)], [])) == MOST


def test_an_answer_is_completed_by_pages_that_have_its_other_words_better() -> None:
    terms = [
        Term(word="clara", stem="clara", weight=1.0, frequency=1),
        Term(word="job", stem="job", weight=1.0, frequency=1),
    ]
    moved = found("My sister Clara moved to Madrid.", 0.4, {"clara": 1.0})
    nurse = found("She works as a nurse there.", 0.4, {"job": 0.6})
    far = found("The job of the valve is to close.", 0.1, {"job": 1.0})
    again = found("Clara likes Madrid and its museums.", 0.5, {"clara": 1.0})
    given = completing([moved, again, nurse, far], [moved.page.page_id], terms, ["clara"])
    assert told(given) == [nurse.page.text]
