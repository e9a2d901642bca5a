"""`gaiad config`: the settings in force and where each came from, the files they stand in, whether those are right."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gaiad.cli.command import Verb, VerbGroup, invocation
from gaiad.cli.output import dim, table, write_json
from gaiad.errors import DaemonUnreachable, Forbidden


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

    With a daemon running these are its settings; else those a daemon started now would have.
    """
    import msgspec

    from gaiad.config import load_config

    files = _files()
    stated: dict[str, Any] = msgspec.to_builtins(load_config(files))
    in_force, daemon = _daemon_settings()
    settings = in_force or stated
    sources = setting_sources(files, os.environ)
    for section, values in settings.items():
        for key, value in values.items():
            if value != stated.get(section, {}).get(key):
                sources[f"{section}.{key}"] = "running daemon"
    if invocation().as_json:
        write_json({"settings": settings, "sources": sources, "files": [str(file) for file in files], "daemon": daemon})
    else:
        click.echo(settings_text(settings, sources))


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

    from gaiad.config import ENVIRONMENT_PREFIX, SEED_VARIABLES

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
    from gaiad.config import user_files

    return user_files(invocation().find_home().root, os.environ)


@config.command("path", cls=Verb, example="$EDITOR $(gaiad config path --json | jq -r .home)")
def path() -> None:
    """Show the files settings are read from, the weakest first."""
    from gaiad.config import default_file

    mine = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "gaiad" / "config.toml"
    found = {"default": default_file(), "user": mine, "home": invocation().find_home().config_file}
    if invocation().as_json:
        write_json({name: str(file) for name, file in found.items()})
    else:
        click.echo(table([(name, str(file), "" if file.is_file() else "(not there)") for name, file in found.items()]))


@config.command("check", cls=Verb, example="gaiad config check --json")
def check() -> None:
    """Check files and variables without a daemon.

    Exits 2 naming the file, the key and the remedy when something is wrong.
    """
    from gaiad.config import load_config
    from gaiad.roles import assign
    from gaiad.routing import routing_of

    files = _files()
    stated = load_config(files)
    assign(stated.roles, stated.models.known)
    routing_of(stated)
    if invocation().as_json:
        write_json({"ok": True, "files": [str(file) for file in files]})
    else:
        click.echo(
            "settings are fine: " + (", ".join(str(file) for file in files) or "no file of your own, all defaults")
        )


@config.command("reload", cls=Verb, example="gaiad config reload")
def reload() -> None:
    """Have the daemon read its settings again.

    When they do not fit it keeps the last good ones, and this exits 2.
    """
    with invocation().client() as client:
        report = client.reload_config()
    if invocation().as_json:
        write_json(report)
        return
    now = [key for key in report.changed if key not in report.restart_needed]
    rows = [*((key, "in force") for key in now), *((key, "at the next start") for key in report.restart_needed)]
    click.echo(table(rows) if rows else "nothing changed")
