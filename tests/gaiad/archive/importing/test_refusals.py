"""What is refused, with advice; and exports made to break a reader: one clear line each."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.archive.importing import json_stream, kind, sample
from gaiad.archive.importing.kind import without_elements
from gaiad.base.ports import RequestContext
from tests.makers.exports import chatgpt
from tests.makers.exports import chatgpt_node as node

Put = Callable[[str, Any], Path]


async def test_what_looks_like_conversations_is_never_one_packet(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    said = [{"role": "user", "content": "Hello."}]
    exports = (
        [{"id": 1, "messages": said}],
        {"items": [{"title": "One", "messages": said}, {"title": "Two", "messages": []}]},
        {"account": {"data": [{"turns": said}, {"turns": said}]}},
        {"first": said, "second": said},
    )
    for number, export in enumerate(exports):
        (outcome,) = await run_import(put(f"chats-{number}.json", export), as_document=True)
        assert outcome.outcome == "refused"
        assert "holds many conversations" in outcome.reason
    assert (await archive.counts())["packets"] == 0
    report = {"decisions": [{"text": "Paint it."}], "risks": [{"text": "Rain."}], "log": {"messages": said}}
    (taken,) = await run_import(put("report.json", report), as_document=True)
    assert taken.outcome == "accepted"


async def test_a_document_is_taken_only_when_it_is_asked_for(run_import: Any, put: Put, make_packet: Any) -> None:
    report = put("report.json", {"title": "Report", "findings": ["All is well."]})
    (refused,) = await run_import(report)
    assert refused.outcome == "refused"
    assert "--as document" in refused.reason
    (taken,) = await run_import(report, as_document=True)
    assert (taken.outcome, taken.kind) == ("accepted", "packet")
    (packet,) = await run_import(put("tp.xml", make_packet()))
    assert (packet.outcome, packet.kind, packet.packet_id) == ("accepted", "packet", "TP-1")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.json", "", "is empty"),
        ("picture.json", b"\x89PNG\0\0\0", "is not text"),
        ("letter.txt", "Dear Anna,\n\nall is well.\n", "is of no kind gaiad knows"),
        ("packet.xsd", "<?xml version='1.0'?><schema/>", "is a schema"),
        ("inner.bin", b"PK\x07\x08\0\0", "is an archive inside an archive"),
        ("broken.json", '{"title": ', "not well-formed JSON"),
        ("broken.zip", b"PK\x03\x04 but no more", "damaged zip"),
        ("claude/history.jsonl", [{"display": "Go", "timestamp": 1}], "import the sessions: gaiad import ~/.claude/"),
        ("codex/history.jsonl", [{"session_id": "s", "ts": 1, "text": "Go"}], "gaiad import ~/.codex/sessions"),
        ("other.db", b"SQLite format 3\0" + bytes(100), "damaged database"),
    ],
)
async def test_a_file_of_no_kind_is_refused_with_its_reason(
    run_import: Any, put: Put, name: str, content: Any, reason: str
) -> None:
    (outcome,) = await run_import(put(name, content))
    assert outcome.outcome in ("refused", "failed")
    assert reason in outcome.reason


async def test_beside_others_such_a_file_is_passed_over(run_import: Any, put: Put) -> None:
    put("export/letter.txt", "Dear Anna")
    put("export/user.json", {"id": "me"})
    put("export/preferences.json", {"theme": "dark"})
    folder = put("export/conversations.json", [chatgpt()]).parent
    assert sorted(each.outcome for each in await run_import(folder)) == ["accepted", "ignored", "ignored", "ignored"]
    put("export/unknown.json", [{"messages": [{"role": "user", "content": "Hello."}]}])
    outcomes = await run_import(folder, import_id="imp_2")
    assert [Path(each.path).name for each in outcomes if each.outcome == "refused"] == ["unknown.json"]


async def test_a_truncated_export_keeps_what_came_before(run_import: Any, put: Put) -> None:
    whole = json.dumps([chatgpt(), chatgpt(conversation_id="c-2")])
    outcomes = await run_import(put("conversations.json", whole[:-200]))
    assert [each.outcome for each in outcomes] == ["accepted", "failed"]
    assert "ends in the middle" in outcomes[1].reason


async def test_times_that_are_not_and_letters_that_are_not(archive: LocalArchive, run_import: Any, put: Put) -> None:
    text = json.dumps([chatgpt(node("q", "root", "user", "Caf\u00e9", float("nan")), create_time=float("inf"))])
    broken = text.encode().replace(b"Caf\\u00e9", b"Caf\xe9 \\ud83d")
    (outcome,) = await run_import(put("conversations.json", broken))
    assert (outcome.outcome, outcome.first_message) == ("accepted", "")
    (page,) = (await archive.packet_detail(outcome.packet_id, RequestContext())).pages
    assert page.text == "Café \ufffd"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "cp1252"])
async def test_other_encodings_are_read(run_import: Any, put: Put, encoding: str) -> None:
    export = json.dumps([chatgpt(title="Größe – naïve")], ensure_ascii=False)
    (outcome,) = await run_import(put("conversations.json", export.encode(encoding)))
    assert (outcome.outcome, outcome.title) == ("accepted", "Größe – naïve")


async def test_too_many_nodes_too_long_or_too_deep_is_one_line_and_the_rest_is_read(
    run_import: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream, "_MAX_CONTAINERS", 400)
    many = {f"n{number}": {"id": "n", "message": None, "parent": None} for number in range(500)}
    deep = "[" * 100_000 + "]" * 100_000
    records = [json.dumps(chatgpt()), json.dumps({**chatgpt(), "mapping": many}), f'{{"mapping": {deep}}}']
    outcomes = await run_import(put("conversations.json", f"[{','.join(records)}]"))
    assert [each.outcome for each in outcomes] == ["accepted", "failed", "failed"]
    assert all("\n" not in each.reason for each in outcomes)


async def test_a_zip_that_is_an_office_document_is_refused_whole(run_import: Any, tmp_path: Path) -> None:
    path = tmp_path / "letter.docx"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("[Content_Types].xml", "<Types/>")
        made.writestr("word/document.xml", "<document>Dear Anna</document>")
    (outcome,) = await run_import(path)
    assert (outcome.outcome, outcome.path) == ("refused", str(path))
    assert "of another kind" in outcome.reason


async def test_a_session_is_recognised_behind_long_and_many_lines_of_the_program(run_import: Any, put: Put) -> None:
    said = {"type": "user", "sessionId": "s", "uuid": "u", "timestamp": "2025-01-01T00:00:00Z"}
    said["message"] = {"role": "user", "content": "Hello."}
    begun = [{"type": "progress", "data": "x" * 100_000}, *[{"type": "queue-operation"}] * 100]
    (outcome,) = await run_import(put("s.jsonl", [*begun, said]))
    assert (outcome.kind, outcome.user_messages) == ("claude_code", 1)


async def test_a_zip_bomb_is_not_read_on(run_import: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gaiad.archive.importing import source

    monkeypatch.setattr(source, "_RATIO_FREE_BYTES", 1024 * 1024)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("conversations.json", b"[" + b" " * 20_000_000)
    (outcome,) = await run_import(path)
    assert outcome.outcome == "failed"
    assert "unpacks to more than" in outcome.reason


async def test_a_record_beyond_all_measure_is_told_with_its_size(
    run_import: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_stream.elements, "__defaults__", (1000,))
    monkeypatch.setattr(json_stream, "LARGE_MAX_BYTES", 2000)
    (outcome,) = await run_import(put("conversations.json", [chatgpt(title="x" * 2000)]))
    assert outcome.outcome == "failed"
    assert outcome.reason.startswith('record 1 ("xxx')
    assert '") has ' in outcome.reason


async def test_a_session_of_too_many_lines_or_words_is_refused_in_one_line(
    run_import: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"type": "message", "role": "user", "content": "word " * 9} for _ in range(40)]
    monkeypatch.setattr(sample, "LINES_MAX", 30)
    (outcome,) = await run_import(put("rollout-1.jsonl", lines))
    assert (outcome.outcome, outcome.reason) == ("failed", "has more than 30 lines; one session may have that many")
    monkeypatch.setattr(sample, "LINES_MAX", 300)
    monkeypatch.setattr(kind, "WORDS_MAX_BYTES", 1024)
    (outcome,) = await run_import(put("rollout-1.jsonl", lines))
    assert (outcome.outcome, "of words in one conversation" in outcome.reason) == ("failed", True)


async def test_an_export_without_an_entry_is_named(run_import: Any, put: Put) -> None:
    page = '<html><div class="outer-cell mdl-cell">Gemini</div></html>'
    (outcome,) = await run_import(put("MyActivity.html", page))
    assert (outcome.outcome, outcome.reason) == ("ignored", "has no conversations in it")


@pytest.mark.parametrize("closing", ["", "</details>"])
def test_elements_that_never_end_cost_no_more_than_their_length(closing: str) -> None:
    opening = re.compile("<(details)>")
    text = f"Row.{closing}" + "<details>" * 200_000
    assert without_elements(text, opening) == text
    assert without_elements(f"<details>x</details>{text}", opening) == text
    assert without_elements("a<details>b</details>c", opening, replace=lambda _found, inner: inner.upper()) == "aBc"


async def test_a_file_in_quarantine_that_is_read_after_all_leaves_it(
    archive: LocalArchive, put: Put, call: RequestContext
) -> None:
    path = put("inbox/chats.jsonl", "not JSON")
    await archive.refuse_files({path: "is not JSON"}, call)
    assert [each["path"] for each in await archive.quarantined(call)] == [str(path)]
    await archive.handed_to_import([path], "imp_1", call)
    assert await archive.quarantined(call) == []
