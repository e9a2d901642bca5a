"""An EXECUTE body as one command's exact arguments (decision 13), or nothing: what needs a shell is refused.

Whether a command may run is decided by votes and a person, never here. Pure.
"""

import shlex

import msgspec

from council.stages import MOST_ARGUMENTS, STEP_CHARACTERS, Command

_SHELL = frozenset("|&;<>()$`\\*?[]{}~!#\n")


def read_command(body: str, notes: list[str]) -> Command | None:
    """The command of JSON that fits, or of one plain line without anything a shell would expand; None with a note."""
    try:
        return msgspec.json.decode(body, type=Command)
    except msgspec.DecodeError:
        pass
    if body.lstrip().startswith("{"):
        notes.append("an EXECUTE block is cut or does not fit its form; it was left out")
        return None
    if found := sorted(set(body) & _SHELL):
        notes.append(
            f"an EXECUTE block needs a shell ({' '.join(map(repr, found))}); it was left out, write plain argv"
        )
        return None
    try:
        argv = tuple(shlex.split(body))
    except ValueError as error:
        notes.append(f"an EXECUTE block cannot be read ({error}); it was left out")
        return None
    if len(argv) > MOST_ARGUMENTS or any(len(part) > STEP_CHARACTERS for part in argv):
        notes.append(f"an EXECUTE block has more than {MOST_ARGUMENTS} arguments of {STEP_CHARACTERS} characters")
        return None
    return Command(argv=argv, why="")
