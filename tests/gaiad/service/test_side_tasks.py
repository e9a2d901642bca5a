"""What front ends ask for themselves, in the words of Open WebUI's prompts, and what small models say to it."""

import json

import pytest

from gaiad.service.side_tasks import answer, by_rule, read_side_task

HISTORY = "<chat_history>\nUSER: {said}\nASSISTANT: Gladly. USER is a word.\n</chat_history>"
TITLE = """### Task:
Generate a concise, 3-5 word title with an emoji summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Examples:
- { "title": "Stock Market Trends" },
### Chat History:
"""
TAGS = """### Task:
Generate 1-3 broad tags categorizing the main themes of the chat history.
### Guidelines:
- Start with high-level domains (e.g. Science, Technology)
### Output:
JSON format: { "tags": ["tag1", "tag2", "tag3"] }
### Chat History:
"""
SAID = "When did we agree on the ferry timetable for the island in winter?\nI forgot."


def task(prompt: str, said: str = SAID):  # type: ignore[no-untyped-def]
    return read_side_task(prompt + HISTORY.format(said=said))


def test_the_form_and_the_first_words_are_read() -> None:
    assert task(TITLE)[1:] == ("title", False, f"{SAID}\n")
    assert task(TAGS)[1:] == ("tags", True, f"{SAID}\n")


@pytest.mark.parametrize(
    "reply",
    [
        '{ "title": "your concise title here" }',
        '{"title": "\U0001f4c9 Stock Market Trends"}',
        "### Task: Generate a concise title",
        '{"title": 3}',
        '{"title": ""}',
        "",
    ],
)
def test_a_title_out_of_the_prompt_is_made_by_rule(reply: str) -> None:
    assert json.loads(answer(task(TITLE), reply)) == {"title": "When did we agree on the ferry timetable for the…"}


@pytest.mark.parametrize("reply", ['{"title": "Winter Ferry"}', 'Here it is:\n{"title": "Winter Ferry"}\n'])
def test_a_title_of_its_own_is_used_as_it_is(reply: str) -> None:
    assert answer(task(TITLE), reply) == reply


def test_tags_are_the_models_or_none() -> None:
    assert answer(task(TAGS), '{"tags": ["Science", "Ferries"]}') == '{"tags": ["Science", "Ferries"]}'
    for reply in ('{"tags": ["tag1", "tag2", "tag3"]}', '{"tags": "Ferries"}', '{"tags": []}', "tags"):
        assert json.loads(answer(task(TAGS), reply)) == {"tags": []}


def test_other_forms_and_other_histories_have_an_answer_too() -> None:
    assert by_rule(task('### Task:\nComplete. { "text": "<completion>" }')) == '{"text":""}'
    assert by_rule(read_side_task("### Task:\nA title.\n<chat_history>\n\n a letter \n</chat_history>")) == "a letter"
    assert json.loads(by_rule(task(TITLE, said="x" * 80))) == {"title": "x" * 50}
    assert by_rule(read_side_task("### Task:\nA title.\n<chat_history>")) == ""
