"""A command that begins to wait is shown once, as text; where nobody shows notices the daemon goes on."""

import asyncio
import html
import json
import sys
from pathlib import Path

import msgspec
import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.events import EventHub
from gaiad.base.ids import short
from gaiad.service.desktop_notice import notice_of, show_waiting
from gaiad.wire.governance import EVENT_KIND, Approval
from tests.makers.waiting import wait_until

WAITING = Approval(
    id="apr_1",
    command=["rm", "-r", "<b>old</b> & gone", "\u202e" + "x" * 500],
    sha256="0" * 64,
    proposed_by="prime",
    votes=[],
    risk_level="high",
    expires_at="2026-11-25T00:00:00Z",
    turn_id="turn_1",
)


def test_what_a_model_wrote_is_text_and_is_cut() -> None:
    summary, body = notice_of(WAITING)
    line, approve = body.split("\n")
    assert summary == "A command waits for your approval"
    assert "<b>" not in line
    assert "<b>old</b> & gone" in html.unescape(line)
    assert line.isprintable()
    assert len(html.unescape(line)) <= 201
    assert approve == f"gaiad approve {short('apr_1')}"


async def test_only_what_begins_to_wait_is_shown_and_what_fails_costs_nothing(
    tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown"
    busctl = tmp_path / "busctl"
    busctl.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(shown)!r}, 'a').write(json.dumps(sys.argv) + '\\n')\n"
        "sys.exit('nobody is there')\n"
    )
    busctl.chmod(0o755)
    hub = EventHub(clock)
    following = asyncio.ensure_future(show_waiting(hub))
    await asyncio.sleep(0)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    hub.publish(EVENT_KIND, "local", **msgspec.to_builtins(WAITING))
    await asyncio.sleep(0.2)
    monkeypatch.setenv("PATH", str(tmp_path))
    for state in ("denied", "waiting", "waiting"):
        hub.publish(EVENT_KIND, "local", **msgspec.to_builtins(msgspec.structs.replace(WAITING, state=state)))
    await asyncio.to_thread(wait_until, lambda: shown.exists() and len(shown.read_text().splitlines()) == 2)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    calls = [json.loads(line) for line in shown.read_text().splitlines()]
    assert calls[0][1:5] == ["--user", "--", "call", "org.freedesktop.Notifications"]
    assert calls[0][-5:] == [*notice_of(WAITING), "0", "0", "-1"]
    assert len(calls) == 2
