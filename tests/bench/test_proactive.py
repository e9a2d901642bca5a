"""Proactive context on the labelled set that ships, by words alone, and on two small conversations made up here."""

import json

import pytest

from gaiad.base.config import load_config
from tests.bench.proactive import AIM_UNRELATED, made_up, measure

CONFIG = load_config((), {}, ["embedder.kind=none"])
OWN = "We caught trout near the old boathouse and fried them in butter."


def conversation(name, *said):
    turns = [{"speaker": "Vera", "dia_id": f"D1:{place}", "text": text} for place, text in enumerate(said, 1)]
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Vera",
            "speaker_b": "Otto",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": turns,
        },
        "qa": [{"question": "Who fried trout in butter near the boathouse?", "evidence": ["D1:1"], "category": 4}],
    }


def test_the_set_names_packets_that_it_has():
    known = made_up()
    names = {name for name, _, _ in known.packets}
    assert len(names) == len(known.packets) >= 30
    assert all(right and set(right) <= names for _, *right in known.related)
    assert len(set(known.unrelated)) == len(known.unrelated) >= 100


@pytest.fixture
async def found(tmp_path):
    file = tmp_path / "talks.json"
    other = "My sister measures double stars at the observatory of Lisbon."
    file.write_text(json.dumps([conversation("a", OWN), conversation("b", other)]))
    return await measure(file, 60, CONFIG, None)


async def test_few_unrelated_messages_show_a_packet_and_the_related_ones_the_right_one(found):
    assert found["made_up"]["unrelated"]["shown"] <= AIM_UNRELATED
    assert found["made_up"]["related"]["shown"] >= 0.6
    assert found["made_up"]["related"]["precision"] >= 0.95


async def test_conversations_are_asked_of_their_own_archive_and_of_the_others(found):
    talks = found["conversations"]
    assert talks["questions"] == {"messages": 2.0, "shown": 0.5, "precision": 1.0}
    assert talks["foreign_turns"] == {"messages": 2.0, "shown": 0.0}
    assert talks["foreign_questions"]["messages"] == 2.0
    assert found["look"]["pages"] > 30
    assert 0 < found["look"]["p50_ms"] <= found["look"]["p95_ms"]
