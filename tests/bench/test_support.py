"""The measurement of the check on a conversation small enough to count by hand."""

import json
from pathlib import Path

from tests.bench.support import measure


def turn(number: int, speaker: str, text: str) -> dict[str, str]:
    return {"dia_id": f"D1:{number}", "speaker": speaker, "text": text}


def asked(question: str, answer: str, turns: list[int], category: int = 4) -> dict[str, object]:
    return {
        "question": question,
        "answer": answer,
        "evidence": [f"D1:{number}" for number in turns],
        "category": category,
    }


def test_an_answer_is_held_against_its_turn_and_against_another(tmp_path: Path) -> None:
    conversation = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            turn(1, "Mara", "I bought a green kayak."),
            turn(2, "Greta", "We had soup on the roof."),
            turn(3, "Mara", "The lighthouse keeper waved at us."),
        ],
    }
    questions = [
        asked("What did Mara buy?", "a green kayak", [1]),
        asked("What did Greta eat?", "twelve pancakes", [2]),
        asked("Who waved?", "the lighthouse keeper", [3]),
        asked("Which two?", "kayak and soup", [1, 2]),
        asked("When?", "May", [1], category=2),
    ]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"sample_id": "talk", "conversation": conversation, "qa": questions}]))
    found = measure(file)
    assert found["questions"] == 3, "one piece of evidence, and of a kind whose answer stands in it"
    assert found["on_its_evidence"] == 0.667
    assert found["on_another_turn"] == 0.0
    assert measure(tmp_path) == found
