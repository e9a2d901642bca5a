"""Transcripts in the forms that people write and copy, each beside what looks like it and is not one."""

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.importing.kinds import KINDS
from gaiad.archive.importing.kinds.transcript import TRANSCRIPT
from gaiad.archive.importing.sample import Sample
from gaiad.archive.importing.source import Source, sources
from gaiad.archive.reading.conversation import Conversation

Put = Callable[[str, Any], Path]
ME, IT = "user", "assistant"
ASKED = [(ME, "Which knot?"), (IT, "A bowline.")]


def read(path: Path) -> Conversation | None:
    """The transcript in a file; None when it is not taken for one."""
    (source,) = sources(path)
    assert isinstance(source, Source)
    sample = Sample(source, UTC)
    if next((kind for kind in KINDS if kind.recognises(sample)), None) is not TRANSCRIPT:
        return None
    (found,) = TRANSCRIPT.read(sample)
    assert isinstance(found, Conversation)
    return found


def said(found: Conversation | None) -> list[tuple[str, str]]:
    return [(each.speaker, each.text) for each in found.messages] if found else []


FORMS = {  # how the two openings are written; the words follow each
    "names and colons": ("User: ", "Assistant: "),
    "in capitals": ("USER: ", "ASSISTANT: "),
    "dashes": ("User - ", "Assistant - "),
    "long dashes": ("User – ", "AI – "),
    "as a console shows it": ("User> ", "Assistant> "),
    "a clock before": ("10:31 User: ", "10:32 Assistant: "),
    "a clock in brackets": ("[10:31] User: ", "[10:32] Assistant: "),
    "a clock in parentheses": ("(10:31) User: ", "(10:32) Assistant: "),
    "a clock behind a bold name": ("**User** (10:31)\n", "**Assistant** (10:32)\n"),
    "a clock behind the name": ("User, 10:31: ", "Assistant, 10:32: "),
    "a clock alone behind the name": ("User 10:31\n", "Assistant 10:32\n"),
    "a time as messengers write it": ("24/03/2024, 10:31 - User: ", "24/03/2024, 10:32 - ChatGPT: "),
    "a time behind the words of a heading": ("## User - 2024-03-04 10:31\n", "## Assistant - 2024-03-04 10:32\n"),
    "a time in a heading": ("### USER 2024-03-04T10:31:00.165Z\n\n", "### ASSISTANT 2024-03-04T10:32:00.165Z\n\n"),
    "a slanted time below": ("**User**\n*2024-03-04 10:31*\n\n", "**Assistant**\n*2024-03-04 10:32*\n\n"),
    "a slanted time in words": ("**You**\n_March 4, 2024, 10:31 AM_\n", "**ChatGPT**\n_March 4, 2024, 10:32 AM_\n"),
    "headings of two levels": ("### User\n", "## Assistant\n"),
    "headings with colons": ("## Prompt:\n", "## Response:\n"),
    "a copied page": ("You said:\n", "ChatGPT said:\n"),
    "a copied page with headings": ("##### You said:\n", "###### ChatGPT said:\n"),
    "a copied page in German": ("Du hast gesagt:\n", "ChatGPT hat gesagt:\n"),
    "a copied page in French": ("Vous avez dit\u00a0:\n", "ChatGPT a dit\u00a0:\n"),
    "a copied page in Spanish": ("Dijiste:\n", "ChatGPT dijo:\n"),
    "signs in bold": ("🧑 **You**\n\n", "🤖 **ChatGPT**\n\n"),
    "slanted names": ("*User:* ", "*Assistant:* "),
    "names in brackets": ("[User]: ", "[Assistant]: "),
    "a list": ("- **User**: ", "- **Assistant**: "),
    "numbered": ("User (1): ", "Assistant (1): "),
    "a time inside the bold": ("**[10:31] User:** ", "**[10:32] Assistant:** "),
    "a slanted time in the heading": ("### You *(10:31)*\n", "### ChatGPT *(10:32)*\n"),
    "a clock of twelve hours": ("10:31:05 AM - You: ", "10:31:09 AM - ChatGPT: "),
    "rules around the names": ("=== User ===\n", "=== Assistant ===\n"),
    "a copied page without colons": ("You said\n", "Copilot said\n"),
    "Claude": ("Me: ", "Claude: "),
    "Claude with its version": ("Human: ", "Claude Opus 4.1: "),
    "Gemini": ("**You:** ", "**Gemini 2.5 Pro:** "),
    "GPT-4": ("User: ", "GPT-4: "),
    "o3": ("User: ", "o3: "),
    "human and AI": ("Human: ", "AI: "),
    "German": ("Du: ", "ChatGPT: "),
    "German, in the first person": ("Ich: ", "KI: "),
    "French": ("Vous : ", "ChatGPT : "),
    "Spanish": ("Tú: ", "ChatGPT: "),
}


@pytest.mark.parametrize("ending", [".txt", ".md"])
@pytest.mark.parametrize("name", FORMS)
def test_a_conversation_in_a_form_that_people_use(put: Put, name: str, ending: str) -> None:
    mine, theirs = FORMS[name]
    turns = (f"{mine}Which knot?\n\n", f"{theirs}A bowline.\n\n", f"{mine}And at sea?\n\n", f"{theirs}The same.\n")
    assert said(read(put(f"chat{ending}", "".join(turns[:2])))) == ASKED
    assert said(read(put(f"long{ending}", "".join(turns)))) == [*ASKED, (ME, "And at sea?"), (IT, "The same.")]


OTHERS = {  # what no form of the table above may make a conversation of
    "questions and answers": "Q: Which knot?\nA: A bowline.\n\nQ: Which rope?\nA: Hemp.\n",
    "questions and answers in words": "Question: Knot?\nAnswer: A bowline.\n\nQuestion: Rope?\nAnswer: Hemp.\n",
    "questions under headings": "# FAQ\n\n## Question\nWhich knot?\n\n## Answer\nA bowline.\n",
    "a multiple choice": "Question 1: Which knot?\nA: a bowline\nB: a hitch\nAnswer: A\n",
    "prompts for pictures": "Prompt: a cat?\nNegative prompt: y\nModel: x\n\nPrompt: b\nNegative prompt: y\nModel: x\n",
    "figures by name": "Human: 89.8\nGPT-4: 86.4\nClaude 3: 86.8\n",
    "a list of prompts": "**User:** Act as a sailor.\n\n**User:** Act as a poet?\n",
    "a play": "INT. HARBOUR\n\nANNA: Which knot?\n\nBOT: A bowline.\n\nANNA: Thanks.\nBOT: Welcome.\nYOU: Hm?\n",
    "a play of two": "ANNA: Which knot?\nBEN: A bowline.\n",
    "an interview": "Interviewer: Which knot?\nModel: A bowline.\nInterviewer: Why?\nModel: It holds.\n",
    "minutes": "Anna: hello\nYou: hi\nBen: hello\nAI: noted\n",
    "tasks by name": "Me: buy rope\nAnna: buy hemp\nAI: course on Monday\n",
    "settings": "user: anna\nmodel: gpt-4\ntemperature: 0.2\nprompt: Say hi\nresponse: Hi\n",
    "settings of a machine": "name: x\nassistant: yes\nuser: root\nhost: localhost\n",
    "a chat in YAML": "messages:\n  - role: user\n    content: hi\n  - role: assistant\n    content: hi\n",
    "a log": "2024-03-04 10:31:00 user: login\n2024-03-04 10:31:01 kernel: up\n2024-03-04 10:31:02 bot: started\n",
    "a log with levels": "[10:31:00] INFO user: login?\n[10:31:01] INFO model: loaded\n",
    "a group's chat": "[10:31] You: hi?\n[10:32] AI: hi\n[10:33] Anna: hello\n[10:34] You: Anna!\n[10:35] AI: yes\n",
    "a reference": "# API\n\n## User\n\nHas a name.\n\n## Model\n\nHas weights.\n\n## Session\n\nA row.\n",
    "a reference of objects": "# API\n\n### User\n\nA row.\n\n### Assistant\n\nA row.\n\n### Thread\n\n### Run\n",
    "a comparison": "# Chatbots\n\n## ChatGPT\n\nBy OpenAI.\n\n## Claude\n\nBy Anthropic.\n",
    "a comparison that speaks to you": "You: choose?\nChatGPT: by OpenAI\nClaude: by Anthropic\n",
    "definitions": "User - who signs in\nAssistant - the program\nAdmin - who pays\n",
    "definitions in a list": "- **User**: who signs in\n- **Assistant**: the program\n- **Admin**: who pays\n",
    "definitions in bold": "**User** - who signs in\n\n**Model** - the file\n\n**Admin** - who pays\n",
    "a prompt's template": "You are a helpful assistant.\n\nUser: {question}\nAssistant: {answer}\n",
    "a form": "### Prompt\n\nDescribe.\n\n### Response\n\nDescribe.\n\n### System\n\nDescribe.\n",
    "an example in code": "# Usage\n\n```\nUser: Which knot?\nAssistant: A bowline.\n```\n\nThat is all.\n",
    "lines of one word": "You\nshould choose\nAI\nor not?\nYou\ndecide\nAI\nwaits\n",
    "a grammar": "Tu: vas\nVous: allez\nIA: non\n",
    "prose": "The user: a person.\n\nThe assistant: a program.\n",
}


@pytest.mark.parametrize("ending", [".txt", ".md"])
@pytest.mark.parametrize("name", OTHERS)
def test_what_only_looks_like_a_conversation_is_none(put: Put, name: str, ending: str) -> None:
    assert read(put(f"other{ending}", OTHERS[name])) is None


def test_names_alone_on_their_lines(put: Put) -> None:
    text = "You\nWhich knot?\n\nChatGPT\nA bowline.\n\nYou\nAnd at sea?\n\nChatGPT\nThe same.\n"
    assert said(read(put("page.txt", text))) == [*ASKED, (ME, "And at sea?"), (IT, "The same.")]


def test_only_lines_of_one_form_outside_code_open_a_turn(put: Put) -> None:
    answer = "A bowline:\n\nUser: is what a script would print.\n\n```\n**User:** Which?\n```\n\n**Note:** it holds."
    found = read(put("chat.md", f"**User:** Which knot?\n\n**Assistant:** {answer}\n\n**User:** Thanks.\n"))
    assert said(found) == [(ME, "Which knot?"), (IT, answer), (ME, "Thanks.")]


def test_a_bold_remark_in_parentheses_is_no_turn_of_somebody_else(put: Put) -> None:
    answer = "A bowline.\n\n**Rope** (hemp)\n\nIt rots."
    turns = f"**human** (Oct 17, 2025, 12:48 PM)\n\nWhich knot?\n\n**assistant** (Oct 17, 2025, 12:49 PM)\n\n{answer}\n"
    found = read(put("chat.md", turns))
    assert said(found) == [(ME, "Which knot?"), (IT, answer)]
    assert found is not None
    assert found.messages[1].time == "2025-10-17T12:49:00Z"


def test_instructions_come_before_what_is_said(put: Put) -> None:
    found = read(put("chat.txt", "System: Be brief.\nUser: Which knot?\nAssistant: A bowline.\n"))
    assert found is not None
    assert [each.part for each in found.messages] == ["instructions", "transcript", "transcript"]


def test_the_model_is_named_where_the_name_says_its_version(put: Put) -> None:
    found = read(put("chat.txt", "User: Which knot?\nClaude 3.5 Sonnet: A bowline.\nUser: Why?\nClaude: It holds.\n"))
    assert found is not None
    assert [each.model for each in found.messages] == ["", "Claude 3.5 Sonnet", "", ""]


@pytest.mark.parametrize(
    "lead", ["Date: 2024-03-04\n\n", "---\ndate: 2024-03-04\n---\n\n", "**Created:** 2024-03-04\n\n"]
)
def test_a_clock_goes_on_from_the_day_above_and_past_midnight(put: Put, lead: str) -> None:
    found = read(
        put("chat.txt", f"{lead}\n\n[23:58] User: Which knot?\n[23:59] ChatGPT: A bowline.\n[00:03] User: Why?\n")
    )
    assert found is not None
    assert [each.time for each in found.messages] == [
        "2024-03-04T23:58:00Z",
        "2024-03-04T23:59:00Z",
        "2024-03-05T00:03:00Z",
    ]


@pytest.mark.parametrize("line", ["User:", "**User** (", "> - # [10:31] **User", "User - ", "`" * 3 + "\n"])
def test_a_large_file_of_openings_is_read_in_a_time_that_grows_with_it(put: Put, line: str) -> None:
    import time

    started = time.perf_counter()
    read(put("large.txt", f"{line * 4}\n" * 40_000))
    assert time.perf_counter() - started < 5
