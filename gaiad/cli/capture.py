"""`gaiad capture`: run by Claude Code's hooks and Codex's notify, it hands the session that just ended to `import`.

A hook must not disturb the program that runs it, so every failure exits 1 (Claude Code takes 2 as an order to go on).
"""

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gaiad.base.errors import BadInput, Conflict, GaiadError, Unavailable
from gaiad.cli.client_settings import change_entry, codex_home, own_command
from gaiad.cli.command import LOCAL, VerbGroup, invocation, tenant_option
from gaiad.cli.output import FAILED, end

_QUIET_S = 120.0
_THREAD_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
_quiet_option = click.option(
    "--quiet-s",
    type=click.FloatRange(0, 3600),
    default=_QUIET_S,
    show_default=True,
    help="After a turn, wait in the background until the session has not changed for so long.",
)


@click.group(
    "capture",
    cls=VerbGroup,
    example="""
        gaiad capture install claude-code
        gaiad capture install codex
    """,
)
def capture() -> None:
    """Bring sessions of Claude Code and Codex into the memory as they end.

    `install` adds the hook to the program's settings. The other two are what the hooks run.
    """


@capture.command("claude-code", example="gaiad capture claude-code < event.json")
@_quiet_option
@tenant_option
def claude_code(quiet_s: float, tenant: str) -> None:
    """Import the session that a hook of Claude Code names on stdin.

    The hook is SessionEnd, or Stop after each turn.
    """
    _undisturbed(lambda: _from_claude_code(quiet_s, tenant))


@capture.command("codex", example='gaiad capture codex \'{"type": "agent-turn-complete", "thread-id": "0199a213"}\'')
@click.argument("event")
@_quiet_option
@tenant_option
def codex(event: str, quiet_s: float, tenant: str) -> None:
    """Import the session of EVENT, which Codex hands to its notify program."""
    _undisturbed(lambda: _from_codex(event, quiet_s, tenant))


def _undisturbed(captured: Callable[[], None]) -> None:
    try:
        captured()
    except GaiadError as error:
        click.echo(f"gaiad capture: {error.message}", err=True)
        end(FAILED)


def _from_claude_code(quiet_s: float, tenant: str) -> None:
    event = _event(sys.stdin.read())
    path = Path(str(event.get("transcript_path") or "")).expanduser()
    if path.suffix != ".jsonl" or not path.is_file():
        raise BadInput(f"transcript_path {str(path)!r} is not a session file; this is run by a hook of Claude Code")
    _import_when_quiet(path, 0 if event.get("hook_event_name") == "SessionEnd" else quiet_s, tenant)


def _from_codex(text: str, quiet_s: float, tenant: str) -> None:
    event = _event(text)
    if event.get("type") != "agent-turn-complete":
        return
    thread = str(event.get("thread-id") or "")
    found = sorted(codex_home().glob(f"sessions/**/rollout-*{thread}.jsonl")) if _THREAD_ID.fullmatch(thread) else []
    if not found:
        raise BadInput(f"no session {thread[:80]!r} under {codex_home() / 'sessions'}")
    _import_when_quiet(found[-1], quiet_s, tenant)


def _event(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except ValueError as error:
        raise BadInput(f"the event is not JSON ({error})") from error
    if not isinstance(event, dict):
        raise BadInput("the event is not a JSON object")
    return event


def _import_when_quiet(path: Path, quiet_s: float, tenant: str) -> None:
    """Import the file; after a wait only if no later turn has changed it, whose own capture waits then."""
    if quiet_s:
        before = path.stat().st_mtime_ns
        if os.fork():
            return
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # the program may be waiting for them to close
            os.dup2(nothing, stream)
        time.sleep(quiet_s)
        if not path.exists() or path.stat().st_mtime_ns != before:
            return
    _import(path, tenant)


def _import(path: Path, tenant: str) -> None:
    from gaiad.wire.ingest import ImportRequest

    try:
        with invocation().client() as client:
            client.import_paths(ImportRequest(paths=[str(path.absolute())], tenant=tenant))
    except Unavailable as error:
        if tenant != LOCAL:
            raise
        _leave_in_inbox(path, error)


def _leave_in_inbox(path: Path, why: Unavailable) -> None:
    """The daemon imports it from there when it starts."""
    inbox = invocation().find_home().inbox
    try:
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = inbox / f".{path.name}.part"
        shutil.copyfile(path, part)
        part.replace(inbox / path.name)
    except OSError as error:
        raise Conflict(f"{why.message}; cannot copy {path} to {inbox}: {error.strerror}") from error


@capture.command(
    example="""
        gaiad capture install claude-code
        gaiad capture install codex --yes
    """,
)
@click.argument("program", type=click.Choice(["claude-code", "codex"]))
@click.option("--yes", is_flag=True, help="Do not ask.")
@tenant_option
def install(program: str, tenant: str, yes: bool) -> None:
    """Add the hook to a program's settings.

    Shows the change and asks first. The file as it was is kept beside it, its name ending in ".before-gaiad".
    """
    command = [own_command(), "capture", program, "--home", str(invocation().find_home().root)]
    command += ["--tenant", tenant] * (tenant != LOCAL)
    if program == "codex":
        change_entry(codex_home() / "config.toml", ("notify",), lambda old: _notify(old, command), program, yes=yes)
    else:
        path = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "settings.json"
        change_entry(path, ("hooks",), lambda old: _hooks(old, shlex.join(command)), program, yes=yes)


def _notify(old: Any, command: list[str]) -> list[str]:
    if old and "capture" not in old:
        raise BadInput(
            f"Codex runs {shlex.join(old)} as notify, and can run one program; let it run {shlex.join(command)}"
        )
    return command


def _hooks(old: Any, command: str) -> dict[str, Any]:
    """The hooks with ours at SessionEnd; the others, of that event too, stay."""
    hook = {"type": "command", "command": command, "timeout": 30}
    hooks = dict(old or {})
    others = [each for each in hooks.get("SessionEnd", []) if " capture claude-code" not in json.dumps(each)]
    return {**hooks, "SessionEnd": [*others, {"hooks": [hook]}]}
