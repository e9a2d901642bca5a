"""Exit codes, and how an error leaves the program: one line on stderr, with --json also one JSON object there.

Every error class knows its exit code (`gaiad.errors`); this module adds those of the shell and says them all in help.
"""

import json
import sys
from typing import Any, NoReturn

import click

from gaiad.errors import GaiadError

OK = 0
FAILED = 1
USAGE = 2
NOT_FOUND = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

EXIT_CODES = {
    OK: "done",
    FAILED: "something failed: a file was not accepted, a check found a problem, the council gave no answer",
    USAGE: "wrong usage, input or setting; the message says what to write instead",
    NOT_FOUND: "no such packet, page or job (with --exit-status also: nothing found)",
    4: "not permitted: another user's daemon, or a tenant you may not use",
    5: "no daemon answers, or it cannot right now",
    6: "the daemon did not answer in time",
    7: "cancelled",
    INTERRUPTED: "interrupted with Ctrl-C",
    BROKEN_PIPE: "the program reading the output went away",
}


class Ended(click.exceptions.Exit):
    """The verb has said all it has to say; only the exit code is left."""


def end(code: int) -> NoReturn:
    """Leave with `code` and no further word."""
    raise Ended(code)


def exit_codes_text() -> str:
    """The table for `gaiad --help`."""
    return "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())


def one_line(message: str) -> str:
    """`message` on one line, without characters that move a terminal's cursor."""
    return " ".join("".join(character if character.isprintable() else " " for character in message).split())


def describe(error: GaiadError | click.ClickException) -> dict[str, Any]:
    """The JSON object for an error: code, message, exit_code."""
    if isinstance(error, GaiadError):
        return {"code": error.code, "message": error.message, "exit_code": error.exit_code}
    return {"code": "usage", "message": _usage_message(error), "exit_code": USAGE}


def _usage_message(error: click.ClickException) -> str:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context is not None else message


def report(error: GaiadError | click.ClickException, as_json: bool) -> int:
    """Say the error on stderr and return its exit code."""
    facts = describe(error)
    line = json.dumps({"error": facts}) if as_json else f"gaiad: {one_line(facts['message'])}"
    print(line, file=sys.stderr)
    return int(facts["exit_code"])
