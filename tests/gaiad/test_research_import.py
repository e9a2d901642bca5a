"""Runs of another researcher are taken in by their payload, and a person settles contradictions (PAYLOAD)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import BadInput, NotFound
from gaiad.bench.daemon_process import BenchDaemon, running_daemon

EXAMPLE = Path(__file__).parents[1] / "data" / "research_payload_example.json"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchDaemon]:
    with running_daemon("embedder.kind=none", home=tmp_path_factory.mktemp("runs") / "h") as running:
        yield running


def research(daemon: BenchDaemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gaiad.cli.main", "research", *arguments, "--home", str(daemon.home)]
    return subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=60, check=False)


def changed(tmp_path: Path, **metadata: Any) -> str:
    payload = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    payload["metadata"] |= metadata
    (tmp_path / "changed.json").write_text(json.dumps(payload))
    return str(tmp_path / "changed.json")


def test_the_seeds_example_is_taken_in_and_comes_out_as_it_was(daemon: BenchDaemon) -> None:
    first, again = research(daemon, "import", str(EXAMPLE)), research(daemon, "import", str(EXAMPLE))
    assert (first.returncode, first.stderr) == (0, "")
    assert again.stdout == first.stdout
    run = first.stdout.strip()
    shown = research(daemon, "show", run, "--payload")
    assert json.loads(shown.stdout) == json.loads(EXAMPLE.read_text(encoding="utf-8"))
    listed = [row["research_id"] for row in daemon.client.get("/research?tenant=local")["runs"]]
    assert listed == [run]
    assert research(daemon, "show", run).returncode == 0


def test_contradictions_are_resolved_acknowledged_and_opened_again(daemon: BenchDaemon, tmp_path: Path) -> None:
    run = research(daemon, "import", changed(tmp_path, researchGoal="Other")).stdout.strip()
    before = daemon.client.get(f"/research/{run}?tenant=local")["payload"]
    name = before["contradictions"][0]["contradictionID"]

    def settled(*how: str) -> tuple[dict[str, Any], str]:
        done = research(daemon, "settle", run, name, *how)
        assert done.returncode == 0, done.stderr
        payload = daemon.client.get(f"/research/{run}?tenant=local")["payload"]
        (record,) = [one for one in payload["contradictions"] if one["contradictionID"] == name]
        (told,) = [one for one in payload["synthesis"]["contradictions"] if one["contradictionID"] == name]
        return record, told.get("resolution", "")

    record, told = settled("acknowledged", "Both", "were", "measured.")
    assert (record["status"], record["resolution"], told) == (
        "acknowledged",
        "Both were measured.",
        record["resolution"],
    )
    assert "resolutionIteration" not in record
    record, told = settled("resolved", "The second is newer.")
    assert (record["status"], record["resolutionIteration"]) == ("resolved", before["metadata"]["iterationCount"])
    assert told == "The second is newer."
    record, told = settled("open")
    assert (record["status"], "resolution" in record, told) == ("open", False, "")


def test_what_cannot_be_taken_in_or_settled_says_why(daemon: BenchDaemon, tmp_path: Path) -> None:
    for metadata, words in (
        ({"status": "in_progress"}, "under way"),
        ({"startedAt": "soon"}, "not a time"),
        ({"iterationCount": "three"}, "iterationCount"),
    ):
        done = research(daemon, "import", changed(tmp_path, **metadata))
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    run = research(daemon, "import", str(EXAMPLE)).stdout.strip()
    path = f"/research/{run}/contradictions"
    with pytest.raises(NotFound, match="no contradiction"):
        daemon.client.post(path, {"contradiction_id": "none", "status": "open"})
    name = daemon.client.get(f"/research/{run}?tenant=local")["payload"]["contradictions"][0]["contradictionID"]
    with pytest.raises(BadInput, match="how it was resolved"):
        daemon.client.post(path, {"contradiction_id": name, "status": "resolved"})
