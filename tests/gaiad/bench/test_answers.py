"""`gaiad bench answers` on one small conversation made up here; the archive and the researcher are real."""

import json
from pathlib import Path

import pytest

from gaiad.base.config import load_config
from gaiad.base.errors import BadInput
from gaiad.bench.answers import measure_answers, run_answers
from gaiad.bench.answers_scores import (
    ADVERSARIAL,
    UNKNOWN,
    Answered,
    LabelledQuestion,
    calibration,
    calibration_error,
    citing,
    citing_interval,
    miscalibration,
    rank_of,
    strangers,
    summary,
)
from gaiad.cli.main import program, run

CONFIG = load_config((), {}, ["embedder.kind=none"])


def answered(cited: str, right: str = "a", confidence: float = 0.9, status: str = "SUCCESS", category: str = "4"):
    return Answered(
        asked=LabelledQuestion("?", category, tuple(right)),
        status=status,
        cited=tuple(cited),
        confidence=confidence,
        iterations=1,
        took_ms=2.0,
    )


def talk():
    def turns(number, *said):
        names = ("Vera", "Otto")
        return [{"speaker": names[n % 2], "dia_id": f"D{number}:{n + 1}", "text": text} for n, text in enumerate(said)]

    questions = [
        ("Who caught a trout at the lake?", ["D1:2"], 4),
        ("Where did Vera's sister move?", ["D2:1"], 1),
        ("What was said of trout and of Lisbon?", ["D1:2", "D2:1"], 1),
        ("What did Vera catch at the lake?", ["D1:2"], 5),
    ]
    return {
        "sample_id": "talk",
        "conversation": {
            "speaker_a": "Vera",
            "speaker_b": "Otto",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2_date_time": "9:05 am on 12 June, 2023",
            "session_1": turns(
                1, "How was the lake?", "We caught a trout at the lake. The ferret of my aunt came too."
            ),
            "session_2": turns(2, "My sister moved to Lisbon for the observatory.", "An astronomer in the family!"),
        },
        "qa": [{"question": text, "evidence": evidence, "category": kind} for text, evidence, kind in questions],
    }


def test_the_bench_measures_answers_as_json(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("gaiad.bench.answers.load_config", lambda: CONFIG)
    (tmp_path / "talk.json").write_text(json.dumps([talk()]))
    assert run(program, "gaiad", ["bench", "answers", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["dataset"], found["archives"], found["threshold"]) == (["talk.json"], 1, 0.8)
    assert (found["single"]["questions"], found["single"]["recall"], found["single"]["f1"]) == (2, 1.0, 1.0)
    assert (found["answerable"]["questions"], found["category_5"]["questions"]) == (3, 1)
    assert found["unknown_left_out"] == 1, "somebody spoke of a ferret"
    assert found["unknown"] == {"questions": 99, "not_found": 1.0}
    figures = found["figures"]
    assert (figures["questions"], figures["right"], figures["first"], figures["mrr"]) == (3, 3, 3, 1.0)
    assert (figures["unknown"], figures["unknown_told"], figures["all_at_10"]) == (99, 99, 3)
    assert sum(band["answers"] for band in found["confidence"]["bands"]) == 2


def test_a_set_is_a_table_of_figures_with_intervals(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("gaiad.bench.answers.load_config", lambda: CONFIG)
    (tmp_path / "talk.json").write_text(json.dumps([talk()]))
    run_answers([tmp_path / "talk.json"], as_json=False)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "conversations: 3 questions, 99 that nothing answers"
    shown = {line[:30].strip(): line[30:].split() for line in lines}
    assert shown["right"][:3] == ["3", "of", "3"]
    assert shown["unknown told"] == ["99", "of", "99", "1.000", "0.96-1.00"]
    assert shown["packet MRR"] == ["1.000"]


def test_the_rank_is_that_of_the_first_right_packet() -> None:
    assert rank_of({"b"}, ["a", "a", "b"]) == 2
    assert rank_of({"c"}, ["a", "b"]) == 0
    assert calibration_error([(0.95, True), (0.95, False)]) == pytest.approx(0.45)
    assert calibration_error([]) == 0.0


def test_what_is_cited_counts_by_packet() -> None:
    found = citing([answered("a"), answered("ba"), answered("b"), answered("", status="NOT_FOUND", confidence=0)])
    assert found == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "packets_cited": 1.0}
    assert citing([]) == {"precision": 0, "recall": 0, "f1": 0, "packets_cited": 0}
    low, high = citing_interval([answered("a"), answered("b")] * 20)["precision"]
    assert 0.2 < low < 0.5 < high < 0.8
    assert citing_interval([]) == {}


def test_confidence_is_held_against_the_first_packet_cited() -> None:
    rows = [answered("a", confidence=0.95), answered("ba", confidence=0.95), answered("b", confidence=0.55)]
    bands = calibration([*rows, answered("", status="NOT_FOUND", confidence=0.0)])
    assert [(band["from"], band["answers"], band["first_right"], band["any_right"]) for band in bands] == [
        (0.5, 1, 0.0, 0.0),
        (0.9, 2, 0.5, 1.0),
    ]
    assert miscalibration(rows) == pytest.approx((0.55 + 2 * 0.45) / 3, abs=1e-3)


def test_not_found_is_told_apart_by_whether_there_is_an_answer() -> None:
    nothing = {"cited": "", "status": "NOT_FOUND", "confidence": 0.0}
    found = summary(
        [
            answered("a"),
            answered(right="ab", **nothing),
            answered(right="", category=UNKNOWN, **nothing),
            answered("a", right="", category=UNKNOWN),
            answered("a", category=ADVERSARIAL),
        ]
    )
    assert found["answerable"] == {"questions": 2, "not_found": 0.5}
    assert found["unknown"] == {"questions": 2, "not_found": 0.5}
    assert found["category_5"] == {"questions": 1, "not_found": 0.0}
    assert found["single"]["questions"] == 1


def test_the_hundred_name_each_what_must_stand_nowhere() -> None:
    asked = strangers()
    assert len({one.text for one in asked}) == 100
    for one in asked:
        assert one.words
        assert all(word in one.text.lower() for word in one.words)


def test_what_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no \*\.json file in this folder"):
        measure_answers([tmp_path])
    assert run(program, "gaiad", ["bench", "answers"]) != 0
    (tmp_path / "empty.json").write_text(json.dumps([{**talk(), "qa": []}]))
    assert run(program, "gaiad", ["bench", "answers", str(tmp_path)]) != 0
