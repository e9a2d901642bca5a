"""What verbs send and print, against a small server that answers as the daemon would."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from gaiad.cli.ask import gam_research
from gaiad.cli.main import program, run

JOB = {
    "job_id": "job_1",
    "kind": "ingest",
    "tenant": "local",
    "state": "running",
    "done": 0,
    "total": 2,
    "note": "",
    "created_at": "2025-11-30T15:45:00Z",
    "updated_at": "2025-11-30T15:45:00Z",
}
HIT = {
    "page_id": "pg1",
    "packet_id": "tp-1",
    "session_id": "s",
    "score": 0.031,
    "excerpt": "The law of \x1b[2Jconsent",
    "timestamp": "2025-11-30T15:45:00Z",
    "topic": "Law",
    "retrievers": ["bm25", "dense"],
}
RESULT = {
    "status": "SUCCESS",
    "answer": "Consent [Packet: tp-1].",
    "source_packets": ["tp-1"],
    "citations": [
        {
            "packet_id": "tp-1",
            "page_id": "pg1",
            "start": 0,
            "end": 7,
            "sha256": "ab",
            "quote": "Consent",
            "topic": "Law",
        }
    ],
    "confidence": 0.9,
    "confidence_band": "HIGH",
    "iterations_used": 1,
    "max_iterations": 5,
    "note": "",
    "suggestions": [],
    "engine": "extractive",
    "took_ms": 3.0,
}


class Shell:
    def __init__(self, api: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self.capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", [*arguments, "--home", str(self.api.home)])
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def shell(api: Any, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(api, capsys)


def outcome(path: str, kind: str = "accepted", **more: str) -> dict[str, str]:
    return {"path": path, "outcome": kind, "packet_id": f"tp-{Path(path).stem}", **more}


def ingest_routes(api: Any, outcomes: list[dict[str, str]], state: str = "done") -> None:
    """A job whose outcomes come in two instalments."""
    looks = iter(["running"])

    def job(_body: Any) -> Any:
        return JOB | {"state": next(looks, state), "done": len(outcomes), "total": len(outcomes)}

    api.routes["POST /ingest"] = (202, {"job": JOB, "outcomes": []})
    api.routes["GET /jobs/job_1?tenant=local"] = job
    api.routes["GET /jobs/job_1/outcomes?tenant=local"] = {"outcomes": outcomes[:1]}
    for number in range(1, len(outcomes) + 1):
        api.routes[f"GET /jobs/job_1/outcomes?after={number}&tenant=local"] = {"outcomes": outcomes[number:]}
    api.routes["GET /jobs/job_1/outcomes?after=0&tenant=local"] = {"outcomes": outcomes[:1]}


def test_ingest_prints_a_json_line_a_file_in_the_contracts_shape(
    shell: Shell, api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.xml").touch()
    monkeypatch.chdir(tmp_path)
    ingest_routes(api, [outcome("/a.xml", dialect="gam", integrity="verified"), outcome("/b.xml", "duplicate")])
    code, out, err = shell("ingest", "--json", "a.xml")
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["path"] for line in lines] == ["/a.xml", "/b.xml"]
    assert set(lines[0]) == {"path", "outcome", "packet_id", "dialect", "integrity", "reason"}
    assert api.body("POST /ingest")["paths"] == [str(tmp_path / "a.xml")]
    assert api.body("POST /ingest")["wait"] is False


@pytest.mark.parametrize(
    ("kind", "code"), [("ignored", 0), ("revised", 0), ("duplicate", 0), ("quarantined", 1), ("failed", 1)]
)
def test_ingest_exits_1_when_a_file_was_not_kept(shell: Shell, api: Any, tmp_path: Path, kind: str, code: int) -> None:
    ingest_routes(api, [outcome("/a.xml"), outcome("/b.xml", kind, reason="line 3: because")])
    found, out, _ = shell("ingest", str(tmp_path))
    assert found == code
    assert "line 3: because" in out
    assert "1 accepted" in out


def test_ingest_of_a_missing_path_starts_nothing(shell: Shell, api: Any, tmp_path: Path) -> None:
    code, out, err = shell("ingest", str(tmp_path), str(tmp_path / "gone.xml"))
    assert (code, out) == (2, "")
    assert str(tmp_path / "gone.xml") in err
    assert api.requests == []
    code, out, _ = shell("ingest", "--json", str(tmp_path / "gone.xml"))
    assert code == 2
    assert json.loads(out)["outcome"] == "failed"


def test_ingest_detached_prints_the_job(shell: Shell, api: Any, tmp_path: Path) -> None:
    ingest_routes(api, [])
    assert shell("ingest", "--detach", str(tmp_path)) == (0, "job_1\n", "")


def test_ingest_of_a_job_that_failed_or_was_cancelled(shell: Shell, api: Any, tmp_path: Path) -> None:
    ingest_routes(api, [outcome("/a.xml")], "failed")
    assert shell("ingest", str(tmp_path))[0] == 1
    ingest_routes(api, [outcome("/a.xml")], "cancelled")
    code, _, err = shell("ingest", str(tmp_path))
    assert code == 7
    assert "cancelled after 1 of 1 files" in err


def test_ingest_reads_a_packet_from_standard_input(shell: Shell, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\ufeff<p>é</p>".encode())))
    ingest_routes(api, [outcome("stdin")])
    assert shell("ingest", "-")[0] == 0
    assert api.body("POST /ingest")["documents"] == [{"name": "stdin", "content": "<p>é</p>"}]


def test_search_sends_its_flags_and_prints_the_contracts_json(shell: Shell, api: Any) -> None:
    api.routes["POST /search"] = {"hits": [HIT], "took_ms": 2.5}
    flags = "--limit 3 --model m --topic t --tag g --metric c:0.5.. --phrase law --adjacent 1 --order latest --explain"
    code, out, _ = shell("search", "--json", *flags.split(), "--since", "2025-11-30T00:00Z", "law", "of", "consent")
    assert code == 0
    found = json.loads(out)
    assert {"hits", "took_ms"} <= set(found)
    assert set(HIT) <= set(found["hits"][0])
    sent = api.body("POST /search")
    assert (sent["query"], sent["limit"], sent["mode"], sent["adjacent"]) == ("law of consent", 3, "hybrid", 1)
    assert sent["filters"]["since"] == "2025-11-30T00:00:00Z"
    assert sent["filters"]["metrics"] == [{"name": "c", "minimum": 0.5, "maximum": None}]
    assert sent["explain"] is True


def test_search_text_shows_what_was_found_without_escapes(shell: Shell, api: Any) -> None:
    explanation = {
        "retrievers": {"bm25": {"rank": 1, "score": 7.25}},
        "boosts": {"name": 0.1},
        "matched_terms": ["consent"],
    }
    hit = HIT | {"speaker": "Claude", "explanation": explanation, "adjacent": [HIT | {"excerpt": "the page before"}]}
    api.routes["POST /search"] = {"hits": [hit], "took_ms": 2.5, "degraded": ["no embedder"]}
    code, out, _ = shell("search", "consent")
    assert code == 0
    for part in (
        " 1. Law  2025-11-30  score 0.0310",
        "[Packet: tp-1]  Claude",
        "consent",
        "| the page before",
        "bm25: rank 1, score 7.2500",
        "boosts: name +0.1000",
        "degraded: no embedder",
        "1 hit in 2 ms",
    ):
        assert part in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("flags", "mode"),
    [(["--page", "pg1"], "page_id"), (["--topic", "t"], "metadata"), (["--phrase", "x y"], "hybrid")],
)
def test_search_without_words_takes_its_mode_from_the_flags(
    shell: Shell, api: Any, flags: list[str], mode: str
) -> None:
    api.routes["POST /search"] = {"hits": [], "took_ms": 1}
    assert shell("search", *flags)[0] == 0
    assert api.body("POST /search")["mode"] == mode


def test_search_for_nothing_is_a_usage_error_and_nothing_found_is_not(shell: Shell, api: Any) -> None:
    api.routes["POST /search"] = {"hits": [], "took_ms": 1}
    assert shell("search")[0] == 2
    assert shell("search", "x")[0] == 0
    assert shell("search", "--exit-status", "x")[0] == 3


def test_ask_prints_the_contracts_json(shell: Shell, api: Any) -> None:
    api.routes["POST /research"] = RESULT
    code, out, err = shell("ask", "--json", "--now", "2025-12-01T00:00Z", "what", "is", "consent?")
    assert (code, err) == (0, "")
    assert set(RESULT) <= set(json.loads(out))
    sent = api.body("POST /research")
    assert (sent["query"], sent["now"], sent["max_iterations"]) == ("what is consent?", "2025-12-01T00:00:00Z", 0)


def test_ask_prints_the_answer_its_sources_and_one_line(shell: Shell, api: Any) -> None:
    api.routes["POST /research"] = RESULT
    assert shell("ask", "consent?")[:2] == (
        0,
        'Consent [Packet: tp-1].\n\nSOURCES:\n- [Packet: tp-1] "Law" (undated)\n'
        "SUCCESS | confidence 0.90 (HIGH) | 3 ms | more: --why\n",
    )


def test_ask_why_prints_the_layout_with_confidence_and_engine(shell: Shell, api: Any) -> None:
    api.routes["POST /research"] = RESULT
    code, out, _ = shell("ask", "--why", "consent?")
    assert code == 0
    assert out.startswith(
        "Searching Transmission Packets...\nFound 1 relevant packet [tp-1]\n\nSynthesizing answer...\n"
    )
    assert "CONFIDENCE: 0.90 (HIGH)" in out
    assert out.endswith("\nEngine: extractive (3 ms)\n")


def test_ask_reads_standard_input_and_refuses_emptiness(
    shell: Shell, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.routes["POST /research"] = RESULT
    monkeypatch.setattr("sys.stdin", io.StringIO("what is RTC?\n"))
    assert shell("ask")[0] == 0
    assert api.body("POST /research")["query"] == "what is RTC?"
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    assert shell("ask")[0] == 2


@pytest.mark.parametrize(("status", "code"), [("SUCCESS", 0), ("PARTIAL", 0), ("NOT_FOUND", 3), ("CLARIFY", 3)])
def test_ask_tells_a_script_on_request_that_nothing_was_found(shell: Shell, api: Any, status: str, code: int) -> None:
    api.routes["POST /research"] = RESULT | {"status": status}
    assert shell("ask", "x")[0] == 0
    assert shell("ask", "--exit-status", "x")[0] == code


def test_gam_research_prints_the_seeds_layout_and_nothing_else(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    api.routes["POST /research"] = RESULT
    assert run(gam_research, "gam-research", ["consent?", "--home", str(api.home)]) == 0
    captured = capsys.readouterr()
    rule = "─" * 54
    assert captured.out == (
        "Searching Transmission Packets...\nFound 1 relevant packet [tp-1]\n\nSynthesizing answer...\n\n"
        f"{rule}\nRESEARCH RESULT\n\nConsent [Packet: tp-1].\n\n"
        'SOURCES:\n- [Packet: tp-1] "Law" (undated)\n\n'
        f"Iterations: 1/5 | Status: SUCCESS\n{rule}\n"
    )
    assert captured.err == "Engine: extractive (3 ms)\n"


STATUS = {
    "pid": 2**22 + 5,
    "version": "0.1.0",
    "uptime_s": 61.0,
    "home": "/h",
    "socket": "/h/gaiad.sock",
    "url": "",
    "packets": 1234,
    "pages": 5,
    "vectors": 3,
    "queue": 2,
    "quarantined": 1,
    "models": [{"role": "embedder", "kind": "gguf", "path_or_url": "m.gguf", "state": "ready", "pid": 7, "reason": ""}],
    "degraded": ["vector index rebuilt"],
    "tenants": ["local"],
    "folders": ["/h/inbox"],
    "jobs": {"done": 2, "failed": 0},
    "memory_bytes": 1048576,
}


def test_status_shows_what_is_degraded_first(shell: Shell, api: Any) -> None:
    api.routes["GET /status"] = STATUS
    code, out, _ = shell("status")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"gaiad 0.1.0 runs as pid {STATUS['pid']} for 1 min 1 s"
    assert lines[1] == "degraded: vector index rebuilt"
    for part in ("1,234, and 1 in quarantine", "3 (2 pages waiting)", "ready, gguf, m.gguf", "1.0 MiB", "2 done"):
        assert part in out
    assert set(STATUS) <= set(json.loads(shell("status", "--json")[1]))


def test_stop_waits_for_the_process_and_says_its_pid(shell: Shell, api: Any) -> None:
    api.routes["GET /status"] = STATUS
    api.routes["POST /stop"] = {"stopping": True}
    assert shell("stop") == (0, f"stopped (pid {STATUS['pid']})\n", "")


SUMMARY = {
    "packet_id": "tp-1",
    "revision": 1,
    "timestamp": "2025-11-30T15:45:00Z",
    "topic": "Law",
    "dialect": "gam",
    "integrity": "broken",
    "model": "m",
    "session_id": "s",
    "pages": 1,
    "bytes": 2048,
    "sha256": "ab",
}
PAGE = {
    "page_id": "pg1",
    "packet_id": "tp-1",
    "session_id": "s",
    "sequence": 0,
    "section": "content",
    "path": "body",
    "text": "Some\x07 text",
    "start": 0,
    "end": 9,
    "timestamp": "",
}


@pytest.mark.parametrize(
    ("retrievers", "flags", "said"),
    [(["dense"], [], True), (["dense"], ["--mode", "dense"], False), (["bm25", "dense"], [], False)],
)
def test_search_says_when_no_page_has_the_words(
    shell: Shell, api: Any, retrievers: list[str], flags: list[str], said: bool
) -> None:
    hits = [HIT | {"retrievers": ["dense"]}, HIT | {"retrievers": retrievers, "topic": ""}]
    api.routes["POST /search"] = {"hits": hits, "took_ms": 1}
    out = shell("search", *flags, "oak", "door")[1]
    assert ("No page has any of these words" in out) is said
    assert " 2. session s  2025-11-30" in out


def test_packets_are_listed_and_shown(shell: Shell, api: Any) -> None:
    api.routes["POST /packets/list"] = {"packets": [SUMMARY]}
    api.routes["POST /packets/show"] = {
        "packet": SUMMARY,
        "fields": {"tags": ["a", "b"], "metrics": {"coherence": 0.9}, "notes": ""},
        "integrity": [{"what": "chain", "verdict": "broken", "detail": "hash differs"}],
        "pages": [PAGE],
        "source": "/in/a.xml",
        "received_at": "2025-12-01T00:00:00Z",
    }
    assert "2025-11-30  (integrity broken) Law  gam   1      tp-1" in shell("packets", "list", "--tag", "a")[1]
    assert api.body("POST /packets/list")["filters"]["tags"] == ["a"]
    text = shell("packets", "show", "tp-1")[1]
    for part in ("[Packet: tp-1] Law", "2.0 KiB, 1 page", "a; b", "coherence 0.9", "chain  broken  hash differs"):
        assert part in text
    assert "Some text" not in text
    assert "Some text" in shell("packets", "show", "tp-1", "--pages")[1]
    listed = json.loads(shell("packets", "list", "--json")[1])
    assert listed == {"packets": [SUMMARY | {"summary": "", "media_type": ""}]}
    api.routes["POST /packets/list"] = {"packets": [SUMMARY | {"topic": "", "summary": f"What hums? {'x' * 60}"}]}
    assert f"  (integrity broken) What hums? {'x' * 9}…  " in shell("packets", "list")[1]


def test_every_day_shown_is_that_of_the_persons_zone(shell: Shell, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cited = [RESULT["citations"][0] | {"timestamp": "2025-11-30T15:45:00Z"}]
    api.routes["POST /research"] = RESULT | {"citations": cited}
    api.routes["POST /search"] = {"hits": [HIT], "took_ms": 1.5, "degraded": []}
    api.routes["POST /packets/list"] = {"packets": [SUMMARY]}
    said = {}
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("GAIAD_USER__TIMEZONE", zone)
        verbs = (("ask", "consent?"), ("search", "consent"), ("packets", "list"))
        said[zone] = [shell(*verb)[1] for verb in verbs]
    assert all("2025-11-30" in text and "2025-12-01" not in text for text in said["UTC"])
    assert all("2025-12-01" in text and "2025-11-30" not in text for text in said["Asia/Tokyo"])


def test_quarantined_packets_are_listed_with_their_reason(shell: Shell, api: Any) -> None:
    row = {"id": 7, "path": "/in/b.xml", "size": 3, "at": "2026-01-02T08:00:00Z", "kept": True}
    api.routes["GET /quarantine?tenant=local"] = {"quarantined": [{**row, "line": 3, "reason": "bad"}]}
    assert shell("quarantine")[1].splitlines()[1].split() == ["7", "2026-01-02", "/in/b.xml", "line", "3:", "bad"]
    api.routes["POST /quarantine/drop"] = {"dropped": 7}
    assert shell("quarantine", "drop", "7")[:2] == (0, "dropped 7\n")
    api.routes["POST /quarantine/retry"] = {"path": "/in/b.xml", "outcome": "quarantined", "reason": "still bad"}
    assert shell("quarantine", "retry", "7")[0] == 1


def test_verify_exits_1_and_names_the_problems(shell: Shell, api: Any) -> None:
    api.routes["POST /packets/verify"] = {"checked": 2, "ok": 2, "problems": []}
    assert shell("packets", "verify") == (0, "2 packets checked, 2 fine\n", "")
    api.routes["POST /packets/verify"] = {"checked": 2, "ok": 1, "problems": ["tp-1: hash differs"]}
    assert shell("packets", "verify", "tp-1")[:2] == (1, "problem: tp-1: hash differs\n2 packets checked, 1 fine\n")
    assert api.body("POST /packets/verify") == {"packet_ids": ["tp-1"], "tenant": "local"}


def test_export_writes_the_bytes_and_never_over_a_file_unasked(
    api: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"\xff\x00<p>\r\n"
    api.routes["POST /packets/export"] = content
    target = tmp_path / "out.xml"
    arguments = ["packets", "export", "tp-1", "--home", str(api.home)]
    assert run(program, "gaiad", [*arguments, "--output", str(target)]) == 0
    assert target.read_bytes() == content
    assert run(program, "gaiad", [*arguments, "--output", str(target)]) == 2
    assert run(program, "gaiad", [*arguments, "--output", str(target), "--force", "--revision", "2"]) == 0
    assert api.body("POST /packets/export")["revision"] == 2
    assert run(program, "gaiad", [*arguments, "--output", str(tmp_path / "no" / "x")]) == 1


def test_jobs_are_listed_followed_and_cancelled(shell: Shell, api: Any) -> None:
    api.routes["GET /jobs"] = {"jobs": [JOB]}
    api.routes["GET /jobs/job_1"] = JOB
    api.routes["GET /jobs/job_1?tenant=local"] = JOB | {"state": "failed", "note": "disk full"}
    api.routes["POST /jobs/job_1/cancel"] = JOB
    assert "job_1  ingest  running  0/2" in shell("jobs")[1]
    assert shell("jobs", "show", "job_1")[0] == 0
    code, out, _ = shell("jobs", "show", "job_1", "--follow")
    assert code == 1
    assert "disk full" in out
    assert shell("jobs", "cancel", "job_1")[1] == "asked job_1 to stop (it is running)\n"


def test_reindex_follows_its_job_and_reports_failure(shell: Shell, api: Any) -> None:
    api.routes["POST /reindex"] = JOB
    api.routes["GET /jobs/job_1?tenant=local"] = JOB | {"state": "done", "result": {"packets": 2}}
    code, out, _ = shell("reindex", "--json")
    assert (code, json.loads(out)["result"]) == (0, {"packets": 2})
    assert shell("reindex", "--detach")[1] == "job_1\n"
    api.routes["GET /jobs/job_1?tenant=local"] = JOB | {"state": "failed", "note": "disk full"}
    code, _, err = shell("reindex")
    assert (code, "disk full" in err) == (1, True)


def test_backup_and_restore_send_absolute_folders(
    shell: Shell, api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.routes["POST /backup"] = {"files": 3, "bytes": 12345}
    api.routes["POST /restore"] = {"moved_aside": "/h/aside"}
    monkeypatch.chdir(tmp_path)
    assert shell("backup", "b")[1] == f"backed up to {tmp_path}/b\nfiles  3\nbytes  12,345\n"
    assert api.body("POST /backup") == {"directory": f"{tmp_path}/b"}
    assert shell("restore", "b")[0] == 2
    (tmp_path / "b").mkdir()
    assert "moved aside  /h/aside" in shell("restore", "b")[1]
