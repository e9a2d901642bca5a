"""A large ChatGPT export, made up, through the import of a daemon that is killed on the way:
`python -m tests.bench.imports [MEGABYTES] [CONVERSATIONS] [KILLS]`.

The words are invented; what surrounds them is as large as in real exports. At the end the archive is compared with what
was made: conversations, messages and nothing twice.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gaiad.bench.daemon_process import BenchDaemon
from gaiad.bench.made_archive import InventedWords
from gaiad.wire.ingest import ImportRequest

_PARAGRAPHS = 5000
_PARAGRAPH_WORDS = 75
_START = 1_672_531_200  # 2023
_METADATA = {
    "model_slug": "gpt-9",
    "finish_details": {"type": "stop", "stop_tokens": [200002]},
    "citations": [],
    "content_references": [],
    "message_type": "next",
    "timestamp_": "absolute",
}


def write_export(path: Path, megabytes: int, conversations: int) -> None:
    """One conversations.json of about that size, written a conversation at a time."""
    source, words = random.Random(15), InventedWords(15)
    paragraphs = [" ".join(words.draw(source, _PARAGRAPH_WORDS)) for _ in range(_PARAGRAPHS)]
    size = megabytes * 1_000_000 // conversations
    with path.open("w", encoding="utf-8") as file:
        for number in range(conversations):
            file.write("[" if number == 0 else ",\n")
            json.dump(_conversation(number, int(size * source.uniform(0.2, 1.8)), source, paragraphs), file)
        file.write("]")


def _conversation(number: int, size: int, source: random.Random, paragraphs: list[str]) -> dict[str, Any]:
    start = _START + number * 3600
    mapping: dict[str, Any] = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    above, written = "root", 0
    while written < size or len(mapping) % 2 == 0:
        name = f"{number:08x}-{len(mapping):04x}-4000-8000-000000000000"
        role = "assistant" if len(mapping) % 2 == 0 else "user"
        text = "\n\n".join(source.sample(paragraphs, 3)) if role == "assistant" else source.choice(paragraphs)[:200]
        node = {
            "id": name,
            "parent": above,
            "children": [],
            "message": _message(name, role, text, start + len(mapping)),
        }
        mapping[above]["children"].append(name)
        mapping[name] = node
        above, written = name, written + len(text) + 800
    return {
        "title": source.choice(paragraphs)[:40],
        "create_time": start,
        "update_time": start + len(mapping),
        "mapping": mapping,
        "moderation_results": [],
        "current_node": above,
        "conversation_id": f"{number:08x}-0000-4000-8000-000000000000",
    }


def _message(name: str, role: str, text: str, time_s: int) -> dict[str, Any]:
    return {
        "id": name,
        "author": {"role": role, "name": None, "metadata": {}},
        "create_time": time_s,
        "update_time": None,
        "content": {"content_type": "text", "parts": [text]},
        "status": "finished_successfully",
        "end_turn": True,
        "weight": 1.0,
        "metadata": _METADATA if role == "assistant" else {"request_id": name, "message_source": None},
        "recipient": "all",
        "channel": None,
    }


def resident_mib(root: int) -> list[int]:
    """Memory of a process and of those it started, the largest last, in MiB."""
    children = Path(f"/proc/{root}/task/{root}/children").read_text(encoding="ascii").split()
    sizes = []
    for process in (root, *map(int, children)):
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        kib = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")), "0")
        sizes.append(int(kib) // 1024)
    return sizes


def run_import(home: Path, export: Path, kills: int) -> None:
    """Import, killing the daemon `kills` times on the way, and print what became of it."""
    daemon, peak = BenchDaemon(home, ()), [0, 0]
    try:
        started = time.perf_counter()
        job = daemon.client.import_paths(ImportRequest(paths=[str(export)]))
        marks = [(number + 1) / (kills + 1) for number in range(kills)]
        while job.state in ("queued", "running"):
            time.sleep(0.5)
            own, *others = resident_mib(daemon.process_id)
            peak = [max(peak[0], own), max(peak[1], *others, 0)]
            if marks and job.total and job.done / job.total >= marks[0]:
                del marks[0]
                os.kill(daemon.process_id, signal.SIGKILL)
                daemon.stop()
                daemon = BenchDaemon(home, ())
            job = daemon.client.job(job.job_id)
        took = round(time.perf_counter() - started)
        print(json.dumps({"seconds": took, "daemon MiB": peak[0], "largest child MiB": peak[1], "kills": kills}))
        print(json.dumps({"state": job.state, "outcomes": job.result["outcomes"]}))
        again = daemon.client.import_paths(ImportRequest(paths=[str(export)], dry_run=True))
        while again.state in ("queued", "running"):
            time.sleep(0.5)
            again = daemon.client.job(again.job_id)
        print(json.dumps({"a second time": again.result["outcomes"], "packets": daemon.status()["packets"]}))
    finally:
        daemon.stop()


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    megabytes, conversations, kills = (*given, *(2000, 20_000, 5)[len(given) :])
    with tempfile.TemporaryDirectory(prefix="gaiad-imports-") as scratch:
        export = Path(scratch) / "conversations.json"
        write_export(export, megabytes, conversations)
        print(json.dumps({"export bytes": export.stat().st_size, "conversations": conversations}))
        run_import(Path(scratch) / "home", export, kills)
