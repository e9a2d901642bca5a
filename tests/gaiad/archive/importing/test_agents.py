"""Sessions of coding agents: Claude Code, Codex, Gemini CLI, and GAIA's own thoughtstreams."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome

Put = Callable[[str, Any], Path]


async def said(archive: LocalArchive, outcome: ImportOutcome) -> list[tuple[str, str]]:
    return [
        (page.speaker, page.text) for page in (await archive.packet_detail(outcome.packet_id, RequestContext())).pages
    ]


def line(role: str, content: Any, name: str, parent: str = "", **more: Any) -> dict[str, Any]:
    """A line of Claude Code's session file."""
    message = {"role": role, "content": content}
    if role == "assistant":
        message |= {"id": more.pop("message_id", f"m-{name}"), "model": "claude-9"}
    return {
        "type": role,
        "uuid": name,
        "parentUuid": parent or None,
        "sessionId": "s-1",
        "cwd": "/home/a/boat",
        "timestamp": "2026-02-01T08:00:00Z",
        "message": message,
        **more,
    }


async def test_claude_code_joins_the_lines_of_a_message_and_leaves_out_what_was_not_said(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    reminder = "<system-reminder>Be careful.</system-reminder>"
    session = [
        {"type": "file-history-snapshot", "snapshot": {}},
        line("user", f"Fix the pump.\n{reminder}", "1"),
        line("assistant", [{"type": "thinking", "thinking": "?"}], "2", "1", message_id="m"),
        line("assistant", [{"type": "text", "text": "Looking."}], "3", "2", message_id="m"),
        line(
            "assistant", [{"type": "tool_use", "name": "Bash", "input": {"command": "ls\nx"}}], "4", "3", message_id="m"
        ),
        line("user", [{"type": "tool_result", "content": "pump.py"}], "5", "4"),
        line("assistant", [{"type": "text", "text": "It is the valve."}], "6", "5", message_id="m"),
        line("user", "<command-name>/clear</command-name>", "7", "6"),
        line("user", "Summary so far", "8", "7", isCompactSummary=True),
        line("user", "Caveat", "9", "8", isMeta=True),
        line("assistant", [{"type": "text", "text": "side"}], "10", "9", isSidechain=True),
        line("user", [{"type": "text", "text": "[Request interrupted by user]"}], "11", "9"),
        {"type": "custom-title", "customTitle": "The pump", "sessionId": "s-1"},
    ]
    (outcome,) = await run_import(put("projects/boat/s-1.jsonl", session))
    assert (outcome.kind, outcome.conversation_id, outcome.title) == ("claude_code", "s-1", "The pump")
    assert (outcome.user_messages, outcome.assistant_messages) == (1, 1)
    assert await said(archive, outcome) == [
        ("user", "Fix the pump."),
        ("assistant", "Looking.\n\nIt is the valve."),
        ("tool", "Bash: ls"),
    ]


async def test_claude_code_a_prompt_typed_meanwhile_is_the_persons_and_a_commands_own_text_is_not(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    def queued(prompt: Any, name: str, mode: str = "prompt") -> dict[str, Any]:
        told = {"type": "queued_command", "prompt": prompt, "commandMode": mode}
        return {**line("user", "", name), "type": "attachment", "attachment": told}

    expanded = [{"type": "text", "text": "<command-message>tidy</command-message>"}, {"type": "text", "text": "Tidy."}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    session = [
        line("user", "Paint the hull.", "1"),
        {"type": "queue-operation", "operation": "enqueue", "content": "Blue, please.", "sessionId": "s-1"},
        queued("Blue, please.", "2"),
        queued([image, {"type": "text", "text": "Like this."}], "3"),
        queued("<task-notification>done</task-notification>", "4", "task-notification"),
        line("user", expanded, "5"),
        line("assistant", [{"type": "text", "text": "Painted."}], "6", "1"),
        line("assistant", "No response requested.", "7", "6") | {"message": {"model": "<synthetic>", "content": "-"}},
    ]
    (outcome,) = await run_import(put("s.jsonl", session))
    assert await said(archive, outcome) == [
        ("user", "Paint the hull."),
        ("user", "Blue, please."),
        ("user", "Like this.\n\n[image: image/png]"),
        ("assistant", "Painted."),
    ]


async def test_claude_code_a_prompt_taken_back_and_its_answer_are_another_branch(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    session = [
        line("user", "Start.", "1"),
        line("assistant", [{"type": "text", "text": "Ready."}], "2", "1"),
        line("user", "Wrong question.", "3", "2"),
        line("assistant", [{"type": "text", "text": "Wrong answer."}], "4", "3"),
        line("user", "Right question.", "5", "2"),
        line("assistant", [{"type": "text", "text": "Right answer."}], "6", "5"),
    ]
    (outcome,) = await run_import(put("s.jsonl", session))
    assert [text for _, text in await said(archive, outcome)] == [
        "Start.",
        "Ready.",
        "Right question.",
        "Right answer.",
    ]


async def test_claude_code_a_resumed_session_in_a_file_of_its_own_joins_its_predecessor(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    before = [line("user", "Start.", "1"), line("assistant", [{"type": "text", "text": "Ready."}], "2", "1")]
    copied = [{**each, "sessionId": "s-2"} for each in before]
    after = [*copied, line("user", "Go on.", "3", "2", sessionId="s-2", timestamp="2026-02-02T08:00:00Z")]
    forked = [*copied, line("user", "Or not.", "4", "2", sessionId="s-3")]
    first, second = put("p/s-1.jsonl", before), put("p/s-2.jsonl", after)
    (one,) = await run_import(first)
    (two,) = await run_import(second, import_id="imp_2")
    assert (two.outcome, two.packet_id) == ("revised", one.packet_id)
    assert [text for _, text in await said(archive, two)] == ["Start.", "Ready.", "Go on."]
    again = await run_import(first.parent, import_id="imp_3")
    assert [each.outcome for each in again] == ["duplicate", "duplicate"]
    (fork,) = await run_import(put("p/s-3.jsonl", forked), import_id="imp_4")
    assert (fork.outcome, fork.packet_id != one.packet_id) == ("accepted", True)


async def test_broken_lines_are_named_and_a_subagents_file_is_passed_over(run_import: Any, put: Put) -> None:
    import json

    good = json.dumps(line("user", "Fix the pump.", "1"))
    outcomes = await run_import(put("s.jsonl", f"{good}\nnot json\n{good[:40]}\n"))
    assert [each.outcome for each in outcomes] == ["ignored", "ignored", "accepted"]
    assert [each.reason.split(" is ")[0] for each in outcomes[:2]] == ["line 2", "line 3"]
    assert [each.line for each in outcomes] == [2, 3, 0]
    (side,) = await run_import(put("agent.jsonl", [line("user", "Do it.", "1", isSidechain=True)]))
    assert (side.outcome, side.conversation_id) == ("ignored", "")


def envelope(kind: str, **payload: Any) -> dict[str, Any]:
    """A line of a Codex rollout."""
    return {"timestamp": "2026-03-01T08:00:00Z", "type": kind, "payload": payload}


def item(role: str, text: str) -> dict[str, Any]:
    return envelope("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


async def test_codex_tells_nothing_twice_though_it_stands_in_two_streams(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    rollout = [
        envelope("session_meta", id="c-1", cwd="/home/a/boat", timestamp="2026-03-01T08:00:00Z", source="cli"),
        item("developer", "Be brief."),
        item("user", "<environment_context>cwd</environment_context>"),
        item("user", "go"),
        envelope("event_msg", type="user_message", message="go"),
        envelope("turn_context", model="gpt-9-codex"),
        envelope("response_item", type="function_call", name="shell", arguments='{"command": ["ls", "-l"]}'),
        envelope("event_msg", type="agent_message", message="Done."),
        item("assistant", "Done."),
        item("user", "go"),
        envelope("event_msg", type="user_message", message="go"),
        envelope("event_msg", type="some_future_event"),
        item("assistant", "Only here."),
    ]
    (outcome,) = await run_import(put("rollout-2026-03-01-c-1.jsonl", rollout))
    assert (outcome.kind, outcome.conversation_id) == ("codex", "c-1")
    assert await said(archive, outcome) == [
        ("user", "go"),
        ("tool", "shell: ls -l"),
        ("assistant", "Done."),
        ("user", "go"),
        ("assistant", "Only here."),
    ]


async def test_codex_what_the_program_writes_in_the_persons_name_is_left_out(run_import: Any, put: Put) -> None:
    lines = [
        envelope("session_meta", session_id="019fd5fb-6ab4"),
        item("user", "<recommended_plugins>sails</recommended_plugins>"),
        item("user", "Trim the jib."),
        envelope("event_msg", type="user_message", message="Trim the jib.\n"),
        item("assistant", "Trimmed."),
        item("user", "And the main?"),
    ]
    (outcome,) = await run_import(put("rollout-x.jsonl", lines))
    assert (outcome.conversation_id, outcome.title) == ("019fd5fb-6ab4", "Trim the jib.")
    assert (outcome.user_messages, outcome.assistant_messages) == (2, 1)
    assert outcome.left_out == {"instructions of the program": 1}


async def test_codex_a_message_with_a_picture_is_told_once(archive: LocalArchive, run_import: Any, put: Put) -> None:
    def pictured(*texts: str) -> dict[str, Any]:
        image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
        before, after = ({"type": "input_text", "text": f"<{mark}>"} for mark in ("image name=[Image #1]", "/image"))
        words = [{"type": "input_text", "text": text} for text in texts]
        return envelope("response_item", type="message", role="user", content=[before, image, after, *words])

    lines = [
        envelope("session_meta", id="c-9"),
        pictured("What is this knot?"),
        envelope("event_msg", type="user_message", message="What is this knot?", local_images=["/tmp/knot.png"]),
        item("assistant", "A bowline."),
        pictured(),
        envelope("event_msg", type="user_message", message="", images=["data:image/png;base64,AA=="]),
    ]
    (outcome,) = await run_import(put("rollout-x.jsonl", lines))
    assert await said(archive, outcome) == [
        ("user", "What is this knot?\n\n[image: unnamed]"),
        ("assistant", "A bowline."),
        ("user", "[image: unnamed]"),
    ]


async def test_codex_of_the_old_form_and_subagents_apart(archive: LocalArchive, run_import: Any, put: Put) -> None:
    old = [
        {"id": "c-0", "timestamp": "2025-06-01T08:00:00Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello!"}]},
    ]
    (outcome,) = await run_import(put("rollout-old.jsonl", old))
    assert (outcome.conversation_id, outcome.user_messages, outcome.assistant_messages) == ("c-0", 1, 1)
    oldest = {"session": {"id": "c-2", "timestamp": "2025-05-01T08:00:00Z"}, "items": old[2:]}
    (outcome,) = await run_import(put("rollout-oldest.json", oldest))
    assert (outcome.conversation_id, outcome.first_message) == ("c-2", "2025-05-01T08:00:00Z")
    side = [envelope("session_meta", id="c-3", source={"subagent": {"other": "x"}}), item("user", "Do it.")]
    (outcome,) = await run_import(put("rollout-side.jsonl", side))
    assert (outcome.outcome, outcome.packet_id) == ("ignored", "")


async def test_gemini_cli_replays_its_log_and_reads_the_older_object(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    def told(name: str, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        return {"id": name, "type": kind, "content": content, "timestamp": "2026-04-01T08:00:00Z", **more}

    header = {"sessionId": "g-1", "projectHash": "0", "startTime": "2026-04-01T07:59:00Z"}
    log = [
        header,
        told("1", "user", [{"text": "List the ropes."}]),
        told("2", "gemini", "", toolCalls=[{"name": "ls", "args": {"path": "hold"}}]),
        told("2", "gemini", "Three ropes.", model="gemini-9", thoughts=[{"subject": "?"}]),
        told("3", "user", "Never mind."),
        {"$rewindTo": "3"},
        {"$set": {"summary": "Ropes", "messages": [told("2", "gemini", "Three ropes.", model="gemini-9")]}},
        told("4", "info", "Update available"),
    ]
    (outcome,) = await run_import(put("chats/session-1.jsonl", log))
    assert (outcome.kind, outcome.conversation_id, outcome.title) == ("gemini_cli", "g-1", "Ropes")
    assert await said(archive, outcome) == [("user", "List the ropes."), ("assistant", "Three ropes.")]
    whole = {**header, "sessionId": "g-2", "messages": [told("1", "user", "Hi."), told("2", "gemini", "Hello.")]}
    (outcome,) = await run_import(put("session-2.json", whole))
    assert (outcome.conversation_id, outcome.user_messages, outcome.assistant_messages) == ("g-2", 1, 1)


async def test_thoughtstreams_and_seeds(archive: LocalArchive, run_import: Any, put: Put) -> None:
    injected = "<<memory abcdef [Packet: TP-1] 2025>>\nold words\n<<end abcdef>>\n\nWhat next?"
    stream = [
        {"type": "intent_detect", "intent": "chat", "ts_utc": "2026-01-02T08:00:00+00:00"},
        {"type": "turn_end", "user": injected, "assistant": "The keel.", "ts_utc": "2026-01-02T08:00:05+00:00"},
        {"type": "thought_seed", "value": "Ask about the keel.", "ts_utc": "2026-01-02T08:00:06+00:00"},
    ]
    seed = {
        "created": "2026-01-02T08:00:00+00:00",
        "seed_type": "general",
        "seed": "Look at the mast.",
        "reviewed": False,
    }
    outcomes = await run_import(put("web_20260102.jsonl", stream), put("seed_1.json", seed))
    assert [(each.kind, each.user_messages, each.assistant_messages) for each in outcomes] == [
        ("thoughtstream", 1, 1),
        ("thought_seed", 0, 0),
    ]
    assert [text for _, text in await said(archive, outcomes[0])] == ["What next?", "The keel.", "Ask about the keel."]


async def test_sessions_without_ids_of_their_own_are_not_taken_for_one(run_import: Any, put: Put) -> None:
    for name in ("one", "two"):
        spoken = [
            {"type": role, "timestamp": "2026-03-11T14:20:00Z", "sessionId": name, "message": {"content": role + name}}
            for role in ("user", "assistant")
        ]
        put(f"projects/{name}.jsonl", spoken)
    outcomes = await run_import(put("projects/note.md", "# A note").parent)
    sessions = [(each.conversation_id, each.user_messages, each.outcome) for each in outcomes if each.kind != "note"]
    assert sessions == [("one", 1, "accepted"), ("two", 1, "accepted")]
