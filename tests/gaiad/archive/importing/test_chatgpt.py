from collections.abc import Callable
from pathlib import Path
from typing import Any

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext
from gaiad.wire.ingest import ImportOutcome
from gaiad.wire.schemas import Filters, Page, SearchRequest
from tests.makers.exports import chatgpt
from tests.makers.exports import chatgpt_node as node

Put = Callable[[str, Any], Path]


async def pages(archive: LocalArchive, outcome: ImportOutcome) -> list[Page]:
    return (await archive.packet_detail(outcome.packet_id, RequestContext())).pages


async def test_a_conversation_is_a_packet_with_its_title_dates_speakers_and_model(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    (outcome,) = await run_import(put("conversations.json", [chatgpt()]))
    assert (outcome.kind, outcome.conversation_id, outcome.title) == ("chatgpt", "c-1", "Harbour depth")
    assert (outcome.first_message, outcome.last_message) == ("2024-03-04T00:00:00Z", "2024-03-04T00:00:05Z")
    assert (outcome.user_messages, outcome.assistant_messages, outcome.outcome) == (1, 1, "accepted")
    question, answer = await pages(archive, outcome)
    assert (question.speaker, question.text) == ("user", "How deep is the harbour at low tide?")
    assert (answer.speaker, answer.timestamp, answer.model) == ("assistant", "2024-03-04T00:00:05Z", "gpt-9")
    original, _ = await archive.original(outcome.packet_id, RequestContext())
    assert original[answer.start : answer.end].decode() == answer.text


async def test_a_hit_has_the_time_of_its_message_and_is_found_by_its_own_month(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    later = node("q2", "a", "user", "And the harbour in a storm?", 60 * 86_400)
    first = chatgpt()["mapping"]
    await run_import(put("conversations.json", [chatgpt(first["q"], first["a"], later)]))
    request = SearchRequest(query="harbour", mode="bm25", filters=Filters(since="2024-05-01", until="2024-06-01"))
    (hit,) = (await archive.search(request, RequestContext())).hits
    assert (hit.timestamp, hit.excerpt) == ("2024-05-03T00:00:00Z", "And the harbour in a storm?")


async def test_only_the_branch_that_was_seen_becomes_pages(archive: LocalArchive, run_import: Any, put: Put) -> None:
    tree = [
        node("q", "root", "user", "Which boat?", 0),
        node("old", "q", "assistant", "A dinghy.", 1),
        node("new", "q", "assistant", "A schooner.", 2),
    ]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree, current="old")]))
    assert [page.text for page in await pages(archive, outcome)] == ["Which boat?", "A dinghy."]
    assert b"A schooner." in (await archive.original(outcome.packet_id, RequestContext()))[0]


async def test_without_a_current_node_the_newest_leaf_counts_and_times_never_sort(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    tree = [
        node("a", "q", "assistant", "Second.", 1),
        node("q", "root", "user", "First.", 9),
        node("end", "a", "user", "Third.", 10),
        node("other", "a", "user", "Taken back.", 3),
        node("undated", "a", "user", "Never sent.", None),
    ]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree, current="gone")]))
    assert [page.text for page in await pages(archive, outcome)] == ["First.", "Second.", "Third."]


async def test_what_a_person_does_not_see_is_left_out_and_counted(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    profile = {"content_type": "user_editable_context", "user_profile": "I sail.", "user_instructions": "Be brief."}
    tree = [
        node("s", "root", "system", ""),
        node("p", "s", "user", "", content=profile, **hidden),
        node("q", "p", "user", "Plot the tides."),
        node("t", "q", "assistant", "", content={"content_type": "thoughts", "thoughts": []}),
        node("w", "t", "assistant", "", content={"content_type": "code", "text": "search('x')"}, recipient="web"),
        node("c", "w", "assistant", "", content={"content_type": "code", "text": "plot()"}, recipient="python"),
        node("o", "c", "tool", "", content={"content_type": "execution_output", "text": "<Figure>"}),
        node("e", "o", "assistant", ""),
        node("a", "e", "assistant", "Here \ue200cite\ue202turn0search1\ue201it is."),
    ]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree)]))
    assert (outcome.user_messages, outcome.assistant_messages) == (1, 1)
    assert outcome.left_out == {"thoughts": 1, "tool calls": 1}
    found = [(page.section, page.speaker, page.text) for page in await pages(archive, outcome)]
    assert found == [
        ("instructions", "user", "I sail.\n\nBe brief."),
        ("transcript", "user", "Plot the tides."),
        ("artifact", "tool", "```python\nplot()\n```"),
        ("artifact", "tool", "```\n<Figure>\n```"),
        ("transcript", "assistant", "Here it is."),
    ]


async def test_images_and_voice_are_named_and_records_of_the_split_form_are_read(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-abc"}
    voice = {"content_type": "audio_transcription", "text": "What is this?"}
    split = node("q", "root", "user", "", content={"content_type": "multimodal_text", "parts": [image, voice]})
    split["message"].pop("recipient")
    split["message"]["metadata"] = {"attachments": [{"name": "chart.png", "mime_type": "image/png"}]}
    (outcome,) = await run_import(put("conversations-003.json", [chatgpt(split, title="")]))
    assert [page.text for page in await pages(archive, outcome)] == ["What is this?\n\n[image: chart.png]"]
    assert outcome.title == "What is this? [image: chart.png]"


async def test_a_cycle_in_the_tree_ends_the_branch_and_is_told(run_import: Any, put: Put) -> None:
    tree = [node("a", "b", "assistant", "One."), node("b", "a", "user", "Two.")]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree, current="a")]))
    assert (outcome.outcome, outcome.left_out) == ("accepted", {"messages above a cycle in its tree": 1})


async def test_what_gaiad_put_into_a_message_is_taken_out(archive: LocalArchive, run_import: Any, put: Put) -> None:
    fence = "<<memory abc123 [Packet: TP-1] 2025, Tides>>\nThe tide turns at nine.\n<<end abc123>>\n\n"
    open_fence = "<<memory def456 [Packet: TP-2]>>\nnever closed"
    tree = [node("q", "root", "user", f"{fence}When does it turn?"), node("a", "q", "assistant", open_fence)]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree)]))
    assert [page.text for page in await pages(archive, outcome)] == ["When does it turn?", open_fence]


async def test_a_tree_told_by_children_or_by_order_alone_is_followed(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    def turn(role: str, text: str, **links: Any) -> dict[str, Any]:
        return {"message": {"author": {"role": role}, "create_time": 1709510400, "content": text}, **links}

    down = {"b": turn("assistant", "Deep."), "a": turn("user", "How deep?", children=["b"])}
    plain = {"a": turn("user", "How wide?"), "b": turn("assistant", "Wide.")}
    export = [{"title": "T", "id": name, "mapping": tree} for name, tree in (("down", down), ("plain", plain))]
    outcomes = await run_import(put("conversations.json", export))
    found = [[page.text for page in await pages(archive, each)] for each in outcomes]
    assert found == [["How deep?", "Deep."], ["How wide?", "Wide."]]


async def test_instructions_as_the_exports_of_2023_have_them(archive: LocalArchive, run_import: Any, put: Put) -> None:
    told = node("i", "root", "system", "", 0)
    about = {"about_user_message": "I sail.", "about_model_message": "Be brief."}
    told["message"]["metadata"] = {"is_user_system_message": True, "user_context_message_data": about}
    question = node("q", "i", "user", "Which knot?", 1)
    (outcome,) = await run_import(put("conversations.json", [chatgpt(told, question)]))
    assert [page.text for page in await pages(archive, outcome)] == ["I sail.\n\nBe brief.", "Which knot?"]
    assert outcome.user_messages == 1


async def test_a_canvas_document_is_kept_and_a_spoken_conversation_reads_as_one(
    archive: LocalArchive, run_import: Any, put: Put
) -> None:
    def call(name: str, parent: str, tool: str, given: str) -> dict[str, Any]:
        return node(name, parent, "assistant", "", content={"content_type": "code", "text": given}, recipient=tool)

    def spoken(text: str, direction: str) -> dict[str, Any]:
        sound = {"content_type": "audio_asset_pointer", "asset_pointer": f"sediment://{direction}"}
        words = {"content_type": "audio_transcription", "text": text, "direction": direction}
        return {"content_type": "multimodal_text", "parts": [words, sound]}

    letter = '{"name": "Letter", "type": "document", "content": "Dear harbour master,"}'
    tree = [
        node("q", "root", "user", "", content=spoken("Write to the harbour master.", "in")),
        call("c", "q", "canmore.create_textdoc", letter),
        node("t", "c", "tool", "Successfully created text document."),
        call("u", "t", "canmore.update_textdoc", '{"updates": [{"pattern": "Dear", "replacement": "Good day,"}]}'),
        call("m", "u", "canmore.comment_textdoc", '{"comments": []}'),
        node("a", "m", "assistant", "", content=spoken("It is written.", "out")),
    ]
    (outcome,) = await run_import(put("conversations.json", [chatgpt(*tree)]))
    assert (outcome.user_messages, outcome.assistant_messages) == (1, 1)
    assert outcome.left_out == {"tool results": 1, "tool calls": 1}
    assert [(page.speaker, page.text) for page in await pages(archive, outcome)] == [
        ("user", "Write to the harbour master.\n\n[audio: in]"),
        ("tool", "Letter\n\nDear harbour master,"),
        ("tool", "Good day,"),
        ("assistant", "It is written.\n\n[audio: out]"),
    ]
