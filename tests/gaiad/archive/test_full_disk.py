"""A disk that fills up: files fail with a reason that says so, and what was there stays readable."""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gaiad.archive.archive import LocalArchive
from gaiad.base.ports import RequestContext
from gaiad.wire.schemas import SearchRequest

Make = Callable[..., bytes]

CHILD = """
import asyncio, resource, signal, sys
from pathlib import Path
from gaiad.archive.archive import LocalArchive
from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from gaiad.store.home_databases import HomeDatabases

async def main():
    config, databases = load_config(environment={}), HomeDatabases(Path(sys.argv[1]))
    archive = LocalArchive(databases, config, SystemClock("UTC"), None, Metrics())
    await archive.start()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
    text = " ".join(f"word{n}" for n in range(2000))
    packets = [(f"{n}.xml", f"<a><id>TP-{n}</id><content>{n} {text}</content></a>".encode()) for n in range(60)]
    seen = {}
    for start in range(0, 60, 5):
        for outcome in await archive.ingest_documents(packets[start:start + 5], RequestContext()):
            seen.setdefault(outcome.outcome, []).append(outcome)
    print(len(seen["accepted"]), len(seen["failed"]), seen["failed"][0].reason, sep="|")
    summaries = await archive.packet_summaries([o.packet_id for o in seen["accepted"]], RequestContext())
    assert len(summaries) == len(seen["accepted"])
    assert (await archive.counts())["packets"] == len(seen["accepted"])

asyncio.run(main())
"""


async def test_a_full_database_fails_the_file_and_loses_nothing(
    archive: LocalArchive, call: RequestContext, make_packet: Make
) -> None:
    await archive.ingest_documents([("first.xml", make_packet("TP-FIRST"))], call)
    file = archive._tenants.get("local").tenant.file

    def limit(connection: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
        connection.execute(f"PRAGMA max_page_count = {pages + 4}")  # type: ignore[attr-defined]

    file.write(limit)
    large = make_packet("TP-LARGE", content=" ".join(f"w{n}" for n in range(20_000)))
    outcomes = await archive.ingest_documents([("large.xml", large), ("torn.xml", b"<torn")], call)
    assert {outcome.outcome for outcome in outcomes} == {"failed"}
    assert "the disk is full" in outcomes[0].reason
    assert "Free some space" in outcomes[0].reason
    assert (await archive.counts())["packets"] == 1
    assert (await archive.verify_packets(None, call)).problems == []
    assert (await archive.search(SearchRequest(query="lantern", mode="bm25"), call)).hits
    file.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchone())
    assert (await archive.ingest_documents([("large.xml", large)], call))[0].outcome == "accepted"


async def test_when_files_may_not_grow_ingest_fails_and_what_was_accepted_survives(
    open_archive: Callable[..., object], call: RequestContext, tmp_path: Path
) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    home = tmp_path / "limited"
    child = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", CHILD, str(home)], capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr
    accepted, failed, reason = child.stdout.strip().split("|")
    assert int(accepted) > 0
    assert int(failed) > 0
    assert "nothing was written" in reason
    archive: LocalArchive = await open_archive(home)  # type: ignore[misc]
    assert (await archive.counts())["packets"] == int(accepted)
    assert (await archive.sweep([], call))["problems"] == []
    assert (await archive.verify_packets(None, call)).problems == []
