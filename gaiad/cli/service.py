"""`gaiad service`: the daemon as a service of the user's own, under systemd on Linux and launchd on macOS."""

import plistlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

import gaiad
from gaiad.base.errors import Conflict, GaiadError, NotFound, Unavailable
from gaiad.cli.client_settings import own_command
from gaiad.cli.command import VerbGroup, invocation, print_result
from gaiad.cli.output import FAILED, end

_UNITS = ("gaiad.socket", "gaiad.service")
_LABEL = "org.gaiad.daemon"


@click.group(
    "service",
    cls=VerbGroup,
    example="""
        gaiad service install
        gaiad service status
        gaiad service remove
    """,
)
def service() -> None:
    """Run the daemon as a service that starts when you log in."""


@service.command(example="gaiad service install")
def install() -> None:
    """Write the service's files, start it, and start it at every login.

    Linux: a user unit of systemd. macOS: an agent of launchd, which writes its log to <home>/daemon.log (10 MiB, four
    older ones kept). A daemon that runs already must be stopped first.
    """
    written = _files()
    for path, text in written.items():
        _write(path, text)
    for command in _starting():
        try:
            _run(command)
        except GaiadError as error:
            raise GaiadError(f"{error.message}; the files are written") from error
    print_result(
        {"files": [str(path) for path in written]}, "\n".join(f"wrote {path}" for path in written) + "\nstarted"
    )


@service.command(example="gaiad service status --json")
def status() -> None:
    """Show whether the service is installed and runs. Exits 1 when it does not run."""
    installed = all(path.exists() for path in _files())
    running = installed and _answers(_asking())
    told = "running" if running else "installed, not running" if installed else "not installed"
    print_result({"installed": installed, "running": running}, told)
    end(0 if running else FAILED)


@service.command(example="gaiad service remove")
def remove() -> None:
    """Stop the service and delete its files. The home and everything in it stay."""
    files = [path for path in _files() if path.exists()]
    if not files:
        raise NotFound("the service is not installed")
    for command in _stopping():
        try:
            _run(command)
        except GaiadError as error:
            click.echo(f"gaiad service: {error.message}; the daemon may still run, see `gaiad stop`", err=True)
    for path in files:
        path.unlink()
    if sys.platform != "darwin":
        _answers(["systemctl", "--user", "daemon-reload"])
    print_result({"files": [str(path) for path in files]}, "\n".join(f"deleted {path}" for path in files))


def _files() -> dict[Path, bytes]:
    """What the service consists of. Raises Unavailable on other systems."""
    home = invocation().find_home()
    serve = [own_command(), "serve", *(["--home", str(home.root)] if invocation().home else [])]
    if sys.platform == "darwin":
        return {_agent(): launchd_agent([*serve, "--log-file", str(home.root / "daemon.log")])}
    if shutil.which("systemctl") is None:
        raise Unavailable("there is no systemd here; run `gaiad serve` from your own service manager", 0.0)
    folder = Path.home() / ".config/systemd/user"
    socket = "" if not invocation().home else str(home.socket)
    return {folder / name: systemd_unit(_shipped(name), serve, socket) for name in _UNITS}


def _agent() -> Path:
    return Path.home() / f"Library/LaunchAgents/{_LABEL}.plist"


def systemd_unit(shipped: str, serve: Sequence[str], socket: str) -> bytes:
    """A shipped unit that runs this program; `socket` is where the daemon is looked for, "" for the shipped place."""
    quoted = " ".join(
        '"' + re.sub(r'(["\\])', r"\\\1", word).replace("%", "%%").replace("$", "$$") + '"' for word in serve
    )
    text = re.sub(r"^ExecStart=.*$", lambda _: f"ExecStart={quoted}", shipped, flags=re.M)
    if socket:
        place = socket.replace("%", "%%")
        text = re.sub(r"^ListenStream=.*$", lambda _: f"ListenStream={place}", text, flags=re.M)
    return re.sub(r"\A(?:#.*\n)+", "# Written by `gaiad service install`.\n", text).encode()


def launchd_agent(serve: Sequence[str]) -> bytes:
    """The property list of an agent that runs it at login, and again when it fails but for a wrong setting."""
    return plistlib.dumps(
        {
            "Label": _LABEL,
            "ProgramArguments": list(serve),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "Umask": 0o077,
            "ProcessType": "Background",
        }
    )


def _shipped(name: str) -> str:
    package = Path(gaiad.__file__).parent
    found = next(place for place in (package / "systemd", package.parent / "systemd") if (place / name).is_file())
    return (found / name).read_text(encoding="utf-8")


def _starting() -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "load", "-w", str(_agent())]]
    return [["systemctl", "--user", "daemon-reload"], ["systemctl", "--user", "enable", "--now", *_UNITS]]


def _asking() -> list[str]:
    if sys.platform == "darwin":
        return ["launchctl", "list", _LABEL]
    return ["systemctl", "--user", "is-active", "--quiet", "gaiad.service"]


def _stopping() -> list[list[str]]:
    if sys.platform == "darwin":
        return [["launchctl", "unload", "-w", str(_agent())]]
    return [["systemctl", "--user", "disable", "--now", *_UNITS]]


def _write(path: Path, text: bytes) -> None:
    from gaiad.base.home import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text, 0o644)
    except OSError as error:
        raise Conflict(f"cannot write {path}: {error.strerror}; correct this and install again") from error


def _run(command: Sequence[str]) -> None:
    """Raises GaiadError with what the command said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GaiadError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise GaiadError(f"{' '.join(command)} exited {done.returncode}: {said}")


def _answers(command: Sequence[str]) -> bool:
    try:
        _run(command)
    except GaiadError:
        return False
    return True
