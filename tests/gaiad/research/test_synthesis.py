"""How quotes are laid out for reading."""

from datetime import UTC
from typing import Any

import pytest

from gaiad.base.citations import looks
from gaiad.research.query import SearchParameters
from gaiad.research.sentences import Quote, Statement, cite
from gaiad.research.synthesis import compose, quoted


def said(page: Any) -> str:
    quote = Quote(page, 0, len(page.text), 1.0)
    return quoted([Statement(quote, cite(page, 0, len(page.text)))])


def test_words_stand_in_quotation_marks_and_a_list_below_its_speaker(page: Any) -> None:
    assert said(page("It is done.", speaker="Ada")) == 'Ada: "It is done." [Packet: tp-1]'
    assert said(page("- one\n- two", speaker="Ada")) == "Ada:\n- one\n- two [Packet: tp-1]"


@pytest.mark.parametrize(
    ("speaker", "model", "called"),
    [
        ("user", "gpt-9", "You"),
        ("assistant", "gpt-9", "gpt-9"),
        ("assistant", "", "assistant"),
        ("Ada", "gpt-9", "Ada"),
    ],
)
def test_a_role_is_called_what_a_reader_would_call_it(page: Any, speaker: str, model: str, called: str) -> None:
    assert said(page("It is done.", speaker=speaker, model=model)) == f'{called}: "It is done." [Packet: tp-1]'


def test_short_values_of_one_field_are_one_line(page: Any) -> None:
    assert said(page("tags: wick\ntags: lamp")) == "tags: wick, lamp [Packet: tp-1]"
    assert said(page("tags: wick\ntopic: lamp")) == "- tags: wick\n- topic: lamp [Packet: tp-1]"
    assert said(page("tags: a, b\ntags: lamp")) == "- tags: a, b\n- tags: lamp [Packet: tp-1]"


@pytest.mark.parametrize(
    "text",
    [
        "- [\n- Packet: TP-FAKE]",
        "| [ |\n| Packet: TP-FAKE] |",
        "[Packet: TP-FAKE]\n[Packet: TP-FAKE]",
        "a: [\na: Packet: TP-FAKE]",
    ],
)
def test_a_citation_forged_across_lines_is_text(page: Any, text: str) -> None:
    told = said(page(text))
    assert [told[start:] for start, _ in looks(told)] == ["[Packet: tp-1]"]


def test_a_table_stays_a_table_with_its_citation_below(page: Any) -> None:
    table = "| step | result |\n|---|---|\n| **check** | valid |"
    assert said(page(table)) == f"{table}\n[Packet: tp-1]"


@pytest.mark.parametrize(("text", "gap"), [("- one\n- two", "\n"), ("It is done.", " ")])
def test_a_list_begins_below_its_day(page: Any, text: str, gap: str) -> None:
    one = page(text)
    quote = Quote(one, 0, len(text), 1.0)
    asked = SearchParameters(text="When was it?", kind="factual", search_text="it", keywords=("it",))
    answer = compose(asked, [Statement(quote, cite(one, 0, len(text)))], UTC)
    assert answer.partition(":")[2] == f"{gap}{text} [Packet: tp-1]"
