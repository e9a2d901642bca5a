"""`gaiad config`: the settings in force and where each came from, the files, and whether they are valid."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gaiad.base.errors import BadInput, ConfigError, DaemonUnreachable, Forbidden
from gaiad.cli.command import Verb, VerbGroup, invocation, print_result
from gaiad.cli.output import bold, dim, plain, table, warn

if TYPE_CHECKING:
    from router.routed import RoutedBlock, RoutedText


@click.group(
    cls=VerbGroup,
    example="""
        gaiad config show
        gaiad config path
        gaiad config check && gaiad config reload
    """,
)
def config() -> None:
    """Show, check and reload settings."""


@config.command("show", cls=Verb, example="gaiad config show --json | jq .settings.http")
def show() -> None:
    """Show every setting in force and where its value comes from.

    Shows the running daemon's settings, or those that a daemon started now would have.
    """
    from gaiad.base.config import config_sections, load_config

    files = _files()
    stated = config_sections(load_config(files))
    in_force, daemon = _daemon_settings()
    settings = in_force or stated
    sources = setting_sources(files, os.environ)
    for section, values in settings.items():
        for key, value in values.items():
            if value != stated.get(section, {}).get(key):
                sources[f"{section}.{key}"] = "running daemon"
    print_result(
        {"settings": settings, "sources": sources, "files": [str(file) for file in files], "daemon": daemon},
        settings_text(settings, sources),
    )


def settings_text(settings: Mapping[str, Mapping[str, Any]], sources: Mapping[str, str]) -> str:
    """section.key = value, and the source where it is not the shipped default."""
    rows = [
        (f"{section}.{key}", _toml_text(value), dim(sources.get(f"{section}.{key}", "")))
        for section, values in settings.items()
        for key, value in values.items()
    ]
    width, middle = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{name:<{width}} = {value:<{middle}}  {source}".rstrip() for name, value, source in rows)


def _toml_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml_text(name)} = {_toml_text(item)}" for name, item in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(_toml_text(item) for item in value)}]"
    if isinstance(value, str):
        import msgspec

        return msgspec.json.encode(value).decode()
    return str(value)


def setting_sources(files: Sequence[Path], environment: Mapping[str, str]) -> dict[str, str]:
    """section.key -> the file or variable that sets it, the strongest; settings left at their default are absent."""
    import tomllib

    from gaiad.base.config import ENVIRONMENT_PREFIX, SEED_VARIABLES

    sources: dict[str, str] = {}
    for file in files:
        for section, values in tomllib.loads(file.read_text(encoding="utf-8")).items():
            sources |= {f"{section}.{key}": str(file) for key in values}
    sources |= {".".join(key): f"${name}" for name, key in SEED_VARIABLES.items() if environment.get(name, "").strip()}
    for name in environment:
        if name.startswith(ENVIRONMENT_PREFIX) and "__" in name:
            sources[name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".", 1)] = f"${name}"
    return sources


def _daemon_settings() -> tuple[dict[str, Any], bool]:
    try:
        with invocation().client() as client:
            return client.config(), True
    except (DaemonUnreachable, Forbidden):
        return {}, False


def _files() -> list[Path]:
    from gaiad.base.config import user_files

    return user_files(invocation().find_home().root, os.environ)


@config.command("path", cls=Verb, example="$EDITOR $(gaiad config path --json | jq -r .home)")
def path() -> None:
    """Show the files settings are read from, the weakest first."""
    from gaiad.base.config import default_file

    mine = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "gaiad" / "config.toml"
    found = {"default": default_file(), "user": mine, "home": invocation().find_home().config_file}
    print_result(
        {name: str(file) for name, file in found.items()},
        table([(name, str(file), "" if file.is_file() else "(not there)") for name, file in found.items()]),
    )


@config.command("check", cls=Verb, example="gaiad config check --json")
def check() -> None:
    """Check files and variables without a daemon.

    Exits 2 naming the file, the key and the remedy when something is wrong.
    """
    from gaiad.base.config import assign, file_of, load_config
    from router.routing import routing_of

    files = _files()
    stated = load_config(files)
    for name, model in assign(stated.roles, stated.models.known)[1].items():
        if model.path and not file_of(model).is_file():
            raise ConfigError(
                f"model {name}: no such file {model.path}; correct the path, or fetch it with `gaiad models pull`"
            )
    if stated.embedder.kind == "gguf" and not Path(stated.embedder.path).expanduser().is_file():
        raise ConfigError(f"embedder.path = {stated.embedder.path!r}: no such file; correct the path")
    routing_of(stated)
    print_result(
        {"ok": True, "files": [str(file) for file in files]},
        "settings are fine: " + (", ".join(str(file) for file in files) or "no file of your own, all defaults"),
    )


@config.command("reload", cls=Verb, example="gaiad config reload")
def reload() -> None:
    """Make the daemon reload its settings.

    Invalid settings are refused: the daemon keeps the last good ones and this exits 2.
    """
    with invocation().client() as client:
        report = client.reload_config()
    now = [key for key in report.changed if key not in report.restart_needed]
    rows = [*((key, "in force") for key in now), *((key, "at the next start") for key in report.restart_needed)]
    print_result(report, table(rows) if rows else "nothing changed")


@click.command(
    cls=Verb,
    example="""
        gaiad route answer.txt
        gaiad route --channel discord answer.txt
        gaiad chat --json "who keeps the garden" | jq -r .answer | gaiad route --json --channel web -
    """,
)
@click.option("--channel", metavar="NAME", help="Where the turn came from: cli, web, discord or council; default: any.")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
def route(file: str, channel: str | None) -> None:
    """Show where marked text would go and what would be redacted.

    FILE holds text as a model writes it, with PLAN:, EXECUTE:, RESPONSE:, THOUGHT_SEED:, INTERRUPT: and VERIFY: at the
    beginning of lines; - is standard input. Your settings hold ([router], [redaction]). With --channel it is a turn
    from there: its blocks go to that channel, the council's log, the shell and the memory at most. A text is shown as
    those read it who get it scrubbed most. Nothing is sent and nothing is run.
    """
    from gaiad.base.config import load_config, user_files
    from router.routed import route_once

    text = _read(file)
    found = route_once(text, load_config(user_files(invocation().find_home().root, os.environ)), channel or "")
    print_result(found, routed_text(found))


def _read(file: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).expanduser().read_bytes()
    except OSError as error:
        raise BadInput(
            f"{file}: cannot be read ({error.strerror}); name a text file, or - for standard input"
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: is not UTF-8 text (byte {error.start}); convert it first") from error


def routed_text(found: "RoutedText") -> str:
    """Blocks in their order, with where they go and what was taken out, then what was tolerated; for people."""
    lines = [line for block in found.blocks for line in _block_lines(block)]
    notes = [f"{warn('note:')} {plain(note)}" for note in found.notes]
    return "\n".join([*(lines or ["nothing is in it"]), *notes])


def _block_lines(block: "RoutedBlock") -> list[str]:
    indent = "  " * block.depth
    where = ", ".join(f"{channel} ({manner})" for channel, manner in block.manners.items()) or "nowhere"
    lines = [f"{indent}{bold(block.marker or 'no marker')} to {where}"]
    lines += [f"{indent}  {line}".rstrip() for line in plain(block.text).splitlines()]
    if block.redactions:
        taken = ", ".join(f"{item.count} {item.kind}" for item in block.redactions)
        lines.append(dim(f"{indent}  taken out: {taken}"))
    return [*lines, ""]
