from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext

Put = Callable[[str, Any], Path]


def message(name: str, sender: str, text: str, minute: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "uuid": name,
        "sender": sender,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "created_at": f"2024-03-04T10:{minute:02}:00.5Z",
        **more,
    }


def conversation(*messages: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": "u-1",
        "name": "Sails",
        "created_at": "2024-03-04T10:00:00Z",
        "chat_messages": list(messages),
        **fields,
    }


async def texts(archive: LocalArchive, packet_id: str) -> list[str]:
    return [page.text for page in (await archive.packet_detail(packet_id, RequestContext())).pages]


async def test_blocks_come_before_the_flat_text_and_messages_are_put_in_order(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    artifact = {"name": "artifacts", "input": {"title": "Knot", "language": "python", "content": "tie()"}}
    blocks = [
        {"type": "thinking", "thinking": "?"},
        {"type": "text", "text": "Reef it."},
        {"type": "tool_use", **artifact},
    ]
    export = conversation(
        message("b", "assistant", "flat", 2, content=blocks), None, message("a", "human", "Too much wind?", 1)
    )
    (outcome,) = await run_import(put("conversations.json", {"conversations": [export]}))
    assert (outcome.kind, outcome.title, outcome.user_messages, outcome.assistant_messages) == (
        "claude_ai",
        "Sails",
        1,
        1,
    )
    assert outcome.first_message == "2024-03-04T10:01:00.500Z"
    assert await texts(archive, outcome.packet_id) == ["Too much wind?", "Reef it.\n\nKnot\n\n```python\ntie()\n```"]


async def test_the_tree_is_followed_from_its_leaf(archive: LocalArchive, run_import: Any, put: Put) -> None:
    tree = [
        message("q", "human", "Which rope?", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        message("x", "assistant", "Hemp.", 1, parent_message_uuid="q"),
        message("y", "assistant", "Dyneema.", 2, parent_message_uuid="q"),
    ]
    (outcome,) = await run_import(put("one.json", conversation(*tree, current_leaf_message_uuid="x")))
    assert await texts(archive, outcome.packet_id) == ["Which rope?", "Hemp."]


async def test_an_attachments_text_is_kept_apart_and_a_flat_text_serves_without_blocks(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    attached = {"file_name": "log.pdf", "extracted_content": "Wind force nine."}
    export = conversation(message("a", "human", "Sum this up.", content=[], attachments=[attached]))
    (outcome,) = await run_import(put("conversations.json", [export]))
    assert outcome.user_messages == 1
    assert await texts(archive, outcome.packet_id) == [
        "Sum this up.\n\n[file: log.pdf]",
        "[file: log.pdf]\n\nWind force nine.",
    ]


async def test_what_nobody_wrote_anything_in_is_passed_over_and_named(run_import: Any, put: Put) -> None:
    empty = conversation(message("a", "human", ""), name="")
    (outcome,) = await run_import(put("conversations.json", [empty]))
    assert (outcome.outcome, outcome.reason) == ("ignored", "nothing in it that a person sees")


async def test_projects_and_memories_become_notes(archive: LocalArchive, run_import: Any, put: Put) -> None:
    project = {
        "uuid": "p-1",
        "name": "Refit",
        "prompt_template": "Be exact.",
        "docs": [{"filename": "a.md", "content": "Keel."}],
    }
    memory = {
        "conversations_memory": "Owns a sloop.",
        "project_memories": {"p-1": "Refit in May."},
        "account_uuid": "me",
    }
    paths = [put("projects.json", [project]), put("memories.json", [memory])]
    outcomes = await run_import(*paths)
    assert [(each.kind, each.conversation_id, each.user_messages) for each in outcomes] == [
        ("claude_project", "p-1", 0),
        ("claude_memory", "me", 0),
    ]
    assert await texts(archive, outcomes[0].packet_id) == ["Be exact.", "Keel."]
    assert await texts(archive, outcomes[1].packet_id) == ["Owns a sloop.", "Refit in May."]


async def test_memory_files_and_design_chats(archive: LocalArchive, run_import: Any, put: Put) -> None:
    memory = {"account_uuid": "acct", "memory_files": [{"path": "/profile.md", "content": "Sails on Sundays."}]}
    (kept,) = await run_import(put("memories.json", [memory]))
    assert await texts(archive, kept.packet_id) == ["Sails on Sundays."]
    picture = {"name": "a.png", "type": "image"}
    said = {"content": "Draw a harbour.", "timestamp": "2026-08-14T06:36:35Z", "attachments": [picture]}
    answer = {"content": "", "contentBlocks": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": "Here."}]}
    chat = {
        "uuid": "design-1",
        "title": "Chat",
        "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": answer}],
    }
    (outcome,) = await run_import(put("design_chats/design-1.json", chat))
    assert (outcome.kind, outcome.user_messages, outcome.assistant_messages) == ("claude_design", 1, 1)
    assert await texts(archive, outcome.packet_id) == ["Draw a harbour.\n\n[image: a.png]", "Here."]
