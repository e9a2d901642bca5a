"""What a turn is given from the archive: nothing that it reads anyway, and what it had while its question stands."""

import pytest
from msgspec import structs

from gaiad.research.loop import Researcher
from gaiad.turn.gathering import Recall, degraded_notes, missing_notes, pages_that_stay, standing_turns
from gaiad.wire.chat import ChatRequest
from gaiad.wire.memory import SessionTurn, TurnMessage
from prompts.packet import ContextItem
from tests.makers.cognition import packet

ASKED = "Where does the lantern keep its light?"


def turn(number, user=ASKED, answer="In a lighthouse on the moon."):
    messages = [TurnMessage(role="user", content=user), TurnMessage(role="assistant", content=answer)]
    return SessionTurn(session_id="s", turn_id=f"turn_{number}", messages=messages, model="qwen")


@pytest.fixture
def looking(archive, config, clock):
    return Recall(archive, Researcher(archive, clock, config.research), clock)


@pytest.fixture
def look(looking, call):
    async def one(message, turns, quotes_only=False):
        request, standing = ChatRequest(message=message, session_id="s"), standing_turns(turns, 4096)
        found = await looking.look(
            request, standing, quotes_only=quotes_only, several=True, call=call, on_event=lambda _name, _data: None
        )
        return found, await looking.context(found.found, 4, call)

    return one


async def test_the_same_question_twice_is_answered_from_the_archive_both_times(
    look, archive, make_packet, tmp_path, call
):
    (tmp_path / "a.xml").write_bytes(make_packet())
    await archive.ingest_files([tmp_path / "a.xml"], call)
    _, first = await look(ASKED, [])
    await archive.remember_turn(turn(1), call)
    found, second = await look(ASKED, [turn(1)])
    assert {page.packet_id for page in first} == {page.packet_id for page in second} == {"TP-1"}
    assert "speaks of what the archive holds: lantern" in found.note.why
    assert degraded_notes(found.found) == [
        "the archive was searched with less than usual: embedder: none is running; searched by words only"
    ]


async def test_what_was_asked_of_another_time_than_anything_found_is_said(look, archive, make_packet, tmp_path, call):
    (tmp_path / "a.xml").write_bytes(make_packet())
    await archive.ingest_files([tmp_path / "a.xml"], call)
    found, _ = await look("Where did the lantern keep its light in May 1999?", [], quotes_only=True)
    assert found.found.status == "PARTIAL"
    assert missing_notes(found.found)[0] == "nothing was found in May 1999; what was found is from a different time"
    found, _ = await look(ASKED, [], quotes_only=True)
    assert not any("a different time" in note for note in missing_notes(found.found))
    assert missing_notes(None) == []


async def test_a_message_that_did_not_ask_and_found_nothing_is_as_if_nobody_had_looked(look, archive, call):
    await archive.remember_turn(turn(1, "The quokka sleeps.", "Good."), call)
    found, pages = await look("Does the quokka, the walrus or the auk hibernate in polar caverns?", [])
    assert (found.found, found.needed, found.note.status, pages) == (None, False, "", [])


async def test_a_model_that_only_quotes_is_given_what_was_said_in_the_session_too(look, archive, call):
    heron = turn(1, "My boat is called Heron.", "Noted.")
    await archive.remember_turn(heron, call)
    found, _ = await look("What is my boat called?", [heron], quotes_only=True)
    assert found.found is not None
    assert "Heron" in found.found.answer


async def test_a_turn_takes_over_the_labels_of_all_that_was_found_and_not_of_its_context_alone(
    look, looking, archive, make_packet, call
):
    for number in range(1, 21):
        tags = "SECRET" if number == 15 else "shelf"
        packet = make_packet(
            packet_id=f"TP-{number}",
            content=f"The key of shelf {number} hangs in the mill.",
            topic=f"Shelf {number}",
            timestamp=f"2025-11-{number:02}T09:30:00Z",
            tags=tags,
        )
        await archive.ingest_documents([(f"{number}.xml", packet)], call)
    guarding = call.without((), {"secret"})
    looked, context = await look("List all packets from November", [], quotes_only=True)
    assert "Shelf 15" in looked.found.answer
    assert "TP-15" not in {page.packet_id for page in context}
    assert await looking.labels(looked.found, [], [], guarding) == ([], ["SECRET"])
    named_only = structs.replace(looked.found, citations=[])
    assert await looking.labels(named_only, [], [], guarding) == ([], ["SECRET"])
    assert await looking.labels(looked.found, [], [], call) == ([], [])
    assert await looking.labels(None, [], [], guarding) == ([], [])


def test_only_turns_that_surely_fit_stand_in_the_history():
    turns = [turn(number, "x" * 2000, "y" * 1000) for number in range(5)]
    assert standing_turns(turns, 4096) == {"turn_3", "turn_4"}
    assert standing_turns(turns, 32768) == {f"turn_{number}" for number in range(5)}
    assert standing_turns([], 4096) == frozenset()


def test_the_pages_of_the_last_packet_stay_but_for_summaries():
    page = ContextItem(packet_id="TP-1", page_id="p1", text="The lantern.")
    short = ContextItem(packet_id="TP-2", page_id="p2", text="⚠SUMMARY So.", summary=True)
    assert pages_that_stay(packet(context=[page, short])) == [page]
    assert pages_that_stay(None) == []


async def test_what_a_person_tells_of_an_earlier_time_asks_nothing_of_the_archive(
    look, archive, make_packet, tmp_path, call
):
    (tmp_path / "a.xml").write_bytes(make_packet())
    await archive.ingest_files([tmp_path / "a.xml"], call)
    told, _ = await look("I sailed past the lantern yesterday.", [])
    asked, _ = await look("What did we say about the lantern yesterday?", [])
    assert (told.note.sought, told.found, told.near) == (False, None, ())
    assert (asked.note.sought, asked.needed) == (True, True)


async def test_of_a_page_that_only_names_what_is_asked_about_no_model_reads(look, archive, make_packet, tmp_path, call):
    (tmp_path / "a.xml").write_bytes(make_packet(content="Sigrun sold the boat to Matthis."))
    await archive.ingest_files([tmp_path / "a.xml"], call)
    found, pages = await look("What is the telephone number of Matthis?", [])
    assert ([item.packet_id for item in found.by_name], found.near, pages) == (["TP-1"], (), [])
    for other in ("What is the telephone number of Matthis and Erik?", "Who was the painter of the oldest picture?"):
        found, _ = await look(other, [])
        assert not found.by_name


async def test_nor_where_its_topic_is_named_and_nothing_answers(look, archive, make_packet, tmp_path, call):
    page = make_packet(content="Sigrun sold the boat Nordlys to Matthis.", topic="The boat Nordlys")
    (tmp_path / "a.xml").write_bytes(page)
    await archive.ingest_files([tmp_path / "a.xml"], call)
    found, pages = await look("In which year was the boat Nordlys built?", [])
    assert (found.note.sought, found.near, pages) == (True, [], [])
    assert {item.packet_id for item in found.by_name} == {"TP-1"}
