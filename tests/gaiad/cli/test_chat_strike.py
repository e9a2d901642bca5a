"""Striking out what stands on a terminal: only where it is certain which rows it takes, and nothing else is touched."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.cli.chat_screen import rows_of, striking
from tests.makers.screen import ShownScreen

TEXTS = st.text(st.sampled_from("abc de.,-\n"), min_size=1, max_size=200)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", 1),
        ("ten long..", 1),
        ("eleven long", 2),
        ("one\ntwo\n", 3),
        ("日本語日本", 1),
        ("日本語日本語", 2),
        ("a日本語日本", 2),
        ("tab\there", None),
        ("e\u0301", None),
        ("\U0001f468\u200d\U0001f469", None),
        ("\u2028", None),
    ],
)
def test_rows_are_counted_as_a_terminal_of_ten_columns_takes_them(text: str, rows: int | None) -> None:
    assert rows_of(text, 10) == rows


@given(text=TEXTS, below=st.integers(0, 3), width=st.integers(5, 40))
def test_struck_text_stands_where_it_stood_and_the_cursor_where_it_was(text: str, below: int, width: int) -> None:
    screen = ShownScreen(width)
    under = "".join(f"u{number}\r\n" for number in range(below))
    screen.write(f"before\r\n{text}\n{under}".replace("\r\n", "\n").replace("\n", "\r\n"))
    before = screen.text
    screen.write(striking(f"{text}\n", width, 1000, below).replace("\n", "\r\n"))
    assert screen.text == before
    screen.write("after")
    assert screen.text == f"{before}after"


@given(text=TEXTS)
def test_every_line_is_struck_and_nothing_else(text: str) -> None:
    written = striking(f"{text}\n", 40, 1000, 0)
    assert "".join(re.findall(r"\x1b\[2m\x1b\[9m(.*?)\x1b\[0m", written)) == text.replace("\n", "")


def test_what_scrolled_away_or_cannot_be_measured_is_left_alone() -> None:
    assert striking("one\ntwo\n", 10, 4, 1)
    assert striking("one\ntwo\n", 10, 4, 2) == striking("one\ntwo\n", 10, 2, 0) == striking("a\tb\n", 10, 9, 0) == ""
