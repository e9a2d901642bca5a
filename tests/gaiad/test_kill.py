"""Kill -9 in the middle of a bulk ingest: nothing accepted is lost, nothing is doubled, index and database agree."""

import random
import signal
import time
from pathlib import Path

import pytest

from gaiad.bench.made_archive import write_packets
from gaiad.client.client import Client
from tests.makers.killed import finish, start

FILES = 500
ROUNDS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packets")
    write_packets(folder, 0, FILES, turns=3, words_per_turn=12)
    return folder


def promised_before(client: Client, job_id: str) -> set[str]:
    """Ids of the packets the daemon has already called accepted."""
    outcomes = client.get(f"/jobs/{job_id}/outcomes?after=0")["outcomes"]
    return {outcome["packet_id"] for outcome in outcomes if outcome["outcome"] == "accepted"}


def check_after_restart(client: Client, job_id: str, promised: set[str]) -> None:
    """Everything promised is there, the job ends by itself, every packet is there once, and nothing disagrees."""
    stored = {packet["packet_id"] for packet in client.post("/packets/list", {"limit": 1000})["packets"]}
    assert promised <= stored
    ended = finish(client, job_id)
    assert (ended["state"], ended["done"]) == ("done", FILES)
    assert set(ended["result"]) <= {"accepted", "duplicate"}
    packets = client.post("/packets/list", {"limit": 1000})["packets"]
    assert len(packets) == len({packet["packet_id"] for packet in packets}) == FILES
    assert client.get("/status")["packets"] == FILES
    report = client.post("/packets/verify", {"packet_ids": []})
    assert (report["checked"], report["ok"], report["problems"]) == (FILES, FILES, [])
    sweep = finish(client, client.post("/sweep", {})["job_id"])
    assert sweep["result"]["problems"] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_bulk_ingest_survives_kill_minus_nine_at_any_moment(folder: Path, tmp_path: Path) -> None:
    moments = random.Random(20251130)
    cut_short = 0
    for number in range(ROUNDS):
        home = tmp_path / f"home{number}"
        process, client = start(home)
        try:
            job_id = client.post("/ingest", {"paths": [str(folder)], "wait": False})["job"]["job_id"]
            time.sleep(moments.uniform(0.0, 0.5))
            promised = promised_before(client, job_id)
        finally:
            client.close()
            process.send_signal(signal.SIGKILL)
            process.wait()
        cut_short += len(promised) < FILES
        process, client = start(home)
        try:
            check_after_restart(client, job_id, promised)
        finally:
            client.close()
            process.terminate()
            assert process.wait(timeout=60) == 0
    assert cut_short >= ROUNDS // 2, "most kills must fall into the ingest, or this test shows nothing"
