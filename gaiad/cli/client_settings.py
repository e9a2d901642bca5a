"""Changes one entry in the settings of another program: shown first, asked for, and the file as it was is kept."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from gaiad.base.errors import BadInput, Conflict
from gaiad.cli.command import invocation, print_result

_COPY = ".before-gaiad"


def own_command() -> str:
    """The path of `gaiad`, for a program that runs it."""
    return shutil.which("gaiad") or str(Path(sys.argv[0]).absolute())


def codex_home() -> Path:
    """Where Codex keeps its settings and sessions."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def change_entry(path: Path, keys: Sequence[str], made: Callable[[Any], Any], program: str, *, yes: bool) -> None:
    """Replace the entry at `keys` in a JSON or TOML file by what `made` makes of it, None where there is none.

    Raises BadInput for settings that cannot be read, Conflict when they cannot be written, Abort when not wanted.
    """
    path = path.resolve()
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    after, old, new = _changed(before, keys, made, path)
    if old == new:
        click.echo(f"{path}: gaiad is installed already.")
        return
    if not invocation().as_json:
        click.echo(f"{path}, {'.'.join(keys)}:")
        click.echo(f"- {json.dumps(old)}\n" * (old is not None) + f"+ {json.dumps(new)}")
    if not yes and not click.confirm("Write this?", default=True):
        raise click.Abort
    _write(path, before, after)
    print_result({"path": str(path), "entry": new}, f"Written. Restart {program}.")


def _changed(text: str, keys: Sequence[str], made: Callable[[Any], Any], path: Path) -> tuple[str, Any, Any]:
    """The settings with the new entry, the old entry and the new one."""
    if path.suffix == ".toml":
        import tomlkit as reader
    else:
        reader: Any = json  # type: ignore[no-redef]
    try:
        settings: Any = reader.loads(text) if text.strip() else reader.loads("{}" if reader is json else "")
        table = settings
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        old = table.get(keys[-1])
        old = None if old is None else json.loads(json.dumps(old))
        new = made(old)
        table[keys[-1]] = new
    except (ValueError, AttributeError, TypeError) as error:
        raise BadInput(f"{path}: cannot be read ({error}); correct it, then install again") from error
    written = json.dumps(settings, indent=2, ensure_ascii=False) + "\n" if reader is json else reader.dumps(settings)
    return written, old, new


def _write(path: Path, before: str, after: str) -> None:
    """Replace the file at once; what it held is kept beside it. Raises Conflict."""
    from gaiad.base.home import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        if before:
            replace_file(path.with_name(path.name + _COPY), before.encode(), mode)
        replace_file(path, after.encode(), mode)
    except OSError as error:
        raise Conflict(f"cannot write {path}: {error.strerror}; correct this and install again") from error
