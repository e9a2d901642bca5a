"""How much of what it should take out redaction takes out, and how much else: what each kind reaches on a labelled set.

An item counts only where it begins and ends as labelled. `pytest -s` prints precision and recall of every kind.
"""

import random
import re
from collections import Counter
from pathlib import Path

import pytest

from router.redact import RedactionSettings, Redactor, redact, redaction_rules

Span = tuple[int, int, str]

MARK = re.compile("⟦([a-z0-9_]+)\\|([^⟧]+)⟧")
LISTED = RedactionSettings(
    names=["Jane Doe", "Rose", "Anna-Lena van der Berg", "José García", "田中太郎"], phrases=["project nightjar"]
)
LEAST = {"card": 0.95, "iban": 0.95}
LEAST_OF_OTHERS = 0.9


def labelled() -> list[str]:
    """The set's texts, as marked."""
    lines = Path(__file__).with_name("labelled.txt").read_text(encoding="utf-8").splitlines()
    return [line.replace("·", "").replace("↵", "\n") for line in lines if line and not re.match("##? ", line)]


def unmarked(marked: str) -> tuple[str, set[Span]]:
    """The text without marks, and where the marked items are in it."""
    text, spans, place = "", set(), 0
    for mark in MARK.finditer(marked):
        text += marked[place : mark.start()]
        spans.add((len(text), len(text) + len(mark[2]), mark[1]))
        text, place = text + mark[2], mark.end()
    return text + marked[place:], spans


def taken_out(text: str) -> set[Span]:
    """What is taken out of a text: where, and of which kind; from what is shown in its place."""
    rules = redaction_rules(LISTED)
    rules.placeholders = {kind: f"\x01{kind}\x02" for kind in rules.placeholders}
    parts = re.split("\x01(.+?)\x02", redact(text, rules).text)
    kinds = parts[1::2]
    shape = "(.+?)".join(map(re.escape, parts[::2]))
    found = re.fullmatch(shape, text, re.S)
    assert found, text
    return {(*found.span(number + 1), kind) for number, kind in enumerate(kinds)}


@pytest.fixture(scope="module")
def counted() -> dict[str, Counter[str]]:
    """For each kind: items labelled and found, found alone, and missed."""
    counts: dict[str, Counter[str]] = {}
    for marked in labelled():
        text, wanted = unmarked(marked)
        found = taken_out(text)
        for span in wanted | found:
            outcome = "right" if span in wanted & found else "wrong" if span in found else "missed"
            counts.setdefault(span[2], Counter())[outcome] += 1
            if outcome != "right":
                print(f"{outcome} {span[2]}: {text[span[0] : span[1]]!r} in {text!r}")
    return counts


def test_the_set_has_items_of_every_kind_and_texts_with_none() -> None:
    texts = [unmarked(marked) for marked in labelled()]
    kinds = Counter(kind for _, spans in texts for _, _, kind in spans)
    assert len(texts) >= 500
    assert set(kinds) == set(redaction_rules(LISTED).placeholders)
    assert sum(not spans for _, spans in texts) >= 150
    assert min(kinds["card"], kinds["iban"], kinds["phone"], kinds["email"], kinds["key"]) >= 40


def test_precision_and_recall_of_every_kind(counted: dict[str, Counter[str]]) -> None:
    short = []
    for kind, outcomes in sorted(counted.items()):
        right = outcomes["right"]
        precision, recall = right / (right + outcomes["wrong"] or 1), right / (right + outcomes["missed"] or 1)
        print(f"{kind:<10} {right + outcomes['missed']:>4} items  precision {precision:.3f}  recall {recall:.3f}")
        if min(precision, recall) < LEAST.get(kind, LEAST_OF_OTHERS):
            short.append(kind)
    assert not short


@pytest.mark.parametrize("kind", ["card", "iban"])
def test_no_number_with_a_wrong_sum_is_taken_for_one_with_a_right_one(
    kind: str, counted: dict[str, Counter[str]]
) -> None:
    assert counted[kind]["wrong"] == 0


def test_any_split_of_a_text_of_the_set_is_redacted_as_the_whole() -> None:
    rules, choice = redaction_rules(LISTED), random.Random(1)
    for marked in labelled():
        text = f"Some words before it. {unmarked(marked)[0]} and some words after it, too."
        whole = redact(text, rules).text
        for longest in (1, 12):
            redactor, shown, place = Redactor(rules), "", 0
            while place < len(text):
                end = place + choice.randint(1, longest)
                shown, place = shown + redactor.feed(text[place:end]), end
            assert shown + redactor.finish() == whole
