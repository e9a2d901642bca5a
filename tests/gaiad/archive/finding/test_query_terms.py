"""Query words become the very terms FTS5 made of the pages."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.archive.finding.hits import excerpt, needles
from gaiad.archive.finding.query_terms import MAX_WORDS, QueryTerm, Stemmer, parse_query, quote

stemmer = None


@pytest.fixture(scope="module")
def stems():
    made = Stemmer()
    yield made
    made.close()


def test_stop_words_go_unless_nothing_else_remains(stems):
    assert [term.word for term in parse_query("What did the kittens do?", stems)] == ["kittens"]
    assert [term.word for term in parse_query("to be or not to be", stems)] == ["to", "be", "or", "not"]


def test_words_of_one_stem_count_once(stems):
    assert parse_query("walk walking walks", stems) == [QueryTerm("walk", ("walk",))]


def test_irregular_forms_of_a_word_are_looked_for_together(stems):
    assert parse_query("buying", stems) == [QueryTerm("buying", ("bui",), ("bought",))]
    assert [term.word for term in parse_query("buys bought chairs", stems)] == ["buys", "chairs"]


def test_possessives_and_diacritics(stems):
    assert [term.stems for term in parse_query("Zoë's café’s", stems)] == [("zoe",), ("cafe",)]


def test_accents_as_characters_of_their_own_are_of_the_same_words(stems):
    query = "Zoë's fräsmaskin in Göteborg"
    assert parse_query(unicodedata.normalize("NFD", query), stems) == parse_query(query, stems)
    assert parse_query("x\u0304\u031ay", stems)[0].stems == ("x", "y")


def test_a_name_with_an_apostrophe_keeps_its_parts(stems):
    assert parse_query("O'Brien", stems) == [QueryTerm("o'brien", ("o", "brien"))]


def test_a_term_that_is_no_stem_of_itself_comes_with_a_word_that_has_it(stems):
    assert parse_query("houses", stems) == [QueryTerm("houses", ("hous",), (), (("hous", "houses"),))]
    for query in ("o'database", "rise", "databases' coffee", "risen"):
        for term in parse_query(query, stems):
            known = dict(term.spelled)
            matched = [known.get(one, one) for one in (*term.stems, *term.forms)]
            assert stems.stems(matched) == [(one,) for one in (*term.stems, *term.forms)]


def test_a_word_that_cannot_be_stored_does_not_stop_the_next_one(stems):
    with pytest.raises(UnicodeEncodeError):
        stems.stems(["\ud800"])
    assert stems.stems(["unheard"]) == [("unheard",)]


def test_a_very_long_query_is_cut(stems):
    assert len(parse_query(" ".join(f"w{n}" for n in range(10_000)), stems)) == MAX_WORDS


@given(st.text(max_size=200))
def test_any_text_parses(text):
    made = Stemmer()
    try:
        for term in parse_query(text.encode("utf-8", "ignore").decode(), made):
            assert term.stems
    finally:
        made.close()


@given(st.text(alphabet='ab" \0*()', max_size=20))
def test_a_quoted_text_is_one_string(text):
    inner = quote(text)[1:-1]
    assert inner.replace('""', "").count('"') == 0
    assert "\0" not in inner


def test_an_excerpt_shows_the_window_with_most_distinct_words(stems):
    text = "alpha " + "filler " * 100 + "alpha beta gamma " + "filler " * 100 + "beta"
    shown = excerpt(text, needles(parse_query("alphas betas gammas", stems)))
    assert "alpha beta gamma" in shown
    assert shown.startswith("…filler")
    assert shown.endswith("filler…")
    assert len(shown) <= 244


def test_an_excerpt_without_matches_is_the_beginning():
    assert excerpt("short\n text") == "short text"
    assert excerpt("word " * 200).startswith("word word")


def test_the_words_of_an_excerpt_are_whole(stems):
    text = " ".join(f"word{n}" for n in range(300))
    shown = excerpt(text, needles(parse_query("word150", stems))).strip("…")
    assert set(shown.split()) <= set(text.split())


def test_an_excerpt_shows_words_whose_accents_are_characters_of_their_own(stems):
    text = unicodedata.normalize("NFD", "nothing here " * 40 + "en fräsmaskin köpt " + "nor there " * 40)
    shown = excerpt(text, needles(parse_query("fräsmaskin", stems)))
    assert "fräsmaskin köpt" in unicodedata.normalize("NFC", shown)


@given(st.text(max_size=1500))
def test_an_excerpt_of_anything_is_short(text):
    assert len(excerpt(text, needles([QueryTerm("the", ("the",))]))) <= 242
