"""Context Memory over a real daemon: stored by HTTP, read by the command line, kept through kill -9 and a restore."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import BadInput, Forbidden, NotFound
from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.cli.main import program, run
from gaiad.context.bodies import ROW_BYTES
from gaiad.wire.ingest import IngestDocument, IngestRequest
from tests.gaiad.test_kill import finish, start
from tests.makers.context import output_body, review_body, state_body

Shell = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    home = tmp_path_factory.mktemp("context") / "h"
    home.mkdir(mode=0o700)
    with running_daemon("embedder.kind=none", home=home) as living:
        yield living


@pytest.fixture
def shell(daemon: BenchDaemon, capsys: pytest.CaptureFixture[str]) -> Shell:
    def call(*arguments: str) -> tuple[int, str]:
        code = run(program, "gaiad", ["context", *arguments, "--home", str(daemon.home)])
        return code, capsys.readouterr().out

    return call


def test_a_person_stores_and_reads_by_the_command_line(daemon: BenchDaemon, shell: Shell, tmp_path: Path) -> None:
    tenant = ("--tenant", "hand")
    for name, body in (
        ("state", state_body()),
        ("output", output_body(own={"step": 1}, primary={"hypothesis": {"id": "h1"}})),
        ("review", review_body()),
        ("again", state_body("2025-12-01T12:00:00Z", "mud")),
    ):
        (tmp_path / name).write_text(json.dumps(body))
        code, out = shell("put", str(tmp_path / name), *tenant)
        assert (code, out.startswith("stored as ")) == (0, True)
    code, out = shell("put", str(tmp_path / "state"), *tenant)
    assert out.startswith("stored before as ")
    assert json.loads(shell("state", "--type", "full", *tenant)[1])["content"]["agent_states"] == {
        "generation": {"step": 1}
    }
    assert "ice cores" in shell("state", "--as-of", "2025-12-01T11:00:00Z", *tenant)[1]
    assert "task-1" in shell("outputs", "--agent", "generation", *tenant)[1]
    record = json.loads(shell("reviews", "--json", *tenant)[1])["reviews"][0]["id"]
    assert json.loads(shell("show", record, *tenant)[1]) == review_body()
    assert "for generation: name the source" in shell("feedback", *tenant)[1]
    number, *line = shell("feedback", *tenant)[1].splitlines()[-1].split()
    assert " ".join(line) == "generation v1 active not measured yet name the source"
    assert shell("feedback", "--strike", number, *tenant)[1] == f"advice {number} for generation is struck\n"
    assert "struck: struck by a person" in shell("feedback", *tenant)[1]
    assert "thin evidence" in shell("trends", *tenant)[1]
    assert "+0  " in shell("lineage", "h1", *tenant)[1]
    assert shell("rollback", "system", "1", *tenant)[1].startswith("system is at version 3")
    assert shell("versions", "system", *tenant)[1].splitlines()[1].split()[0] == "3"
    assert shell("versions", *tenant)[1].split() == ["agent:generation", "system"]
    (tmp_path / "bad").write_text('{"update_type": 1, "agent_type": 2}')
    assert shell("put", str(tmp_path / "bad"), *tenant)[0] == 2


def test_unknown_keys_are_refused_by_name(daemon: BenchDaemon) -> None:
    with pytest.raises(BadInput, match="secret"):
        daemon.client.post("/context/outputs", {**output_body(), "secret": 1})
    with pytest.raises(BadInput, match="drop_table"):
        daemon.client.get("/context/outputs?drop_table=1")
    with pytest.raises(BadInput, match="twice"):
        daemon.client.get("/context/outputs?limit=1&limit=2")
    with pytest.raises(NotFound):
        daemon.client.get("/context/records/out_none")


def test_answers_that_are_asked_again_come_from_the_cache(daemon: BenchDaemon) -> None:
    daemon.client.post("/context/state?tenant=cached", state_body())

    def counts() -> tuple[int, int]:
        counters = daemon.status()["counters"]
        return counters.get("context_cache_hits", 0), counters.get("context_cache_misses", 0)

    before = counts()
    for _ in range(5):
        daemon.client.get("/context/state?tenant=cached&request_type=full")
        daemon.client.get("/context/feedback?tenant=cached")
    assert (counts()[0] - before[0], counts()[1] - before[1]) == (8, 2)
    daemon.client.post("/context/state?tenant=cached", state_body("2025-12-02T10:00:00Z", "sand"))
    fresh = daemon.client.get("/context/state?tenant=cached&request_type=full")
    assert fresh["content"]["system_state"]["orchestration_state"]["strategic_focus"] == "sand"


def test_a_backup_holds_states_and_large_bodies(daemon: BenchDaemon, tmp_path: Path) -> None:
    made = daemon.client.post("/context/outputs", output_body("large", primary="x" * ROW_BYTES))
    assert made["place"] == "file"
    daemon.client.post("/backup", {"directory": str(tmp_path / "backup")})
    later = daemon.client.post("/context/outputs", output_body("later"))
    daemon.client.get("/context/feedback")
    daemon.client.post("/restore", {"directory": str(tmp_path / "backup")})
    record = daemon.client.get(f"/context/records/{made['id']}")
    assert record["record"] == output_body("large", primary="x" * ROW_BYTES)
    with pytest.raises(NotFound):
        daemon.client.get(f"/context/records/{later['id']}")


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    home = tmp_path / "h"
    process, client = start(home)
    promised: list[dict[str, Any]] = []
    for number in range(40):
        primary = "y" * (ROW_BYTES if number % 4 == 0 else 10)
        promised.append(client.post("/context/outputs", output_body(f"t{number}", primary=primary, own={"n": number})))
    client.post("/context/reviews", review_body())
    process.send_signal(signal.SIGKILL)
    process.wait()
    client.close()
    process, client = start(home)
    try:
        for number, one in enumerate(promised):
            found = client.get(f"/context/records/{one['id']}")
            assert (found["row"]["sha256"], found["record"]["task_id"]) == (one["sha256"], f"t{number}")
        state = client.get("/context/state?request_type=partial")
        assert (state["content"]["agent_states"], state["complete"]) == ({"generation": {"n": 39}}, True)
        assert client.post("/context/outputs", output_body("next"))["iteration"] == 2
    finally:
        client.close()
        process.terminate()
        process.wait(60)


def test_a_failure_in_the_middle_of_an_iteration_repeats_only_what_was_in_flight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seed's first scenario."""
    home = tmp_path / "h"
    process, client = start(home)
    tasks = [{"task_id": f"rank-{number}"} for number in range(6)]
    client.post("/context/outputs", output_body("generate-1", own={"step": 3}))
    update = state_body(update_type="critical", checkpoint_data={"in_flight_tasks": tasks, "recovery_metadata": {}})
    made = client.post("/context/state", update)["checkpoint_id"]
    for task in tasks[:4]:
        client.post("/context/outputs", output_body(task["task_id"], "ranking"))
    token = client.post(
        "/context/continuations", {"agent_type": "ranking", "task_id": "rank-4", "partial_state": {"pair": 7}}
    )["continuation_token"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    client.close()
    process, client = start(home)
    try:
        recovery = client.get("/context/recovery")
        assert recovery["checkpoint_id"] == made
        assert [task["task_id"] for task in recovery["active_tasks"]] == ["rank-4", "rank-5"]
        assert recovery["resume_points"]["agent:generation"] == {"step": 3}
        wanted = {"task_id": "rank-4", "continuation_token": token}
        assert client.post("/context/continuations/resume", wanted)["partial_state"] == {"pair": 7}
        with pytest.raises(Forbidden):
            client.post("/context/continuations/resume?tenant=other", wanted)
        for arguments, words in (
            (["checkpoints", "--make"], made),
            (["recovery"], "rank-5"),
            (["restore"], "restored"),
        ):
            assert run(program, "gaiad", ["context", *arguments, "--home", str(home)]) == 0
            assert words in capsys.readouterr().out
    finally:
        client.close()
        process.terminate()
        process.wait(60)


def test_feedback_of_one_iteration_reaches_the_next(daemon: BenchDaemon) -> None:
    """The seed's second scenario."""
    query = "?tenant=loop"
    daemon.client.post(f"/context/reviews{query}", review_body(3, advice={"generation": "vary the sites"}))
    found = daemon.client.get("/context/feedback?tenant=loop&iteration=latest&agent_type=generation")
    assert found["feedback_content"]["agent_specific"] == {"generation": ["vary the sites"]}
    assert daemon.client.post(f"/context/outputs{query}", output_body())["iteration"] == 4


def test_ten_iterations_of_an_agent_show_its_best_strategy(daemon: BenchDaemon) -> None:
    """The seed's third scenario."""
    for iteration in range(1, 11):
        for strategy, confidence in (("combine", 0.4 + iteration * 0.05), ("simplify", 0.5)):
            body = output_body(
                f"{strategy}-{iteration}", "evolution", metadata={"strategy": strategy}, confidence=confidence
            )
            daemon.client.post("/context/outputs?tenant=ten", body)
        daemon.client.post("/context/reviews?tenant=ten", review_body(iteration))
    found = daemon.client.get("/context/trends?tenant=ten&iterations=10&agent_type=evolution")
    best = found["effectiveness"][0]
    assert (best["strategy"], best["outputs"], best["improvement"]) == ("combine", 10, 0.05)
    assert found["effectiveness"][1]["improvement"] == 0


def test_export_import_quota_and_cleanup_by_the_command_line(daemon: BenchDaemon, shell: Shell, tmp_path: Path) -> None:
    old = ("--tenant", "old")
    daemon.client.post("/context/outputs?tenant=old", output_body(at="2020-01-01T00:00:00Z"))
    daemon.client.post("/context/reviews?tenant=old", review_body(at="2020-01-02T00:00:00Z"))
    assert "1 output, 1 review" in shell("export", str(tmp_path / "tree"), *old)[1]
    assert shell("export", str(tmp_path / "tree"), *old)[0] != 0
    assert "1 output, 1 review" in shell("import", str(tmp_path / "tree"), "--tenant", "new")[1]
    assert "known before" in shell("import", str(tmp_path / "tree"), "--tenant", "new")[1]
    assert "of 10.0 GiB (0 %)" in shell("quota", *old)[1]
    assert shell("cleanup", "--dry-run", *old)[1].startswith("1 old iteration; would pack 2 records")
    job_id = json.loads(shell("cleanup", "--json", *old)[1])["job_id"]
    assert finish(daemon.client, job_id)["result"]["bodies"] == 2
    assert job_id in {job.job_id for job in daemon.client.jobs()}
    assert "task-1" in shell("outputs", *old)[1]
    with pytest.raises(BadInput, match="absolute"):
        daemon.client.post("/context/export", {"directory": "here"})


def test_forgetting_a_packet_reaches_what_quotes_it(daemon: BenchDaemon, make_packet: Callable[..., bytes]) -> None:
    document = IngestDocument(name="1.xml", content=make_packet("TP-GONE", "The reef is bleaching.", "Reef").decode())
    daemon.client.ingest(IngestRequest(documents=[document], tenant="reef", wait=True))
    daemon.client.post("/context/outputs?tenant=reef", output_body("keeps"))
    daemon.client.post("/context/outputs?tenant=reef", output_body("quotes", primary="See [Packet: TP-GONE]."))
    assert len(daemon.client.get("/context/outputs?tenant=reef")["outputs"]) == 2
    daemon.client.get("/context/state?tenant=reef")
    request = {"packet_ids": ["TP-GONE"], "dry_run": True, "tenant": "reef"}
    assert daemon.client.post("/forget", request)["log_entries"] == 2  # the ingest's log line, too
    daemon.client.post("/forget", {**request, "dry_run": False})
    assert [row["task_id"] for row in daemon.client.get("/context/outputs?tenant=reef")["outputs"]] == ["keeps"]
    summary = daemon.client.get("/context/state?tenant=reef")["content"]["agent_states"]
    assert summary["generation"][0]["outputs"] == 1
