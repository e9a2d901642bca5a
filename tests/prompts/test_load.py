"""Prompt texts: strict variables, untouched values, and the shipped files as the seed words them."""

import pytest

from gaiad.errors import GaiadError
from prompts.load import check_all, load_prompt, parse_prompt, prompt_names, render


def head(variables: str) -> str:
    return f"---\nversion: 3\nvariables: {variables}\n---\n"


def test_every_shipped_prompt_fits_its_head() -> None:
    assert [prompt.name for prompt in check_all()] == prompt_names()
    assert {"research_reflection", "research_synthesis"} <= set(prompt_names())


def test_values_are_put_in_as_they_are() -> None:
    prompt = parse_prompt("x", head("question, context") + 'Q {question}\n{"json": {}}\nC {context}\n')
    text = render(prompt, {"question": "{context} \\1 {other}", "context": "plain {question}"})
    assert text == 'Q {context} \\1 {other}\n{"json": {}}\nC plain {question}\n'
    assert prompt.version == 3


def test_json_in_the_seeds_reflection_prompt_survives() -> None:
    text = render(load_prompt("research_reflection"), {"user_query": "When?", "formatted_contexts": "none"})
    assert 'Respond in JSON:\n{\n  "is_sufficient": true/false,\n' in text
    assert "USER QUERY:\nWhen?\n" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (head("a") + "{a} {b}", "variable b used in the text but not declared"),
        (head("a, b") + "{a}", "variable b declared in its head but not used"),
        (head("a") + "{a} {User}", "variable User used in the text but not declared"),
        ("{a}", "must start with ---"),
    ],
)
def test_a_text_that_disagrees_with_its_head_is_refused(text: str, message: str) -> None:
    with pytest.raises(GaiadError, match=message):
        parse_prompt("broken", text)


def test_missing_and_unknown_values_are_refused() -> None:
    prompt = parse_prompt("x", head("a") + "{a}")
    with pytest.raises(GaiadError, match="variable a missing"):
        render(prompt, {})
    with pytest.raises(GaiadError, match="variable b unknown; it takes: a"):
        render(prompt, {"a": "1", "b": "2"})
    with pytest.raises(GaiadError, match="prompt 'nobody': no such file"):
        load_prompt("nobody")
