"""A question of one page, what a model writes well of it, and what came of a run over it."""

from typing import Any

SWITCH = "The float switch is wired in series with the supply of both valves. Mara tested it twice."
QUESTION = "Where is the float switch wired?"
QUOTED = f"{SWITCH} [Packet: tp-1]"
GOOD = ("It is wired in series with the supply of both valves.", ["s1"])


def of(result: Any) -> tuple[str, str]:
    return result.status, result.engine
