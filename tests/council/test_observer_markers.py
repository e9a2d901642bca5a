"""Whatever the router would open of what the observer lets pass, the observer has allowed."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from council.observer_rules import ObserverRules, Violation, observer_table
from gaiad.base.marker_forms import MARKERS
from gaiad.base.markers import MarkerParser

TABLE = observer_table()
FORMS = (
    "{}:", "{} :", "{}： ", "{} ：", "##### {}:", "**{}**:", "**{}:**", "__{}__:", "\u200b{}:", "\ufeff{}:", "*{}*:",
    "## {}\n", "**{}**\n", "{}\n", "- {}:", "2. {}:", "   {}:", "      {}:", "RESPONSE: {}:", "</think>{}:",
)  # fmt: skip
ATOMS = st.one_of(
    st.builds(str.format, st.sampled_from(FORMS), st.sampled_from([*MARKERS, "Plan", "verify", "Thought\\_Seed"])),
    st.sampled_from(
        [
            *("```", "````", "~~~", "```bash", "- ```", "<think>", "</think>", "CONTINUE / ", "> ", "- ", "1. ", "# "),
            *(
                "\n",
                "\n",
                "\n",
                "\n\n",
                "\r\n",
                "\r",
                " ",
                "  ",
                "\t",
                "word",
                "words that say a little more",
                " x" * 40,
            ),
        ]
    ),
)


def watch(pieces: list[str], allowed: frozenset[str]) -> tuple[str, Violation | None]:
    rules = ObserverRules((), allowed, TABLE)
    return "".join([*map(rules.feed, pieces), rules.finish()]), rules.violation


def opened(text: str, *, whole: bool) -> set[str]:
    """What the router's parser opens; of a text that was stopped nothing more comes."""
    parser = MarkerParser("tolerant", "RESPONSE")
    pieces = [*parser.feed(text), *(parser.finish() if whole else [])]
    return {piece.marker for piece in pieces if piece.kind == "open"}


@settings(max_examples=400)
@given(st.lists(ATOMS, max_size=16).map("".join), st.frozensets(st.sampled_from(MARKERS)), st.data())
def test_nothing_is_opened_that_was_not_allowed(text: str, allowed: frozenset[str], data: st.DataObject) -> None:
    shown, violation = watch([text], allowed)
    assert opened(shown, whole=violation is None) <= allowed | {"RESPONSE", ""}
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    assert watch(pieces, allowed) == (shown, violation), "however it is split"


@pytest.mark.parametrize(
    "spelled",
    ["EXECUTE : x", "EXECUTE： x", "##### EXECUTE: x", "**EXECUTE**: x", "__EXECUTE__: x", "\u200bEXECUTE: x",
     "\ufeffEXECUTE: x", "**PLAN**: x", "VERIFY : x", "</think>EXECUTE: x"],
)  # fmt: skip
def test_every_tolerated_spelling_is_judged(spelled: str) -> None:
    before = "<think>hm" if spelled.startswith("</") else "RESPONSE: ok\n"
    text = before + spelled
    assert opened(text, whole=True) - {"RESPONSE", ""}
    shown, violation = watch([text], frozenset({"RESPONSE"}))
    assert violation is not None
    assert violation.rule == ("command" if "EXECUTE" in spelled else "marker")
    assert shown == text[: violation.at]
    assert watch(list(text), frozenset({"RESPONSE"})) == (shown, violation)


@pytest.mark.parametrize(
    "code",
    [
        "````md\n```sh\nEXECUTE: ls\n```\nEXECUTE: ls\n````",
        "- ```sh\n  EXECUTE: ls\n  ```",
        "1. ```\n   PLAN: x\n   ```",
    ],
)
def test_what_is_quoted_in_fences_within_fences_and_in_lists_passes(code: str) -> None:
    text = f"RESPONSE: so:\n{code}\nDone."
    assert watch([text], frozenset({"RESPONSE"})) == (text, None)
    shown, violation = watch([f"{text}\nEXECUTE: ls"], frozenset({"RESPONSE"}))
    assert (shown.strip(), violation is not None) == (text, True), "behind it markers count again"
