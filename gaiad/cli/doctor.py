"""`gaiad doctor`: looks at everything gaiad stands on and says what to do about what is wrong."""

from typing import TYPE_CHECKING

import click

from gaiad.cli.command import Verb, invocation
from gaiad.cli.errors import FAILED, end
from gaiad.cli.output import colours, plain, warn, write_json
from gaiad.errors import GaiadError, Unavailable

if TYPE_CHECKING:
    from gaiad.home import Home
    from gaiad.status_schemas import Check


@click.command(
    cls=Verb,
    example="""
        gaiad doctor
        gaiad doctor --json | jq -r '.checks[] | select(.ok | not) | .remedy'
    """,
)
def doctor() -> None:
    """Check what gaiad stands on, say what to do.

    Looks at Python, llama.cpp, the embedding model, settings, home, disk, socket and index. Works without a daemon;
    with one it adds what the daemon knows. Exits 1 unless all is well.
    """
    home = invocation().find_home()
    checks = merge(_offline_checks(home), _daemon_checks(home))
    ok = all(check.ok for check in checks)
    if invocation().as_json:
        write_json({"ok": ok, "checks": checks})
    else:
        click.echo(checks_text(checks))
    if not ok:
        end(FAILED)


def merge(own: "list[Check]", daemon: "list[Check]") -> "list[Check]":
    """Both, each name from the daemon where it has one, for it sees what is in force."""
    names = {check.name for check in daemon}
    return [check for check in own if check.name not in names] + daemon


def checks_text(checks: "list[Check]") -> str:
    """A line a check, the remedy under what is not well."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        verdict = "ok " if check.ok else warn("BAD")
        lines.append(f"{verdict}  {check.name:<{width}}  {plain(check.detail)}")
        if not check.ok and check.remedy:
            lines.append(f"{'':<{width + 7}}{'→' if colours() else '->'} {plain(check.remedy)}")
    bad = sum(not check.ok for check in checks)
    return "\n".join([*lines, "", "all is well" if not bad else f"{bad} of {len(checks)} checks need attention"])


def _offline_checks(home: "Home") -> "list[Check]":
    from gaiad.cli.checks import check_disk, check_home, check_llama, check_model, check_python, load_settings

    settings, config = load_settings(home)
    models = [check_llama()] + ([check_model(config)] if config is not None else [])
    return [check_python(), settings, *models, check_home(home), check_disk(home)]


def _daemon_checks(home: "Home") -> "list[Check]":
    """What the daemon finds; without one, that there is none (which is no fault) and the index as the files show it."""
    from gaiad.status_schemas import Check

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
                detail=f"{client.socket_path} is there and nobody answers",
                remedy="gaiad serve",
            )
        return [absent, _index(home)]


def _index(home: "Home") -> "Check":
    from gaiad.cli.offline import check_index
    from gaiad.status_schemas import Check

    try:
        return check_index(home)
    except GaiadError as error:
        return Check(name="index", ok=False, detail=error.message, remedy="gaiad packets verify, then gaiad reindex")
