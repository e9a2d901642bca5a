"""Any mixture of documents obeys the outcome rules: what was accepted is there, once, and index and pages agree."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gaiad.archive.finding import packets
from gaiad.archive.keeping.reindex import reindex
from gaiad.archive.storing import records
from gaiad.archive.storing.ingest import Ingest
from gaiad.archive.storing.records import WriteResult
from gaiad.base.clock import FrozenClock
from gaiad.base.config import load_config
from gaiad.base.metrics import Metrics
from gaiad.base.ports import RequestContext
from tests.makers.archives import open_tenant

CONFIG = load_config(environment={})
CLOCK = FrozenClock(datetime(2025, 12, 1, tzinfo=UTC))
DOCUMENTS = st.tuples(st.sampled_from(["A", "B", "C", ""]), st.sampled_from(["one", "two", "three"]))


def document(packet_id: str, word: str) -> bytes:
    if not packet_id:
        return f"<torn>{word}".encode()
    body = f"<body><content>Word {word}.</content></body>"
    return f"<transmission_packet><header><id>{packet_id}</id></header>{body}</transmission_packet>".encode()


class Outcomes(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.tenant = open_tenant(Path(self.folder.name))
        self.change = WriteResult()
        self.ingest = Ingest(self.tenant, CONFIG, CLOCK, Metrics(), self.change.add)
        self.kept: dict[str, dict[int, bytes]] = {}  # id -> revision -> bytes, the current one last
        self.torn: set[bytes] = set()

    def expected(self, packet_id: str, data: bytes) -> str:
        if not packet_id:
            self.torn.add(data)
            return "quarantined"
        revisions = self.kept.setdefault(packet_id, {})
        newest = max(revisions, default=0)
        if newest and revisions[newest] == data:
            return "duplicate"
        again = next((number for number, known in revisions.items() if known == data), 0)
        revisions.pop(again, None)
        revisions[newest + 1] = data
        return "revised" if newest else "accepted"

    @rule(batch=st.lists(DOCUMENTS, max_size=6))
    def bring(self, batch: list[tuple[str, str]]) -> None:
        documents = [(f"{packet_id}-{word}.xml", document(packet_id, word)) for packet_id, word in batch]
        outcomes = self.ingest.documents(documents, RequestContext())
        wanted = [self.expected(packet_id, data) for (packet_id, _), (_, data) in zip(batch, documents, strict=True)]
        assert [outcome.outcome for outcome in outcomes] == wanted

    @rule()
    def rebuild(self) -> None:
        report = reindex(self.tenant.file, CONFIG, UTC, self.change.add, lambda: None, lambda done, total: None)
        assert report["problems"] == []
        assert report["pages_changed"] == 0
        assert report["text_index"] == "in order"

    @rule()
    def restart(self) -> None:
        self.tenant.file.close()
        self.tenant = open_tenant(Path(self.folder.name))
        self.ingest = Ingest(self.tenant, CONFIG, CLOCK, Metrics(), self.change.add)

    @invariant()
    def everything_is_there_once(self) -> None:
        def look(connection: Any) -> None:
            for packet_id, revisions in self.kept.items():
                stored = {number: packets.original(connection, packet_id, number)[0] for number in revisions}
                assert stored == revisions
                assert packets.original(connection, packet_id)[0] == revisions[max(revisions)]
            (rows,) = connection.execute("SELECT count(*) FROM packets").fetchone()
            assert rows == sum(len(revisions) for revisions in self.kept.values())
            (pages,) = connection.execute("SELECT count(*) FROM pages WHERE active = 1").fetchone()
            assert (self.change.packets, self.change.pages) == (len(self.kept), pages)
            assert self.change.quarantined == len(self.torn)

        self.tenant.file.read(look)
        assert self.tenant.file.write(records.check_text_contents) == ""

    def teardown(self) -> None:
        self.tenant.file.close()
        self.folder.cleanup()


TestOutcomes = Outcomes.TestCase
TestOutcomes.settings = settings(max_examples=12, stateful_step_count=10)
