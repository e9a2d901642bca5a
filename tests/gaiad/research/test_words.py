import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gaiad.research.words import cut, normalise, stem, stems

_PLAIN = re.compile(r"[^\W_]+(?:\.\d+)+|[^\W_]+(?:['’][^\W_]+)*")
"""What a word is, as it was first written down: a number with its points, or letters with apostrophes between them."""


@given(st.text(alphabet=st.sampled_from("aB9é. '’_-\n3ß中"), max_size=40))
def test_words_are_cut_as_the_plain_pattern_cuts_them_and_stems_are_theirs(text: str) -> None:
    expected = _PLAIN.findall(text)
    assert [word.text for word in cut(text)] == expected
    assert stems(text) == {stem(normalise(word)) for word in expected}


def test_accents_as_characters_of_their_own_are_of_the_same_words() -> None:
    text = "Zoë köpte en fräsmaskin i Göteborg; Müller's Café-Küvette v2.0"
    apart = unicodedata.normalize("NFD", text)
    words = cut(apart)
    assert [unicodedata.normalize("NFC", word.text) for word in words] == [word.text for word in cut(text)]
    assert [apart[word.start : word.end] for word in words] == [word.text for word in words]
    assert stems(apart) == stems(text)


def test_versions_possessives_and_contractions_stay_whole() -> None:
    assert [word.text for word in cut("Gemini 2.5's plan, v2.0.1: don't.")] == [
        "Gemini",
        "2.5",
        "s",
        "plan",
        "v2.0.1",
        "don't",
    ]
