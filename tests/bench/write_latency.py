"""How long a turn takes to be stored, and to be answered, before, amid and after a large ingest, over the socket.

The daemon has no model and no embedder: what is measured is the way to the disk, and the processor it shares.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gaiad.bench.daemon_process import BenchDaemon, running_daemon
from gaiad.bench.made_archive import write_packets
from gaiad.bench.rows import Row, percentile
from gaiad.client.client import Client

PACKETS = 10_000
_TURNS = 40  # before and after; amid it goes on for as long as the ingest does
_PAUSE_S = 0.1


def measure_writes(packets: int = PACKETS, turns: int = _TURNS) -> list[Row]:
    """Milliseconds at the median and p95: a turn handed over (stored), and a chat turn (searched, answered, kept)."""
    with tempfile.TemporaryDirectory(prefix="gaiad-bench-") as scratch:
        folder = Path(scratch) / "packets"
        write_packets(folder, 0, packets)
        with running_daemon("embedder.kind=none", "memory.gam_enabled=true") as daemon:
            rows = _rows("before", *_timed(daemon, _countdown(turns)))
            ingest = threading.Thread(target=_ingest, args=(daemon.home, folder), name="bench/ingest")
            began = time.perf_counter()
            ingest.start()
            rows += _rows("amid", *_timed(daemon, ingest.is_alive))
            ingest.join()
            took_s = time.perf_counter() - began
            rows += _rows("after", *_timed(daemon, _countdown(turns)))
    return [*rows, Row(what=f"ingest of {packets} packets beside them", value=packets / took_s, unit="packets/s")]


def _ingest(home: Path, folder: Path) -> None:
    with closing(Client(home)) as client:
        client.post("/ingest", {"paths": [str(folder)], "wait": True})


def _countdown(turns: int) -> Callable[[], bool]:
    left = iter(range(turns))
    return lambda: next(left, None) is not None


def _timed(daemon: BenchDaemon, go_on: Callable[[], bool]) -> tuple[list[float], list[float]]:
    stored, answered, number = list[float](), list[float](), 0
    while go_on():
        number += 1
        said = {"role": "user", "content": f"Lamp {number} on the old pier was lit at {time.time():.0f}."}
        body = {"tenantId": "local", "sessionId": f"pier {time.time_ns()}", "turns": [said]}
        stored.append(_ms(lambda body=body: daemon.client.post("/memory/ingest_session", body)))
        asked = {"message": f"Which lamp was lit on pier {number}?", "depth": "fast"}
        answered.append(_ms(lambda asked=asked: daemon.client.post("/chat", asked)))
        time.sleep(_PAUSE_S)
    return stored, answered


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _rows(when: str, stored: list[float], answered: list[float]) -> list[Row]:
    found = []
    for what, times in (("stored", stored), ("answered", answered)):
        found.append(
            Row(what=f"{when}: a turn is {what}, of {len(times)}", value=percentile(times, 0.5), unit="ms p50")
        )
        found.append(Row(what=f"{when}: a turn is {what}", value=percentile(times), unit="ms p95"))
    return found
