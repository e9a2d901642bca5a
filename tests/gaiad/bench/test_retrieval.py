"""`gaiad bench retrieval` on two small conversations and a small BEIR folder, made up here; the archive is real."""

import json

import pytest

from gaiad.archive.reading.reader import read_packet
from gaiad.base.clock import from_epoch_ms
from gaiad.base.config import load_config
from gaiad.base.errors import BadInput
from gaiad.bench.retrieval import INGREDIENTS, measure_retrieval, table, units_of
from gaiad.bench.retrieval_archive import shown
from gaiad.bench.retrieval_data import (
    EvidenceSpan,
    Skipped,
    conversation_files,
    fingerprint,
    read_beir,
    read_conversations,
)
from gaiad.cli.main import program, run
from gaiad.wire.schemas import Page
from tests.bench.retrieval_tuning import PARTS

CONFIG = load_config((), {}, ["embedder.kind=none"])


def turns(number, *said):
    names = ("Vera", "Otto")
    return [
        {"speaker": names[place % 2], "dia_id": f"D{number}:{place + 1}", "text": text}
        for place, text in enumerate(said)
    ]


def conversation(name):
    sessions = {
        "session_1": turns(
            1,
            "Hello Otto, how was your week by the lake?",
            "We caught <three> trout & fried them in butter near the old boathouse.",
            "Lovely. I spent mine repairing the greenhouse roof after the hail.",
        ),
        "session_2": turns(
            2,
            "My sister moved to Lisbon for her post at the observatory.",
            "An astronomer in the family! Which telescope does she use?",
            "A small refractor; she measures double stars all night long.",
        ),
    }
    sessions["session_1"][2]["blip_caption"] = "a photo of a greenhouse"
    questions = [
        ("What did Otto catch at the lake?", ["D1:2"], 4),
        ("Where did Vera's sister move, and what does she measure?", ["D2:1", "D2:3"], 1),
        ("What was damaged by hail?", ["D1:3", "D9:9; D1"], 4),
        ("Which zeppelin went unseen?", ["D2:2"], 5),
        ("What is nowhere?", ["D7:7"], 3),
    ]
    return {
        "sample_id": name,
        "conversation": {
            "speaker_a": "Vera",
            "speaker_b": "Otto",
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_2_date_time": "9:05 am on 12 June, 2023",
            **sessions,
        },
        "qa": [{"question": text, "evidence": evidence, "category": kind} for text, evidence, kind in questions],
    }


@pytest.fixture
def talks(tmp_path):
    file = tmp_path / "talks.json"
    file.write_text(json.dumps([conversation("one"), conversation("two")]), encoding="utf-8")
    return file


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    documents = [
        {"_id": "d1", "title": "Bees", "text": "A hive in winter clusters around its queen & shivers for warmth."},
        {"_id": "d2", "title": "Bread", "text": "Sourdough rises by wild yeast and lactic acid."},
        {"_id": "d3", "title": "", "text": "Beekeepers insulate a hive before winter."},
    ]
    queries = [
        {"_id": "q1", "text": "how does a hive survive winter"},
        {"_id": "q2", "text": "what makes sourdough rise"},
        {"_id": "q3", "text": "nobody judged this"},
    ]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    judged = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td3\t1\nq2\td2\t1\nq2\td1\t0\n"
    (folder / "qrels" / "test.tsv").write_text(judged, encoding="utf-8")
    return folder


def test_each_span_is_its_turn_in_the_packet(talks):
    collection = read_conversations(talks)[0]
    said = {
        span.unit: dict(collection.documents)[f"{packet}.xml"][span.start : span.end].decode()
        for packet, spans in collection.spans.items()
        for span in spans
    }
    assert len(said) == 6
    assert said["D1:2"] == "Otto: We caught &lt;three&gt; trout &amp; fried them in butter near the old boathouse."
    assert said["D1:3"].endswith("hail. [shares a picture: a photo of a greenhouse]")
    assert sorted(collection.spans) == ["tp-20230508-135600", "tp-20230612-090500"]


def test_two_sessions_of_one_minute_are_two_packets(tmp_path):
    sample = conversation("one")
    sample["conversation"]["session_2_date_time"] = sample["conversation"]["session_1_date_time"]
    file = tmp_path / "same.json"
    file.write_text(json.dumps([sample]), encoding="utf-8")
    assert len(read_conversations(file)[0].documents) == 2
    assert measure_retrieval(file, "locomo", config=CONFIG)["questions"] == 4


def test_packets_are_read_as_the_reference_dialect(talks):
    name, document = read_conversations(talks)[0].documents[0]
    packet = read_packet(document, name, from_epoch_ms(0), CONFIG.packets)
    assert (packet.dialect, packet.packet_id, packet.researcher) == ("reference", "tp-20230508-135600", "Vera")
    assert packet.verdict == "verified"


def test_evidence_that_is_no_turn_is_left_out_and_a_question_without_any_too(talks):
    collection = read_conversations(talks)[0]
    questions = collection.questions
    assert collection.skipped == Skipped(questions=1, evidence=2)
    assert [list(question.evidence) for question in questions] == [["D1:2"], ["D2:1", "D2:3"], ["D1:3"], ["D2:2"]]


def test_a_folder_of_conversations_is_read_by_name(talks, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([conversation("zero")]), encoding="utf-8")
    assert [one.name for one in read_conversations(tmp_path)] == ["zero", "one", "two"]
    assert fingerprint(conversation_files(tmp_path)) != fingerprint([talks])
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"no \*.json file"):
        read_conversations(tmp_path / "empty")


def test_a_page_shows_the_turns_it_has_bytes_of():
    spans = [EvidenceSpan(0, 10, "a"), EvidenceSpan(11, 20, "b"), EvidenceSpan(21, 30, "c")]
    page = Page("p", "k", "", 0, "content", "", "", 12, 25, "")
    assert shown(page, spans) == ["b", "c"]
    assert units_of([("p", "k"), ("q", "k"), ("p2", "k")], {"p": ["b", "c"], "p2": ["c", "a"]}) == ["b", "c", "q", "a"]


def test_conversations_are_measured_by_turn_and_session(talks, monkeypatch):
    every = {f"weight_{part}": 0.0 for part in PARTS}
    monkeypatch.setitem(INGREDIENTS, "anything", every)
    found = measure_retrieval(talks, "locomo", ablate=True, config=CONFIG)
    assert (found["dataset"], len(found["sha256"]), found["questions"]) == ("talks.json", 64, 8)
    assert found["turn"]["recall@10"] == 0.75  # nobody spoke of a zeppelin
    assert found["missed"] == {"evidence": 10, "not_retrieved": 2, "cut": 0, "ranked_low": 0}
    assert found["skipped"] == {"questions": 2, "evidence": 4}
    assert set(found["turn"]) == {"recall@5", "recall@10", "recall@20", "all@10", "mrr"}
    assert set(found["session"]) == {"hit@1", "recall@1", "recall@5", "recall@10"}
    assert found["by_category"]["4"]["questions"] == 4
    assert found["by_category"]["4"]["turn"]["mrr"] == 1.0
    assert found["ci95"]["session"]["hit@1"][0] <= found["session"]["hit@1"] <= found["ci95"]["session"]["hit@1"][1]
    assert set(found["ablation"]) == {f"without {name}" for name in INGREDIENTS}
    assert found["ablation"]["without anything"]["turn"]["mrr"] < found["turn"]["mrr"]
    assert "by_category 4 session hit@1" in "\n".join(table(found))


def test_the_loop_is_measured_beside_the_search(talks):
    found = measure_retrieval(talks, "locomo", loop=True, config=CONFIG)["loop"]
    assert set(found) == {"turn", "session", "by_category", "ci95", "iterations"}
    assert found["by_category"]["4"]["turn"]["recall@10"] == 1.0
    assert found["iterations"] >= 1


def test_documents_know_no_loop(beir):
    with pytest.raises(BadInput, match="--format locomo"):
        measure_retrieval(beir, "beir", loop=True, config=CONFIG)


def test_missed_evidence_is_told_apart(tmp_path):
    sample = conversation("one")
    filler = [f"The weather report number {number} says rain." for number in range(60)]
    sample["conversation"]["session_3"] = turns(3, *filler, "Rain again, says my weather report, rain and rain.")
    sample["conversation"]["session_3_date_time"] = "9:05 am on 2 July, 2023"
    sample["qa"] = [
        {"question": "What did the weather report number 7 say?", "evidence": ["D3:61"], "category": 4},
        {"question": "Which telescope measures stars?", "evidence": ["D3:40"], "category": 4},
    ]
    file = tmp_path / "long.json"
    file.write_text(json.dumps([sample]), encoding="utf-8")
    missed = measure_retrieval(file, "locomo", config=CONFIG)["missed"]
    assert missed["evidence"] == 2
    assert missed["ranked_low"] + missed["cut"] + missed["not_retrieved"] == 2
    assert missed["not_retrieved"] == 1


def test_beir_is_measured_by_document(beir):
    found = measure_retrieval(beir, "beir", config=CONFIG)
    assert found["questions"] == 2
    assert found["recall@10"] == found["recall@100"] == found["mrr"] == 1.0
    assert 0.85 < found["ndcg@10"] <= 1.0
    assert set(found["ci95"]) == {"ndcg@10", "recall@10", "recall@100", "mrr"}


def test_a_judgement_of_a_document_that_is_not_there_is_left_out_and_counted(beir):
    judged = beir / "qrels" / "test.tsv"
    judged.write_text(judged.read_text(encoding="utf-8") + "q1\td9\t1\nq3\td8\t1\nq4\td1\t1\n", encoding="utf-8")
    found = measure_retrieval(beir, "beir", config=CONFIG)
    assert (found["questions"], found["recall@10"]) == (2, 1.0)
    assert found["skipped"] == {"questions": 2, "evidence": 2}  # q3 has no other, and q4 is no query
    assert found["missed"] == {"evidence": 3, "not_retrieved": 0, "cut": 0, "ranked_low": 0}


def test_documents_that_are_missed_are_told_apart_too(beir):
    judged = beir / "qrels" / "test.tsv"
    judged.write_text("q2\td2\t1\nq2\td1\t1\n", encoding="utf-8")
    missed = measure_retrieval(beir, "beir", config=CONFIG)["missed"]
    assert missed == {"evidence": 2, "not_retrieved": 1, "cut": 0, "ranked_low": 0}


def test_a_query_without_a_judgement_is_left_out(beir):
    assert [question.text for question in read_beir(beir)[0].questions] == [
        "how does a hive survive winter",
        "what makes sourdough rise",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ('{"conversation": {}}', r"not a list of conversations; write one conversation as \[\{\.\.\.\}\]"),
        ("[1]", "conversation 1: not as LoCoMo has them"),
        ('[{"conversation": {}}]', "conversation 1: has no 'speaker_a'"),
    ],
)
def test_what_is_no_conversation_is_refused_by_name(tmp_path, text, said):
    file = tmp_path / "other.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=rf"other\.json.*{said}"):
        measure_retrieval(file, "locomo", config=CONFIG)


def test_a_missing_file_is_named_and_not_called_broken(tmp_path):
    with pytest.raises(BadInput, match=r"none\.json: cannot be read \(No such file or directory\)"):
        measure_retrieval(tmp_path / "none.json", "locomo", config=CONFIG)


def test_a_broken_line_of_beir_is_named(beir):
    (beir / "corpus.jsonl").write_text('{"_id": "d1"}\n', encoding="utf-8")
    with pytest.raises(BadInput, match=r"corpus\.jsonl, line 1: has no 'text'"):
        measure_retrieval(beir, "beir", config=CONFIG)
    judged = beir / "qrels" / "test.tsv"
    judged.write_text("q1\td1\t1\nq1\td2\tgood\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"test\.tsv, line 2"):
        measure_retrieval(beir, "beir", config=CONFIG)
    judged.unlink()
    with pytest.raises(BadInput, match=r"test\.tsv"):
        measure_retrieval(beir, "beir", config=CONFIG)


def test_the_command_prints_json(talks, capsys, monkeypatch):
    monkeypatch.setenv("GAIAD_EMBEDDER__KIND", "none")
    assert run(program, "gaiad", ["bench", "retrieval", "--format", "locomo", str(talks), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["turn"]["recall@10"] == 0.75
    assert found["ablation"] == {}


@pytest.mark.parametrize(
    "words",
    [
        ["retrieval", "x"],
        ["retrieval", "--format", "beir"],
        ["search", "--ablate"],
        ["search", "--loop"],
        ["--format", "beir"],
    ],
)
def test_a_command_that_is_not_whole_says_how_to_write_it(capsys, words):
    assert run(program, "gaiad", ["bench", *words]) == 2
    assert "retrieval" in capsys.readouterr().err
