"""Records that name what their reader may not see: rows are left out of lists, a record that does is withheld."""

from typing import Any

import pytest

from gaiad.base.errors import NotFound
from gaiad.intake.exchange import Withheld, names_in, without
from gaiad.intake.routes import table

OF_THE_ARCHIVE = (
    "/chat", "/search", "/sessions/list", "/sessions/pages", "/sessions/rename", "/sessions/show",
    "/packets/export", "/packets/list", "/packets/show", "/packets/timeline", "/packets/verify", "/forget",
    "/memory/build_context", "/memory/ingest_session", "/feedback/given",
    "/v1/chat/completions", "/v1/responses", "/mcp", "/mcp/call",
)  # fmt: skip
OF_NO_PACKET = (
    "/backup", "/config", "/config/reload", "/doctor", "/forget/undo", "/generate", "/healthz", "/import", "/ingest",
    "/metrics", "/personas", "/jobs", "/jobs/{job_id}", "/jobs/{job_id}/cancel", "/quarantine", "/quarantine/drop",
    "/quarantine/retry", "/quarantine/show", "/reindex",
    "/models", "/models/catalogue", "/models/load", "/models/pin", "/models/probe", "/models/unload", "/models/use",
    "/restore", "/stability", "/status", "/stop", "/sweep",
    "/rfc/list", "/rfc/merge", "/rfc/propose", "/rfc/review", "/rfc/show", "/rfc/vote",
    "/v1/embeddings", "/v1/models", "/v1/models/{model}",
)  # fmt: skip
LONG = f"{'It was said before. ' * 20}[Packet: tp-shut] says where."


def test_every_route_is_beside_the_archive_but_for_these() -> None:
    assert {one.path for one in table() if not one.beside} == {*OF_THE_ARCHIVE, *OF_NO_PACKET}


def test_ids_are_found_wherever_they_stand() -> None:
    record = {"a": ["tp-1", {"b": {"page_id": "0-1"}}], "c": LONG, "d": 3, "e": None}
    assert set(names_in(record)) == {"tp-1", "0-1", "tp-shut"}
    assert set(names_in("see [Packet: tp one]")) == {"see [Packet: tp one]", "tp one"}


def test_rows_that_name_it_are_left_out_and_the_others_stay() -> None:
    record = {"turns": [{"turn_id": "t-1"}, {"turn_id": "t-2", "stages": [{"text": LONG}]}], "limit": 2}
    assert without(record, {"tp-shut"}) == {"turns": [{"turn_id": "t-1"}], "limit": 2}
    assert without(record, {"t-1", "tp-shut"}) == {"turns": [], "limit": 2}
    assert without(record, set()) == record


@pytest.mark.parametrize(
    "record",
    [{"run": {"result": {"source_packets": ["tp-1", "tp-shut"]}}}, {"answer": LONG}, LONG, ["tp-shut"]],
)
def test_a_record_that_names_it_is_withheld_as_if_it_were_not_there(record: Any) -> None:
    with pytest.raises(Withheld) as refused:
        without(record, {"tp-shut"})
    assert isinstance(refused.value, NotFound)
    assert "tp-shut" not in refused.value.message
