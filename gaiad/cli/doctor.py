"""`gaiad doctor`: checks everything gaiad depends on and says how to fix what is wrong.

Without a daemon: the program, llama.cpp, the embedding model, the home and its disk. The command line does not load
models: a child process checks llama.cpp and the model.
"""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gaiad.base.errors import ConfigError, GaiadError, Unavailable
from gaiad.cli.command import Verb, invocation, print_result
from gaiad.cli.output import FAILED, colours, end, plain, warn
from gaiad.wire.status import Check

if TYPE_CHECKING:
    from gaiad.base.config import Config
    from gaiad.base.home import Home

_OLDEST_PYTHON = (3, 11)
_LOW_DISK_BYTES = 512 * 1024 * 1024
_CHILD_LIMIT_S = 120.0


def check_python() -> Check:
    """The interpreter, against the oldest that will do."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    ok = sys.version_info[:2] >= _OLDEST_PYTHON
    return Check(
        name="python",
        ok=ok,
        detail=f"{version} ({sys.executable})",
        remedy="" if ok else "install Python 3.11 or newer",
    )


def check_child(name: str, module: str, arguments: list[str], remedy: str) -> Check:
    """Whether `python -m module` succeeds in a child; its last line is the detail."""
    command = [sys.executable, "-P", "-m", module, *arguments]
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHILD_LIMIT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Check(name=name, ok=False, detail=f"{module} did not finish within {_CHILD_LIMIT_S:g} s", remedy=remedy)
    lines = (ended.stderr or ended.stdout if ended.returncode else ended.stdout or ended.stderr).strip().splitlines()
    if ended.returncode == 0:
        return Check(name=name, ok=True, detail=lines[-1] if lines else "works in a child process")
    said = lines[-1] if lines else "no output"
    reason = f"killed by signal {-ended.returncode}" if ended.returncode < 0 else f"exit {ended.returncode}"
    return Check(name=name, ok=False, detail=f"{reason}: {said}", remedy=remedy)


def check_llama() -> Check:
    """A Q8_0 decode by the llama.cpp built here, in a child process."""
    return check_child("llama.cpp", "gaiad.models.prove", [], "rebuild it for this processor: make")


def check_model(config: "Config") -> Check:
    """The embedding model's file, by embedder.kind."""
    if config.embedder.kind == "none":
        return Check(name="embedding model", ok=True, detail="none wanted (embedder.kind = none): search is lexical")
    if config.embedder.kind == "minilm":
        return check_child("embedding model", "gaiad.models.provision", ["--verify"], "create it: make")
    path = Path(config.embedder.path).expanduser()
    return Check(
        name="embedding model",
        ok=path.is_file(),
        detail=str(path) if path.is_file() else f"{path} is not a file",
        remedy="" if path.is_file() else "correct embedder.path, or set embedder.kind to minilm",
    )


def check_home(home: "Home") -> Check:
    """The home: there, ours, closed to others."""
    if not home.root.exists():
        return Check(name="home", ok=True, detail=f"{home.root} does not exist yet; gaiad serve creates it")
    status = home.root.stat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.getuid():
        owner = f"{home.root} belongs to uid {status.st_uid}"
        return Check(name="home", ok=False, detail=owner, remedy="run as its owner, or name another with --home")
    return Check(
        name="home",
        ok=mode & 0o077 == 0,
        detail=f"{home.root} has mode {mode:04o}",
        remedy="" if mode & 0o077 == 0 else f"chmod 700 {home.root}",
    )


def check_disk(home: "Home") -> Check:
    """Free space where the home is or will be."""
    place = next(path for path in (home.root, *home.root.parents) if path.exists())
    free = shutil.disk_usage(place).free
    return Check(
        name="disk",
        ok=free >= _LOW_DISK_BYTES,
        detail=f"{free / 2**30:.1f} GiB free",
        remedy="" if free >= _LOW_DISK_BYTES else "free some space: ingest stops when the disk is full",
    )


def load_settings(home: "Home") -> "tuple[Check, Config | None]":
    """Whether the settings can be read, and the settings."""
    from gaiad.base.config import load_config, user_files

    files = user_files(home.root, os.environ)
    try:
        config = load_config(files)
    except ConfigError as error:
        return Check(name="settings", ok=False, detail=error.message, remedy="correct it; gaiad config path"), None
    detail = ", ".join(str(file) for file in files) or "no file of your own, all defaults"
    return Check(name="settings", ok=True, detail=detail), config


@click.command(
    cls=Verb,
    example="""
        gaiad doctor
        gaiad doctor --json | jq -r '.checks[] | select(.ok | not) | .remedy'
    """,
)
def doctor() -> None:
    """Check what gaiad depends on, say what to fix.

    Looks at Python, llama.cpp, the embedding model, settings, home, disk, socket and index. Works without a daemon;
    with one it adds what the daemon knows. Exits 1 if a check fails.
    """
    home = invocation().find_home()
    checks = merge(_offline_checks(home), _daemon_checks(home))
    ok = all(check.ok for check in checks)
    print_result({"ok": ok, "checks": checks}, checks_text(checks))
    if not ok:
        end(FAILED)


def merge(own: list[Check], daemon: list[Check]) -> list[Check]:
    """Both, each name from the daemon where it has one, for it sees what is in force."""
    names = {check.name for check in daemon}
    return [check for check in own if check.name not in names] + daemon


def checks_text(checks: list[Check]) -> str:
    """A line a check, the remedy under what is not well."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        verdict = "ok " if check.ok else warn("BAD")
        lines.append(f"{verdict}  {check.name:<{width}}  {plain(check.detail)}")
        if not check.ok and check.remedy:
            lines.append(f"{'':<{width + 7}}{'→' if colours() else '->'} {plain(check.remedy)}")
    bad = sum(not check.ok for check in checks)
    return "\n".join([*lines, "", "no problems found" if not bad else f"{bad} of {len(checks)} checks need attention"])


def _offline_checks(home: "Home") -> list[Check]:
    settings, config = load_settings(home)
    models = [check_llama()] + ([check_model(config)] if config is not None else [])
    return [check_python(), settings, *models, check_home(home), check_disk(home)]


def _daemon_checks(home: "Home") -> list[Check]:
    """What the daemon finds; without a daemon, which is not a fault, that and the index as the files show it."""
    client = invocation().client()
    try:
        with client:
            found = client.doctor()
            return [Check(name="daemon", ok=True, detail=f"pid {client.status().pid} answers"), *found]
    except Unavailable as error:
        absent = Check(name="daemon", ok=not client.socket_path.exists(), detail=error.message)
        if not absent.ok:
            absent = Check(
                name="daemon",
                ok=False,
                detail=f"{client.socket_path} exists, but no daemon answers",
                remedy="gaiad serve",
            )
        return [absent, _index(home)]


def _index(home: "Home") -> Check:
    from gaiad.cli.offline import check_index

    try:
        return check_index(home)
    except GaiadError as error:
        return Check(name="index", ok=False, detail=error.message, remedy="gaiad packets verify, then gaiad reindex")
