"""Kills at any moment of what writes, and a disk that takes no more: what was promised is there afterwards."""

import contextlib
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gaiad.base.errors import GaiadError
from gaiad.client.client import Client
from tests.makers.attacked import Attacked, Row, only_in_campaign, tries
from tests.makers.page import ask


def _work(daemon: Attacked, number: int, promised: set[str], turns: set[str]) -> None:
    """Ingest, chat, back up and reindex until the daemon is gone."""
    with contextlib.suppress(GaiadError), Client(daemon.home) as client:
        for count in range(1000):
            name = f"TP-{number}-{count}"
            body = f'{{"packet_id": "{name}", "content": "Lamp {name} is lit."}}'
            made = client.post("/ingest", {"documents": [{"name": f"{name}.json", "content": body}], "wait": True})
            if made["outcomes"] and made["outcomes"][0]["outcome"] == "accepted":
                promised.add(name)
            if count % 3 == 1:
                turns.add(client.post("/chat", {"message": f"Is lamp {name} lit?", "session_id": "s"})["turn_id"])
            if count % 7 == 5:
                client.post("/reindex", {})
            if count % 7 == 6:
                client.post("/backup", {"directory": str(daemon.home.parent / f"backup-{number}-{count}")})


def test_kills_at_any_moment_of_all_that_is_written(row: Row, tmp_path: Path) -> None:
    choice, daemon = random.Random(3), Attacked(tmp_path)
    promised: set[str] = set()
    turns: set[str] = set()
    with daemon:
        for number in range(tries(3, 1000)):
            worker = threading.Thread(target=_work, args=(daemon, number, promised, turns))
            worker.start()
            time.sleep(choice.uniform(0.0, 1.0))
            daemon.kill()
            worker.join()
            daemon.start()
            lost = promised - _ids(daemon) if number % 10 == 0 else set()
            row.check(not lost, f"after kill {number}: {lost}")
        row.check(promised <= _ids(daemon), promised - _ids(daemon))
        row.check(turns <= _ids(daemon), turns - _ids(daemon))
        report = daemon.post("/packets/verify", packet_ids=[])
        row.check(report["problems"] == [], report["problems"])
        daemon.post("/backup", directory=str(tmp_path / "last"))
        row.check(not list(tmp_path.glob(".*.partial-*")), "leftovers of killed backups")


def test_files_sent_in_by_who_was_cut_off(row: Row, tmp_path: Path) -> None:
    """Half a file lies in the home when the daemon is killed; the next start removes it."""
    with Attacked(tmp_path) as daemon:
        for _ in range(tries(1, 5)):
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(str(daemon.home / "gaiad.sock"))
                one.sendall(
                    b"POST /import?name=a.json HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(500_000)
                )
                while not any((daemon.home / "uploads").glob("*/upload*")):
                    time.sleep(0.01)
                daemon.kill()
            row.check(any((daemon.home / "uploads").iterdir()), "nothing was there to remove")
            daemon.start()
            row.check(not any((daemon.home / "uploads").iterdir()), "half a file is left")


@only_in_campaign
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_full(row: Row, tmp_path: Path) -> None:
    """What is asked of a home on a full disk has a clear answer; with room again all goes on, and nothing is lost."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", str(disk)], check=True)
    try:
        _fill_up(Attacked(disk), row, tmp_path)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill_up(daemon: Attacked, row: Row, elsewhere: Path) -> None:
    daemon.log, filler, promised = elsewhere / "log", daemon.home.parent / "filler", {"TP-0"}
    with daemon:
        for life in range(tries(1, 10)):
            daemon.ingest("0.json", '{"packet_id": "TP-0", "content": "The lamp is lit at six."}')
            session = f"s{life}"
            daemon.post("/chat", message="When is the lamp lit?", session_id=session)
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(bytes(4096))
            for name, ask_it in _asked(daemon, session).items():
                try:
                    ask_it()
                    row.check(True, name)
                except GaiadError as error:
                    row.check("unexpected" not in str(error) and name not in ("search", "status"), f"{name}: {error}")
            if life % 2:
                daemon.kill()
                daemon.start(ready=False)
                with contextlib.suppress(AssertionError):
                    daemon.await_ready()
            filler.unlink()
            if daemon.process.poll() is not None:
                row.check("Traceback" not in daemon.log.read_text(errors="replace"), daemon.log.read_text()[-1500:])
                daemon.start()
            row.check(promised <= _ids(daemon), promised - _ids(daemon))
            name = f"TP-after-{life}"
            outcome = daemon.ingest(f"{name}.json", f'{{"packet_id": "{name}", "content": "on"}}')["outcome"]
            row.check(outcome == "accepted", f"with room again: {outcome}")
            promised.add(name)
            told = daemon.post("/chat", message="When is the lamp lit?", session_id=session)["answer"]
            row.check("six" in told, told)
    log = daemon.log.read_text(errors="replace")
    row.check("unexpected_error" not in log and "Traceback" not in log, log[-3000:])


def _asked(daemon: Attacked, session: str) -> dict[str, Callable[[], object]]:
    question = "When is the lamp lit?"
    return {
        "ingest": lambda: daemon.ingest("1.json", f'{{"packet_id": "TP-1", "content": "{"word " * 50_000}"}}'),
        "chat": lambda: daemon.post("/chat", message=question, session_id=session),
        "research": lambda: daemon.post("/research", query=question),
        "a login": lambda: ask(daemon.post("/web/link")["url"]).status,
        "backup": lambda: daemon.post("/backup", directory=str(daemon.home.parent / "backup")),
        "reindex": lambda: daemon.post("/reindex"),
        "forget": lambda: daemon.post("/forget", packet_ids=["TP-0"], dry_run=True),
        "search": lambda: daemon.post("/search", query="lamp"),
        "status": lambda: daemon.client.get("/status"),
        "doctor": lambda: daemon.client.get("/doctor"),
    }


def _ids(daemon: Attacked) -> set[str]:
    """Of all packets; turns of chats are packets too."""
    found: list[str] = []
    while page := daemon.post("/packets/list", limit=1000, offset=len(found))["packets"]:
        found += [packet["packet_id"] for packet in page]
    return set(found)


def test_a_disk_that_takes_no_more(row: Row, tmp_path: Path) -> None:
    """As a limit of one file's size, which any user can set."""
    daemon = Attacked(tmp_path, file_bytes=3 << 20)
    promised: set[str] = set()
    with daemon:
        for number in range(tries(12, 60)):
            text = " ".join(f"word{number}x{place}" for place in range(30_000))
            body = f'{{"packet_id": "TP-{number}", "content": "{text}"}}'
            try:
                outcome = daemon.ingest(f"{number}.json", body)
            except (GaiadError, IndexError) as error:
                row.check("unexpected" not in str(error), error)
                continue
            if outcome["outcome"] == "accepted":
                promised.add(f"TP-{number}")
            row.check(outcome["outcome"] in ("accepted", "failed"), outcome)
        row.check(daemon.client.get("/healthz")["ok"], "the daemon")
    daemon._limits = {}
    with daemon:
        row.check(promised <= _ids(daemon), promised - _ids(daemon))
        row.check(
            daemon.ingest("after.json", '{"packet_id": "TP-Z", "content": "on"}')["outcome"] == "accepted", "after"
        )
