"""Children of the daemon that stop answering: asked things go on without them, and say so."""

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.makers.attacked import Attacked, Row, only_in_campaign, tries


@only_in_campaign
def test_searches_while_the_embedder_hangs(tmp_path: Path, row: Row) -> None:
    with Attacked(tmp_path, "embedder.kind=minilm") as daemon:
        daemon.ingest("a.json", '{"packet_id": "TP-A", "content": "The lamp is lit at six."}')
        deadline = time.monotonic() + 120
        while daemon.post("/search", query="ready")["degraded"] and time.monotonic() < deadline:
            time.sleep(0.1)
        for number in range(tries(3, 50)):  # one that hangs is replaced meanwhile, and its successor stopped too
            (embedder,) = [model for model in daemon.client.get("/status")["models"] if model["role"] == "embedder"]
            with contextlib.suppress(ProcessLookupError):
                if embedder["pid"]:
                    os.kill(embedder["pid"], signal.SIGSTOP)
            started = time.monotonic()
            found = daemon.post("/search", query=f"lamp {number}")
            took_s = time.monotonic() - started
            replaced = not Path(f"/proc/{embedder['pid']}").exists()
            held = bool(found["hits"]) and took_s < 3 and (replaced or bool(found["degraded"]))
            row.check(held, f"{took_s:.1f} s, {found['degraded']}")
