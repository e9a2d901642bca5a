"""Sets of questions with patterns of a right answer: how they are read, asked and counted."""

import json
from pathlib import Path

from gaiad.base.config import load_config
from gaiad.bench.answers import Expected, figures, is_question_file, measure_questions
from gaiad.bench.answers_scores import format_sets, interval

CONFIG = load_config((), {}, ["embedder.kind=none"])
ROOT = Path(__file__).parents[3]
SETS = (ROOT.parent / "shared" / "data" / "questions", ROOT / "tests" / "data" / "questions")
PRODUCT = ("gaiad/research", "gaiad/archive", "constants")


def test_an_answer_is_right_with_every_pattern_of_all_and_one_of_any() -> None:
    expected = Expected(q="?", all=("oak", r"\b12\b"), any=("tar", "pitch"))
    assert expected.right("Oak, 12 planks, with PITCH")
    assert not expected.right("oak, 12 planks")
    assert not expected.right("oak, 123 planks, tar")
    assert not Expected(q="?", none=True).right("anything")


def test_a_set_is_asked_of_the_records_in_its_folder(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    boat = {"packet_id": "tp-boat", "timestamp": "2025-05-01T10:00:00Z", "hull": {"PlankCount": 12, "wood": "oak"}}
    (records / "boat.json").write_text(json.dumps(boat))
    file = tmp_path / "boats.json"
    known = {"q": "How many planks has the hull?", "packet": "tp-boat", "all": [r"\b12\b"]}
    file.write_text(json.dumps([known, {"q": "Which sailmaker sewed the spinnaker?", "none": True}]))
    assert is_question_file(str(file))
    row = measure_questions([f"{file}:records"], CONFIG)["boats"]
    assert (row.questions, row.right, row.right_packet, row.first, row.all_at_10) == (1, 1, 1, 1, 1)
    assert (row.unknown, row.unknown_told, row.wrong_and_sure, row.mrr) == (1, 1, 0, 1.0)
    assert "1 of 1" in format_sets({"boats": row})


def test_a_folder_of_notes_is_imported(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "mill.md").write_text("# The mill\n\n- Wheel: 9 buckets\n- Miller: Ines Moreira\n")
    file = tmp_path / "mills.json"
    file.write_text(json.dumps([{"q": "Who is the miller?", "packet": "note-mill", "all": ["Moreira"]}]))
    row = measure_questions([f"{file}:notes"], CONFIG)["mills"]
    assert (row.right, row.right_packet) == (1, 1)


def test_an_empty_set_has_figures_too() -> None:
    assert figures([]).questions == 0
    assert interval(0, 0) == (0.0, 0.0)


def test_no_question_set_stands_in_the_product() -> None:
    """Neither the name of a set nor one of its questions or patterns of several words."""
    phrases = {"locomo", "beir", "packets.json", "destress"}
    for file in (file for folder in SETS for file in folder.glob("*.json")):
        for one in json.loads(file.read_text(encoding="utf-8")):
            phrases.add(one["q"].lower().strip("?. "))
            phrases |= {each.lower() for each in (*one.get("all", ()), *one.get("any", ())) if each.count(" ") > 1}
    for room in PRODUCT:
        for path in (*(ROOT / room).rglob("*.py"), *(ROOT / room).rglob("*.toml")):
            text = path.read_text(encoding="utf-8").lower()
            assert not [phrase for phrase in phrases if phrase in text], path
