"""The checks of `gaiad bench conversation`: what is right, what leaks, what loops."""

from pathlib import Path

import pytest

from gaiad.base.errors import BadInput
from gaiad.bench.conversation import BenchPrompt, Reply, leaks, loops, read_prompts, table

SHIPPED = Path(__file__).parents[2] / "data" / "conversation.toml"


def test_the_shipped_set_has_sixty_prompts_of_seven_kinds() -> None:
    prompts = read_prompts(SHIPPED)
    kinds = {prompt.kind for prompt in prompts.prompts}
    assert len(prompts.prompts) == 60
    assert kinds == {"talk", "fact", "arithmetic", "form", "follow_up", "page", "untold"}


def test_a_page_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text('[[prompts]]\nkind = "page"\nsay = ["x"]\npages = ["gone"]\n', encoding="utf-8")
    with pytest.raises(BadInput, match="no page is called 'gone'"):
        read_prompts(path)


def test_a_reply_is_right_when_everything_asked_for_is_there() -> None:
    prompt = BenchPrompt(kind="form", say=("x",), match=("apple", r"\b7\b"), reject=("pear",), words=(2, 4))
    assert prompt.right("Apple 7")
    assert not prompt.right("Apple 7 pear")
    assert not prompt.right("Apple")
    assert not prompt.right("an apple and then 7 more")
    assert BenchPrompt(kind="form", say=("x",), json=("name",)).right('Here: {"name": "Anna"}.')
    assert not BenchPrompt(kind="form", say=("x",), json=("name",)).right("{name: Anna}")


def test_machinery_and_the_prompts_own_words_are_leaks() -> None:
    own = ("Answer the user now: reply to the next message directly, in plain text.",)
    assert leaks("RESPONSE: hello", own, ["Hi"])
    assert leaks("<<end 8cffc8>>", own, ["Hi"])
    assert leaks("I reply to the next message directly, in plain text, always.", own, ["Hi"])
    assert not leaks("I reply to the next message directly, in plain text.", own, [own[0]])
    assert not leaks("Paris.", own, ["Hi"])


def test_a_line_or_twelve_words_four_times_are_a_loop() -> None:
    assert loops("the same line\n" * 4)
    assert loops(" ".join(["one two three four five six seven eight nine ten eleven twelve"] * 4))
    assert not loops("first line\nsecond line\nthird line\nfourth line")


def test_the_table_has_both_sides() -> None:
    def reply(side: str, right: bool) -> Reply:
        return Reply(
            side=side,  # type: ignore[arg-type]
            kind="fact",
            say="x",
            text="y",
            right=right,
            leaked=False,
            looped=False,
            ended=True,
            first_ms=10.0,
            whole_ms=20.0,
            later_turn=False,
        )

    lines = table([reply("gaiad", True), reply("bare", False)])
    assert lines[0].split() == ["gaiad", "bare"]
    assert "1/1" in lines[1]
    assert "0/1" in lines[1]
