"""A turn that kill -9 cut off is taken again under its key: what a model had said is not asked for again."""

import json
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from gaiad.base.errors import GaiadError
from gaiad.store.home_databases import read_database
from gaiad.wire.chat import ChatRequest
from tests.gaiad.test_kill import start
from tests.makers.scripted_home import scripted_home

REQUEST = ChatRequest(message="Plan the survey of the reef, step by step.", session_id="s", depth="full",
                      idempotency_key="once")  # fmt: skip
FIRST_LIFE = """
[[reply]]
text = "1. Measure the zqcoral of the reef.\\n2. Write the survey of the reef down."
times = 1
[[reply]]
text = "RESPONSE: it never comes to this."
delay_ms = 600000.0
"""
SECOND_LIFE = """
[[reply]]
text = "RESPONSE: the survey is planned."
"""


def replies_kept(home: Path) -> int:
    with read_database(home / "tenants/local/tenant.db") as connection:
        query = "SELECT count(*) FROM journal WHERE name LIKE 'model%' AND result IS NOT NULL"
        return int(connection.execute(query).fetchone()[0])


def test_a_turn_goes_on_with_what_its_models_had_said(tmp_path: Path) -> None:
    home = scripted_home(tmp_path, FIRST_LIFE)
    process, client = start(home)

    def say() -> None:
        with suppress(GaiadError, OSError):
            list(client.chat_events(REQUEST))

    saying = threading.Thread(target=say)
    saying.start()
    deadline = time.monotonic() + 120
    while not (home / "tenants/local/tenant.db").exists() or not replies_kept(home):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    saying.join()
    (tmp_path / "script.toml").write_text(SECOND_LIFE)
    process, client = start(home)
    try:
        events = list(client.chat_events(REQUEST))
        assert events[-1].event == "done"
        assert "zqcoral" in json.dumps([event.data for event in events], default=str)
        assert replies_kept(home) == 0
        again = list(client.chat_events(REQUEST))[-1].data
        assert again["turn_id"] == events[-1].data["turn_id"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
