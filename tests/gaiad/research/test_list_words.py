"""What is said of a list and not of a topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.query import ListWords, read_list


@pytest.mark.parametrize(
    ("question", "text", "most", "left_out"),
    [
        ("Show me the two newest chats", "Show me the chats", 2, ""),
        ("Show me the latest 3 Grok conversations", "Show me the Grok conversations", 3, ""),
        ("Show me GPT 4 conversations", "Show me GPT 4 conversations", 0, ""),
        ("List our first five sessions about soup", "List our sessions about soup", 5, ""),
        ("Show me the earliest session", "Show me the session", 1, ""),
        ("List chats about soup with Grok, not Claude", "List chats about soup with Grok", 0, "Claude"),
        ("Show me everything but the soup", "Show me everything", 0, "the soup"),
        ("List all packets that don't mention the soup", "List all packets", 0, "the soup"),
        ("List all packets without Claude", "List all packets", 0, "Claude"),
        ("List packets about life without a car", "List packets about life without a car", 0, ""),
        ("List packets about why it did not start", "List packets about why it did not start", 0, ""),
    ],
)
def test_number_order_and_what_is_left_out_are_no_topic(question: str, text: str, most: int, left_out: str) -> None:
    assert read_list(question) == ListWords(text=text, most=most, left_out=left_out)


@given(st.text(st.sampled_from("not, last 3 packets except but")))
def test_any_question_is_read(question: str) -> None:
    assert len(read_list(question).text) <= len(question)
