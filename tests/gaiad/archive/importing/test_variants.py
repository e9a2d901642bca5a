"""Forms of the exports as they occur in the wild: a row is a file and the words that a person sees in it."""

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.importing.kinds import KINDS
from gaiad.archive.importing.sample import Sample
from gaiad.archive.importing.source import Source, sources
from gaiad.archive.reading.conversation import Conversation

ME, IT = "user", "assistant"


def read(path: Path) -> list[Conversation]:
    """What the one kind that recognises a file reads in it, without the archive."""
    (source,) = sources(path)
    assert isinstance(source, Source)
    sample = Sample(source, UTC)
    kind = next(kind for kind in KINDS if kind.recognises(sample))
    items = list(kind.read(sample))
    assert all(isinstance(item, Conversation) for item in items), items
    return [item for item in items if isinstance(item, Conversation)]


def chatgpt(*contents: tuple[str, dict[str, Any], dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """A ChatGPT export of one conversation: (role, content, more keys of the message) in a row."""
    mapping = {
        str(number): {
            "parent": str(number - 1) if number else None,
            "message": {"author": {"role": role}, "content": content, "create_time": 1_700_000_000 + number, **rest},
        }
        for number, (role, content, rest) in enumerate(contents)
    }
    return [{"title": "Boats", "conversation_id": "b-1", "mapping": mapping, "current_node": None, **more}]


def text(words: str) -> dict[str, Any]:
    return {"content_type": "text", "parts": [words]}


def claude_line(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": role, "sessionId": "s", "uuid": str(more), "message": {"role": role, "content": content}, **more}


def parts(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": words}]}


CHATGPT = {
    "an error that the service reported is nobody's": (
        chatgpt(("user", text("Sail?"), {}), ("assistant", {"content_type": "system_error", "text": "Failed"}, {})),
        [(ME, "Sail?")],
    ),
    "the report of a deep research is the assistant's, though a tool hands it in": (
        chatgpt(
            ("user", text("Why do ships float?"), {}),
            ("assistant", text("{}"), {"recipient": "research_kickoff_tool.start_research_task"}),
            ("tool", text("# Ships"), {"metadata": {"is_async_task_result_message": True}}),
        ),
        [(ME, "Why do ships float?"), (IT, "# Ships")],
    ),
    "an image is named once, by its attachment": (
        chatgpt(
            (
                "user",
                {
                    "parts": [
                        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"},
                        "What is it?",
                    ]
                },
                {"metadata": {"attachments": [{"name": "cat.png", "mimeType": "image/png"}]}},
            )
        ),
        [(ME, "What is it?\n\n[image: cat.png]")],
    ),
    "a conversation without a tree is empty": (
        [{"title": "", "conversation_id": "b-2", "mapping": None}],
        [],
    ),
    "contents without a type, parts that are null": (
        chatgpt(("user", {"parts": [None, "Row?"]}, {}), ("assistant", text("Row."), {"recipient": None})),
        [(ME, "Row?"), (IT, "Row.")],
    ),
}
OTHERS: dict[str, tuple[str, Any, list[tuple[str, str]]]] = {
    "a file that Claude wrote": (
        "conversations.json",
        [
            {
                "uuid": "c",
                "name": "Log",
                "chat_messages": [
                    {"uuid": "1", "sender": "human", "text": "Write the log.", "content": None},
                    {
                        "uuid": "2",
                        "sender": "assistant",
                        "text": "",
                        "content": [
                            {"type": "token_budget"},
                            {
                                "type": "tool_use",
                                "name": "create_file",
                                "input": {"path": "log.md", "file_text": "Fair wind."},
                            },
                            {"type": "tool_use", "name": "bash_tool", "input": {"command": "ls"}},
                        ],
                    },
                ],
            }
        ],
        [(ME, "Write the log."), (IT, "log.md\n\n```\nFair wind.\n```")],
    ),
    "what Claude Code's programs put into the person's name": (
        "session.jsonl",
        [
            claude_line("user", "<teammate-message teammate_id='mate'>Ready.</teammate-message>", n=1),
            claude_line("user", "<user-memory-input>use fathoms</user-memory-input>", n=2),
            claude_line("assistant", [{"type": "text", "text": "(no content)"}], n=3),
            claude_line(
                "user",
                [
                    {"type": "document", "title": "chart.pdf", "source": {"media_type": "application/pdf"}},
                    {"type": "text", "text": "Read it.<system-reminder>Be brief.</system-reminder>"},
                ],
                n=4,
            ),
        ],
        [(ME, "Read it.\n\n[file: chart.pdf]")],
    ),
    "what Codex tells a model that takes over": (
        "rollout-1.jsonl",
        [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
            for words in (
                "Another language model started to solve this problem and produced a summary of it: x",
                "<user_action>review</user_action>",
                "Trim the sail.",
            )
        ],
        [(ME, "Trim the sail.")],
    ),
    "Gemini CLI: answers in parts, files that a prompt names": (
        "session-1.json",
        {
            "sessionId": "g-1",
            "projectHash": "h",
            "messages": [
                {
                    "id": "1",
                    "type": "user",
                    "content": "@log.md sum up\n--- Content from referenced files ---\nFair.\n--- End of content ---",
                },
                {"id": "2", "type": "model", "parts": [{"text": "Fair wind."}]},
            ],
        },
        [(ME, "@log.md sum up"), (IT, "Fair wind.")],
    ),
    "a Gemini CLI checkpoint": (
        "checkpoint-boat.json",
        [
            parts("user", "This is the Gemini CLI. We are setting up the context for our chat."),
            parts("model", "Got it. Thanks for the context!"),
            parts("user", "Which knot?"),
            {"role": "model", "parts": [{"functionCall": {"name": "read_file"}}]},
            parts("model", "A bowline."),
        ],
        [(ME, "Which knot?"), (IT, "A bowline.")],
    ),
    "a Gemini CLI checkpoint of the newer form": (
        "checkpoint-x.json",
        {"history": [parts("user", "Which knot?"), parts("model", "A bowline.")], "authType": "key"},
        [(ME, "Which knot?"), (IT, "A bowline.")],
    ),
    "Gemini CLI's log of prompts": (
        "logs.json",
        [
            {
                "sessionId": "g",
                "messageId": number,
                "type": "user",
                "message": words,
                "timestamp": "2025-07-01T10:00:00Z",
            }
            for number, words in enumerate(("Which knot?", "/quit"))
        ],
        [(ME, "Which knot?")],
    ),
    "activity in Spanish and Japanese, with a wide colon": (
        "MiActividad.json",
        [
            {
                "header": "Gemini",
                "title": title,
                "time": "2025-05-01T10:00:00Z",
                "safeHtmlItem": [{"html": "<p>Ja.</p>"}],
            }
            for title in ("Has dicho: ¿Vela?", "送信したメッセージ：船は？", "Vous avez dit\u00a0: Vent ?")
        ],
        [(ME, "¿Vela?"), (IT, "Ja."), (ME, "船は？"), (IT, "Ja."), (ME, "Vent ?"), (IT, "Ja.")],
    ),
    "Open WebUI before it had that name, times in nanoseconds": (
        "chats.json",
        [
            {
                "title": "Old",
                "history": {
                    "currentId": "2",
                    "messages": {
                        "1": {
                            "id": "1",
                            "parentId": None,
                            "role": "user",
                            "content": "Row?",
                            "timestamp": 1_700_000_000,
                        },
                        "2": {
                            "id": "2",
                            "parentId": "1",
                            "role": "assistant",
                            "content": "Row.",
                            "timestamp": 1_700_000_001_000_000_000,
                        },
                    },
                },
            }
        ],
        [(ME, "Row?"), (IT, "Row.")],
    ),
    "what a model thought in LibreChat": (
        "chat.json",
        {
            "conversationId": "l",
            "messages": [
                {"messageId": "1", "isCreatedByUser": True, "text": "Row?"},
                {"messageId": "2", "isCreatedByUser": False, "text": ":::thinking\nHm.\n:::\nRow."},
            ],
        },
        [(ME, "Row?"), (IT, "Row.")],
    ),
    "code that AI Studio ran": (
        "Boat",
        {
            "chunkedPrompt": {
                "chunks": [
                    {"role": "user", "parts": [{"text": "Count."}]},
                    {"role": "model", "executableCode": {"code": "print(3)"}},
                    {"role": "model", "text": "Three."},
                ]
            }
        },
        [(ME, "Count."), ("tool", "```\nprint(3)\n```"), (IT, "Three.")],
    ),
    "aider: a prompt behind a command": (
        ".aider.chat.history.md",
        "# aider chat started at 2024-08-05 19:33:02\n\n#### /clear  \n\n#### Trim  \n#### the sail.  \n\nTrimmed.\n",
        [(ME, "Trim\nthe sail."), (IT, "Trimmed.")],
    ),
    "SpecStory: the person's commands": (
        "s.md",
        "<!-- Generated by SpecStory -->\n<!-- Session 12345678-a (2026-01-01 10:00:00Z) -->\n\n"
        "_**User (2026-01-01 10:00:00Z)**_\n\nRow.\n\n_**User (2026-01-01 10:01:00Z)**_\n\n"
        "<command-name>/exit</command-name>\n\n_**User (2026-01-01 10:01:00Z)**_\n\n"
        "<local-command-stdout>Bye!</local-command-stdout>\n",
        [(ME, "Row.")],
    ),
    "SpecStory: a subagent in between": (
        "s.md",
        "<!-- Generated by SpecStory -->\n# Trim (2026-01-01 10:00:00Z)\n\n_**User**_\n\nRow.\n\n"
        "_**Agent - Sidechain (m)**_\n\nSearching.\n\n_**Agent (m)**_\n\nRowed.\n",
        [(ME, "Row."), (IT, "Rowed.")],
    ),
    "Grok as its page loads it": (
        "grok.json",
        {
            "conversations": [
                {
                    "conversation": {"conversationId": "g", "createTime": "2025-03-01T10:00:00Z"},
                    "responses": [
                        {"responseId": "2", "parentResponseId": "1", "sender": "ASSISTANT", "message": "Row."},
                        {"responseId": "1", "sender": "human", "message": "Row?"},
                    ],
                }
            ]
        },
        [(ME, "Row?"), (IT, "Row.")],
    ),
    "Chatbot UI: contents in parts, an empty conversation": (
        "ui.json",
        {
            "version": 4,
            "history": [
                {"id": "a", "name": "A", "messages": [{"role": "user", "content": [{"type": "text", "text": "Row?"}]}]},
                {"id": "b", "name": "B", "messages": []},
            ],
        },
        [(ME, "Row?")],
    ),
    "a chat of Obsidian's Copilot": (
        "chat.md",
        "---\nepoch: 1\n---\n\n**user**: Row?\n[Timestamp: 2024/05/29 18:26:40]\n\n**ai**: Row.\n"
        "[Timestamp: 2024/05/29 18:26:45]\n",
        [(ME, "Row?"), (IT, "Row.")],
    ),
    "a copied page, in German": (
        "page.txt",
        "Du hast gesagt:\nWelcher Knoten?\nChatGPT hat gesagt:\nPalstek.\n",
        [(ME, "Welcher Knoten?"), (IT, "Palstek.")],
    ),
    "names of models, thoughts folded": (
        "page.md",
        "**You:** Which knot?\n\n**GPT-4o:** <details>\n<summary>Reasoning (5s)</summary>\nHm.\n</details>\n"
        "A bowline.\n",
        [(ME, "Which knot?"), (IT, "A bowline.")],
    ),
}


def said(conversations: list[Conversation]) -> list[tuple[str, str]]:
    return [(each.speaker, each.text) for conversation in conversations for each in conversation.messages]


@pytest.mark.parametrize("name", CHATGPT)
def test_chatgpt(put: Callable[[str, Any], Path], name: str) -> None:
    content, expected = CHATGPT[name]
    assert said(read(put("conversations.json", content))) == expected


@pytest.mark.parametrize("name", OTHERS)
def test_other_kinds(put: Callable[[str, Any], Path], name: str) -> None:
    file, content, expected = OTHERS[name]
    assert said(read(put(file, content))) == expected


def test_a_lone_summary_is_the_title_and_of_several_only_the_sessions_own(put: Callable[[str, Any], Path]) -> None:
    def titled(*summaries: tuple[str, str]) -> str:
        lines = [{"type": "summary", "summary": words, "leafUuid": leaf} for words, leaf in summaries]
        (found,) = read(put("s.jsonl", [*lines, {**claude_line("user", "Row."), "uuid": "here"}]))
        return found.title

    assert titled(("The jib", "elsewhere")) == "The jib"
    assert titled(("The jib", "elsewhere"), ("The main", "here")) == "The main"
    assert titled(("The jib", "elsewhere"), ("The keel", "elsewhere too")) == ""


@pytest.mark.parametrize(
    ("time", "moment"),
    [
        ("10/03/2024, 10:31 AM", "2024-10-03T10:31:00Z"),
        ("23/03/2024, 10:31", "2024-03-23T10:31:00Z"),
        ("05/03/2024, 10:31", ""),
    ],
)
def test_a_written_time_is_taken_where_day_and_month_are_sure(
    put: Callable[[str, Any], Path], time: str, moment: str
) -> None:
    (found,) = read(put("t.txt", f"[{time}] You: Row?\n[{time}] ChatGPT: Row.\n"))
    assert [each.time for each in found.messages] == [moment, moment]


def test_a_log_of_prompts_beside_its_chats_is_passed_over(put: Callable[[str, Any], Path]) -> None:
    put("tmp/chats/session-1.json", {"sessionId": "g", "messages": []})
    path = put("tmp/logs.json", OTHERS["Gemini CLI's log of prompts"][1])
    (source,) = sources(path)
    assert isinstance(source, Source)
    sample = Sample(source, UTC)
    items = list(next(kind for kind in KINDS if kind.recognises(sample)).read(sample))
    assert not any(isinstance(item, Conversation) for item in items)
