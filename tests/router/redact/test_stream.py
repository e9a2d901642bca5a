"""A redacted stream says what the whole text says, early, and takes time in step with the text's length."""

import time
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.redact import RedactionRules, RedactionSettings, Redactor, redact, redaction_rules
from router.redact.settings import STAGES
from router.redact.stream import LARGEST_WAIT

LISTED = RedactionSettings(
    names=["Jane Doe", "Rose", "Anna-Lena van der Berg", "José García", "田中太郎"],
    phrases=["project nightjar", "op 7 x", "夜鷹"],
)
RULES = redaction_rules(LISTED)
TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabcDEF123+/=\n-----END RSA PRIVATE KEY-----"
ENCRYPTED = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB12CD34EF56AB12\n\n"
OLD_KEY = KEY.replace("MII", f"{ENCRYPTED}MII", 1)

# fmt: off
PARTS = [
    "jane[at]acme(dot)org", "[at]", "(dot)", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "jane.doe@acme.org", "@",
    "jane", "acme.org", "+49 30 901820", "(212) 555-0123", "030 ", "901820",
    "06 12 34 56 78", "4111 1111 1111 1111", "4111-1111-1111-1111", "4111", " 1111", "378282246310005",
    "DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "GB29 ", "NWBK ", "192.168.1.20", "2001:db8::1.2.3.4",
    "::1", "v1.2.3.4", "version ", "/home/jane/x", "C:\\Users\\Jane Doe\\x", "C:\\Users\\田中", "/Users/", TOKEN,
    TOKEN[:20], KEY, OLD_KEY, KEY[:40], "-----", "-----END RSA PRIVATE KEY-----", "Bearer ", "password=", 'token": "',
    "abc123def", "pw2.x!y&3", "password is ", "://me:hunter2@db.x", "Jane", "Doe", "Jane\nDoe", "ROSE", "rose",
    "Anna-Lena ", "van der ", "Berg", "José García", "田中太郎", "田中", "project nightjar", "Project  ", "Nightjar",
    "op 7 ", "夜鷹", "shit", "sh1t",
    "$hit", "b!tch", "Scunthorpe", "nigger", "@everyone", "@here", "\u200b", "\u00ad", "tel", "ISBN ", "eyJ", "AKIA",
    "a" * 90, "1 " * 40, "x1" * 90, "你好", "ß", "ſ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\u00a0", " " * 12, ".",
    ",", "-", "_", "/", ":", "=", "(", ")", "+", "1", "A", "!",
]
# fmt: on
FRAGMENTS = st.sampled_from(PARTS)
TEXTS = st.lists(FRAGMENTS, max_size=30).map("".join)
SOME_STAGES = st.sets(st.sampled_from(STAGES)).map(tuple)


def split(text: str, places: list[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *sorted(places), len(text)])]


def streamed(pieces: list[str], rules: RedactionRules = RULES) -> tuple[str, Redactor]:
    redactor = Redactor(rules)
    return "".join(redactor.feed(piece) for piece in pieces) + redactor.finish(), redactor


@settings(max_examples=500)
@given(TEXTS, SOME_STAGES, st.data())
@example(f"x {TOKEN} and", STAGES, None)
@example(f"{KEY} and {OLD_KEY}.", STAGES, None)
def test_any_split_says_what_the_whole_says(text: str, stages: tuple[str, ...], data: st.DataObject | None) -> None:
    whole = redact(text, RULES, STAGES)
    letters, redactor = streamed(list(text))
    assert letters == whole.text
    assert redactor.redactions == whole.redactions
    if data is not None:
        places = data.draw(st.lists(st.integers(0, len(text)), max_size=12))
        chosen = Redactor(RULES, stages)  # type: ignore[arg-type]  # sets of the stages' names
        shown = "".join(map(chosen.feed, split(text, places))) + chosen.finish()
        assert (shown, chosen.redactions) == _pair(text, stages)


def _pair(text: str, stages: tuple[str, ...]) -> tuple[str, object]:
    whole = redact(text, RULES, stages)  # type: ignore[arg-type]
    return whole.text, whole.redactions


@settings(max_examples=80)
@given(TEXTS)
def test_what_is_held_back_is_bounded(text: str) -> None:
    redactor = Redactor(RULES)
    for letter in text:
        redactor.feed(letter)
        assert len(redactor._text) - redactor._place <= RULES.window_characters * LARGEST_WAIT


@settings(max_examples=80)
@given(TEXTS)
def test_a_redacted_text_holds_nothing_more_to_take_out_of_what_was_whole(text: str) -> None:
    """Words between items stay as they were: what is not a placeholder is in the text, in its order."""
    shown = redact(text, RULES).text
    rest = text
    for sign in "\u200b\u00ad":
        rest = rest.replace(sign, "")
    for placeholder in sorted(set(RULES.placeholders.values())):
        shown = shown.replace(placeholder, "\x00")
    place = 0
    for part in shown.split("\x00"):
        place = rest.index(part, place) + len(part)


def test_prose_leaves_word_by_word() -> None:
    redactor = Redactor(RULES)
    assert redactor.feed("The quick br") == "The quick "
    assert redactor.feed("own fox, ") == "brown fox, "
    assert redactor.feed("你好") == "你好"
    assert redactor.feed("Jane ") == ""
    assert redactor.feed("Austen wrote") == "Jane Austen "
    assert redactor.finish() == "wrote"


def test_without_stages_all_passes_at_once() -> None:
    redactor = Redactor(RULES, ())
    assert redactor.feed("jane.doe@acme.org\u200b") == "jane.doe@acme.org\u200b"
    assert redactor.finish() == ""
    assert redactor.redactions == []


def test_a_long_secret_is_taken_out_to_its_end() -> None:
    long = KEY.replace("abcDEF123+/=\n", "abcDEF123+/=\n" * 400)
    shown, redactor = streamed(split(f"Mine:\n{long}\nKeep it.", list(range(0, 5000, 7))))
    assert shown == "Mine:\n[secret]\nKeep it."
    assert [(item.kind, item.count) for item in redactor.redactions] == [("key", 1)]


def test_signs_that_cannot_be_seen_hide_nothing() -> None:
    shown, redactor = streamed(["jane\u200b.doe@ac", "\u00adme.org"])
    assert shown == "[e-mail]"
    assert [(item.kind, item.count) for item in redactor.redactions] == [("email", 1), ("hidden_character", 2)]


FLOODS = {
    "letters": "a",
    "digits": "7",
    "numbers": "1 ",
    "noughts": "00 1234 5678 ",
    "groups of four": "4111 ",
    "at signs": "a@",
    "local parts": "a.b-",
    "domains": "@a.",
    "capitals": "AB12 ",
    "accounts": "DE89",
    "dots": "1.",
    "colons": "2001:",
    "slashes": "/home/",
    "homes with spaces": "C:\\Users\\a b ",
    "dashes": "-----",
    "headers": "-----BEGIN PRIVATE KEY-----\n",
    "names": "Jane ",
    "names of secrets": "password=",
    "web tokens": "eyJ" + "a" * 120 + ".",
    "bearers": "Bearer ",
    "passwords": "://a:",
    "brackets": "(",
    "pluses": "+1 ",
    "spaces": " ",
    "signs": "a$b!",
    "unspaced": "田",
    "keys": "AKIA",
    "a bit of all": "a1@.:/-(+ ",
}


def seconds(text: str, size: int, enough: float = 0.0) -> float:
    """The processor's time for a stream in pieces of this size, the best of three, or the first below `enough`."""
    pieces = split(text, list(range(size, len(text), size)))
    best = float("inf")
    for _ in range(3):
        before = time.thread_time()
        streamed(pieces)
        best = min(best, time.thread_time() - before)
        if best < enough:
            break
    return best


@pytest.mark.parametrize("size", [20, 1_000_000])
@pytest.mark.parametrize("flood", FLOODS)
def test_time_grows_in_step_with_the_text(flood: str, size: int) -> None:
    """Four times the text takes about four times as long; sixteen times would be the square."""
    unit = FLOODS[flood]
    short, long = (unit * (length // len(unit) + 1) for length in (2_000, 8_000))
    once = seconds(short, size)
    taken = seconds(long, size, 9 * once)
    grown = taken / once
    print(f"{flood}: {len(long) / taken / 1e6:.2f} MB/s in pieces of {size}")
    assert grown < 9, f"{flood}: {grown:.1f} times as long"
