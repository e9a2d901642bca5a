"""The command line against the real daemon, in a home of its own, with the project's sample packets."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import gaiad
from gaiad.base.errors import Unavailable
from gaiad.cli.ask import gam_research
from gaiad.cli.main import program, run
from gaiad.client.client import Client
from gaiad.client.connection import _UnixConnection as UnixConnection
from tests.makers.exports import chatgpt

SAMPLES = Path(gaiad.__file__).parent / "samples"
START_LIMIT_S = 90.0


def serve(home: Path) -> subprocess.Popen[bytes]:
    """A daemon that answers on its socket."""
    command = [sys.executable, "-m", "gaiad.cli.main", "serve", "--home", str(home)]
    command += ["--set", "http.port=0", "--set", "embedder.kind=none", "--log-level", "error"]
    with (home.parent / "daemon.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            with Client(home) as client:
                client.health()
            return process
        except Unavailable:
            assert process.poll() is None, (home.parent / "daemon.log").read_text()[-2000:]
            time.sleep(0.02)
    process.kill()
    raise AssertionError(f"no daemon within {START_LIMIT_S:g} s: {(home.parent / 'daemon.log').read_text()[-2000:]}")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("d") / "h"
    home.mkdir(mode=0o700)
    process = serve(home)
    yield home
    process.terminate()
    try:
        process.wait(20)
    finally:
        process.kill()


@pytest.fixture
def shell(home: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", [*arguments, "--home", str(home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def ingested(shell: Any) -> list[dict[str, Any]]:
    """What the archive says of the samples; accepted the first time, duplicates later."""
    code, out, _ = shell("ingest", "--json", str(SAMPLES))
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_ingest_answers_for_every_file(ingested: list[dict[str, Any]]) -> None:
    files = sorted(str(path) for path in SAMPLES.iterdir() if path.suffix in (".xml", ".json"))
    assert [line["path"] for line in ingested if line["path"] in files] == files
    assert {line["outcome"] for line in ingested if line["path"] in files} <= {"accepted", "duplicate"}
    assert set(ingested[0]) == {"path", "outcome", "packet_id", "dialect", "integrity", "reason"}


def test_ingest_quarantines_what_is_malformed_with_line_and_reason(
    ingested: list[dict[str, Any]], shell: Any, tmp_path: Path
) -> None:
    (tmp_path / "bad.xml").write_text("<packet>\n<id>x</packet>")
    (tmp_path / "schema.xsd").write_text("<schema/>")
    code, out, _ = shell("ingest", "--json", str(tmp_path))
    assert code == 1
    found = {Path(line["path"]).name: line for line in map(json.loads, out.splitlines())}
    assert found["bad.xml"]["outcome"] == "quarantined"
    assert "line 2" in found["bad.xml"]["reason"]
    assert found["schema.xsd"]["outcome"] == "ignored"
    assert "bad.xml" in shell("quarantine")[1]


def test_status_has_the_contracts_fields(ingested: list[dict[str, Any]], shell: Any, home: Path) -> None:
    code, out, err = shell("status", "--json")
    assert (code, err) == (0, "")
    status = json.loads(out)
    fields = "pid version uptime_s packets pages vectors queue quarantined models degraded"
    assert set(fields.split()) <= set(status)
    assert status["packets"] >= len([line for line in ingested if line["packet_id"]])
    assert f"runs as pid {status['pid']}" in shell("status")[1]


def test_search_hits_have_the_contracts_fields(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, out, _ = shell("search", "--json", "--limit", "3", "enumeration protocol")
    assert code == 0
    response = json.loads(out)
    assert {"hits", "took_ms"} <= set(response)
    fields = "page_id packet_id session_id score excerpt timestamp topic retrievers"
    assert set(fields.split()) <= set(response["hits"][0])
    page = response["hits"][0]["page_id"]
    again = json.loads(shell("search", "--json", "--page", page)[1])
    assert [hit["page_id"] for hit in again["hits"]] == [page]


def test_ask_cites_stored_text_whose_hash_is_that_of_the_quote(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, out, _ = shell("ask", "--json", "what is the enumeration protocol?")
    assert code == 0
    result = json.loads(out)
    fields = "status answer source_packets citations confidence iterations_used max_iterations note suggestions"
    assert {*fields.split(), "engine", "took_ms"} <= set(result)
    assert result["status"] == "SUCCESS"
    assert result["citations"]
    for citation in result["citations"]:
        assert citation["sha256"] == hashlib.sha256(citation["quote"].encode()).hexdigest()
        detail = json.loads(shell("packets", "show", "--json", citation["packet_id"])[1])
        page = next(page for page in detail["pages"] if page["page_id"] == citation["page_id"])
        assert page["text"][citation["start"] : citation["end"]] == citation["quote"]
        assert f"[Packet: {citation['packet_id']}]" in result["answer"]


def test_a_question_nobody_answers_is_not_found(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, out, _ = shell("ask", "--exit-status", "what is zzyzxqwv?")
    assert code == 3
    assert 'No relevant Transmission Packets found for query: "what is zzyzxqwv?"' in out


def test_gam_research_prints_the_seeds_layout(
    ingested: list[dict[str, Any]], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(gam_research, "gam-research", ["Find packets about enumeration protocol", "--home", str(home)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Searching Transmission Packets..."
    assert lines[1].startswith("Found ")
    assert lines[3] == "Synthesizing answer..."
    assert lines[5] == lines[-1] == "─" * 54
    assert lines[6] == "RESEARCH RESULT"
    assert lines[-2].startswith("Iterations: ")
    sources = lines[lines.index("SOURCES:") + 1 : -3]
    assert sources
    assert all(line.startswith("- [Packet: ") and line.endswith(")") for line in sources)


def test_export_gives_the_file_back_byte_for_byte(ingested: list[dict[str, Any]], home: Path) -> None:
    kept = next(line for line in ingested if line["packet_id"])
    command = [sys.executable, "-m", "gaiad.cli.main", "packets", "export", kept["packet_id"], "--home", str(home)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == Path(kept["path"]).read_bytes()


def test_unknown_packets_and_jobs_exit_3(shell: Any) -> None:
    assert shell("packets", "show", "no-such-packet")[0] == 3
    assert shell("jobs", "show", "job_no_such")[0] == 3


def test_packets_verify_online(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, out, _ = shell("packets", "verify", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["checked"] == report["ok"] > 0


def test_a_home_in_use_is_not_read_behind_the_daemons_back(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, _, err = shell("packets", "verify", "--offline")
    assert code == 1
    assert "a daemon is using this home" in err


def test_reindex_runs_to_its_end_and_is_listed(ingested: list[dict[str, Any]], shell: Any) -> None:
    code, out, _ = shell("reindex", "--json")
    assert code == 0
    job = json.loads(out)
    assert job["state"] == "done"
    assert job["job_id"] in shell("jobs")[1]


def test_backup_can_be_restored(ingested: list[dict[str, Any]], shell: Any, tmp_path: Path) -> None:
    before = json.loads(shell("status", "--json")[1])["packets"]
    assert shell("backup", str(tmp_path / "b"))[0] == 0
    assert shell("restore", str(tmp_path / "b"))[0] == 0
    assert json.loads(shell("status", "--json")[1])["packets"] == before


def test_a_backup_into_the_home_is_refused(home: Path, shell: Any) -> None:
    code, _, stderr = shell("backup", str(home / "tenants" / "copy"))
    assert code == 2
    assert "choose a folder elsewhere" in stderr
    assert not (home / "tenants" / "copy").exists()


def test_a_path_too_long_for_any_file_and_a_tenant_that_cannot_be_are_named(shell: Any) -> None:
    code, _, stderr = shell("ingest", "/" + "y" * 5000)
    assert (code, "no such file" in stderr) == (2, True)
    code, _, stderr = shell("status", "--tenant", "../work")
    assert (code, "tenant '../work'" in stderr) == (2, True)


def test_config_and_doctor_ask_the_daemon(shell: Any) -> None:
    shown = json.loads(shell("config", "show", "--json")[1])
    assert shown["daemon"] is True
    assert shown["sources"]["http.port"] == "running daemon"
    assert shell("config", "reload")[0] == 0
    checks = {check["name"]: check for check in json.loads(shell("doctor", "--json")[1])["checks"]}
    assert checks["daemon"]["ok"]
    assert checks["socket"]["ok"]


def test_stop_ends_the_process_and_files_can_be_verified_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    process = serve(home)
    with process:
        arguments = ["--home", str(home)]
        assert run(program, "gaiad", ["ingest", str(SAMPLES), *arguments]) == 0
        process_ended = subprocess.Popen([sys.executable, "-m", "gaiad.cli.main", "stop", *arguments], env=os.environ)
        assert process.wait(20) == 0
        assert process_ended.wait(20) == 0
    capsys.readouterr()
    assert run(program, "gaiad", ["status", *arguments]) == 5
    assert run(program, "gaiad", ["packets", "verify", "--json", *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["checked"] == report["ok"] > 0


def test_a_reload_refuses_roles_that_name_no_model(shell: Any, home: Path) -> None:
    settings = home / "config.toml"
    before = settings.read_text() if settings.is_file() else ""
    settings.write_text(f'{before}\n[roles]\nprime = "qwenn"\n')
    try:
        code, _, error = shell("config", "reload")
    finally:
        settings.write_text(before)
    assert code == 2
    assert "roles.prime = 'qwenn': no such model" in error


def test_import_tells_each_conversation_and_refuses_what_it_does_not_know(shell: Any, tmp_path: Path) -> None:
    export, unknown = tmp_path / "conversations.json", tmp_path / "unknown.json"
    export.write_text(json.dumps([chatgpt(), chatgpt(conversation_id="c-2", title="Tides")]))
    unknown.write_text(json.dumps([{"messages": [{"role": "user", "content": "Hello."}]}]))
    there = ("--tenant", "imported")
    code, out, _ = shell("import", "--dry-run", str(export), *there)
    assert (code, "Would import 2 conversations from 2024-03-04 to 2024-03-04: 2 new." in out) == (0, True)
    code, out, _ = shell("import", "--json", str(export), *there)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [code, *((line["title"], line["user_messages"], line["outcome"]) for line in lines)] == [
        0,
        ("Harbour depth", 1, "accepted"),
        ("Tides", 1, "accepted"),
    ]
    code, out, _ = shell("import", str(export), str(unknown), *there)
    assert (code, "2 known already" in out, "refused" in out) == (1, True, True)
    assert "Four metres" in shell("search", "metres pier", *there)[1]
    assert shell("import", str(tmp_path / "nowhere.zip"), *there)[0] == 2


def test_import_names_the_first_lines_it_cannot_read_and_counts_all(shell: Any, tmp_path: Path) -> None:
    message = {"role": "user", "content": "Fix the pump."}
    spoken = json.dumps({"type": "user", "sessionId": "s-1", "uuid": "1", "message": message})
    (tmp_path / "s-1.jsonl").write_text("\n".join((spoken, *["not json"] * 20)))
    code, out, _ = shell("import", "--dry-run", str(tmp_path))
    named = [line for line in out.splitlines() if "s-1.jsonl: line " in line]
    assert (code, [line.partition(": line ")[2].split()[0] for line in named]) == (0, ["2", "3", "4", "5", "6"])
    assert "Left out: lines that cannot be read (20)." in out


def test_a_file_sent_as_it_is_is_imported_and_its_copy_removed(home: Path, shell: Any, tmp_path: Path) -> None:
    body = json.dumps([chatgpt(conversation_id="c-9", title="Sent")]).encode()
    with closing(UnixConnection(home / "gaiad.sock")) as connection:
        connection.request("POST", "/import?name=conversations.json&tenant=imported", body)
        answer = connection.getresponse()
        assert answer.status == 202
        job = json.loads(answer.read())["job"]
    code, out, _ = shell("jobs", "show", "--follow", "--json", job["job_id"])
    assert (code, json.loads(out)["result"]["conversations"]) == (0, 1)
    assert list((home / "uploads").iterdir()) == []
