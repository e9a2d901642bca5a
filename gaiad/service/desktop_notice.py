"""A desktop notice when a command waits for approval, over the session's D-Bus by systemd's busctl."""

import asyncio
import html
from typing import Any

import msgspec

from gaiad.base.events import EventHub
from gaiad.base.ids import short
from gaiad.base.logs import get_logger
from gaiad.turn.turn import command_line
from gaiad.wire.governance import EVENT_KIND, Approval

_NOTIFY = "org.freedesktop.Notifications"
_CALL = (
    "busctl",
    "--user",
    "--",
    "call",
    _NOTIFY,
    "/org/freedesktop/Notifications",
    _NOTIFY,
    "Notify",
    "susssasa{sv}i",
)
_SHOWN = 200  # characters of the command
_PATIENCE_S = 5.0
_log = get_logger("gaiad.approvals")


async def show_waiting(hub: EventHub) -> None:
    """Show each command that begins to wait, until this is cancelled; a notice that fails is only logged."""
    async for event in hub.follow():
        if event.kind == EVENT_KIND and event.data.get("state") == "waiting":
            await _show(notice_of(msgspec.convert(event.data, Approval)))


def notice_of(approval: Approval) -> tuple[str, str]:
    """Summary and body. The body may hold markup, so what a model wrote is escaped."""
    line = command_line(approval)
    line = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
    return "A command waits for your approval", f"{html.escape(line)}\ngaiad approve {short(approval.id)}"


async def _show(notice: tuple[str, str]) -> None:
    arguments: tuple[Any, ...] = ("gaiad", "0", "", *notice, "0", "0", "-1")
    try:
        process = await asyncio.create_subprocess_exec(
            *_CALL, *arguments, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, said = await asyncio.wait_for(process.communicate(), _PATIENCE_S)
        except TimeoutError:
            said = b"no answer"
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        if process.returncode:
            _log.warning("notice_not_shown", reason=said.decode("utf-8", "replace").strip()[:_SHOWN])
    except OSError as error:
        _log.warning("notice_not_shown", reason=str(error))
