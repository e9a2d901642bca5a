"""Kill -9 amid ingest, vectors, chat, backup and reindex, again and again on one home: nothing is lost or doubled."""

import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gaiad.base.errors import GaiadError
from gaiad.bench.made_archive import write_packets
from gaiad.client.client import Client
from gaiad.ledger.audit import verify_home
from gaiad.store.backup import read_manifest
from gaiad.store.home_databases import read_database
from gaiad.wire.chat import ChatRequest
from tests.makers.killed import finish, start, until

ROUNDS, FILES = 20, 12
TURNS = 1000  # that one request lists; a fast machine would take more


SETTINGS = ("intake.batch_files=8", "council.depth=fast")


class Promises:
    """What daemons that were killed later had said was done."""

    def __init__(self, tmp_path: Path) -> None:
        self.home, self.folder, self.backups = tmp_path / "h", tmp_path / "packets", tmp_path / "backups"
        self.turns: set[str] = set()
        self.packets: set[str] = set()
        self.jobs: set[str] = set()
        self.said = self.files = 0

    def chat(self, client: Client) -> None:
        for _ in range(TURNS // ROUNDS):
            self.said += 1
            request = ChatRequest(message=f"Message number {self.said}.", session_id="s", depth="fast")
            *_, last = client.chat_events(request)
            if last.event == "done":
                self.turns.add(str(last.data["turn_id"]))

    def ingest(self, client: Client, number: int) -> None:
        folder = self.folder / str(number)
        job_id = client.post("/ingest", {"paths": [str(folder)], "wait": False})["job"]["job_id"]
        self.jobs.add(job_id)
        self.files += FILES
        while True:
            outcomes = client.get(f"/jobs/{job_id}/outcomes?after=0")["outcomes"]
            self.packets |= {one["packet_id"] for one in outcomes if one["outcome"] == "accepted"}

    def reindex(self, client: Client) -> None:
        self.jobs.add(client.post("/reindex", {})["job_id"])

    def backup(self, client: Client, number: int) -> None:
        client.backup(self.backups / str(number))

    def check(self, client: Client) -> None:
        """Right after a start: all that was promised is there once."""
        remembered = [str(turn.turn_id) for turn in client.session_turns("s", "local", limit=TURNS)]
        assert len(remembered) == len(set(remembered))
        assert self.turns <= set(remembered)
        assert self.turns <= {turn.turn_id for turn in client.council.turns("local", TURNS)}
        stored = [packet["packet_id"] for packet in client.post("/packets/list", {"limit": 1000})["packets"]]
        assert len(stored) == len(set(stored))
        for backup in self.backups.iterdir():
            if not backup.name.startswith("."):
                read_manifest(backup)


def _until_more(promises: Promises, turns: int, packets: int) -> None:
    """Until another turn was answered and another packet stored; each round has new ones."""
    while len(promises.turns) <= turns or len(promises.packets) <= packets:
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nothing_is_lost_or_doubled_by_kills_amid_everything(tmp_path: Path) -> None:
    promises, moments = Promises(tmp_path), random.Random(13)
    promises.backups.mkdir()
    for number in range(ROUNDS):
        process, client = start(promises.home, *SETTINGS)
        promises.check(client)
        write_packets(promises.folder / str(number), number * FILES, FILES, turns=2, words_per_turn=12)
        works: tuple[Callable[[Client], None], ...] = (
            partial(promises.ingest, number=number),
            promises.chat,
            promises.reindex,
            partial(promises.backup, number=number),
        )
        threads = [threading.Thread(target=_until_killed, args=(promises.home, work)) for work in works]
        for thread in threads:
            thread.start()
        if number % 4 == 3:  # a loaded machine may take longer than any moment
            _until_more(promises, len(promises.turns), len(promises.packets))
        time.sleep(moments.uniform(0.1, 4.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        client.close()
        for thread in threads:
            thread.join()
    process, client = start(promises.home, *SETTINGS)
    try:
        promises.check(client)
        assert {finish(client, job_id)["state"] for job_id in promises.jobs} == {"done"}
        left = client.get("/status")["queue"]
        while left:  # embedding goes on, whatever time the machine takes for it
            left = until(lambda: client.get("/status"), partial(_fewer_than, left))["queue"]
        settled = client.get("/status")
        assert settled["vectors"] == settled["pages"]
        report = client.post("/packets/verify", {"packet_ids": []})
        assert (report["ok"], report["problems"]) == (report["checked"], [])
        assert finish(client, client.post("/sweep", {})["job_id"])["result"]["problems"] == []
        promises.check(client)
    finally:
        client.close()
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert verify_home(promises.home).ok, verify_home(promises.home).problem
    with read_database(promises.home / "tenants" / "local" / "tenant.db") as connection:
        stored = [row[0] for row in connection.execute("SELECT packet_id FROM packets WHERE source <> 'session_turn'")]
    assert len(stored) == len(set(stored)) >= promises.files
    assert promises.packets <= set(stored)
    assert promises.turns, "turns must be answered between the kills, or this test shows little"
    assert promises.packets


def _fewer_than(left: int, status: dict[str, Any]) -> bool:
    return bool(status["queue"] < left)


def _until_killed(home: Path, work: Callable[[Client], None]) -> None:
    with suppress(GaiadError, OSError), Client(home) as client:
        work(client)
