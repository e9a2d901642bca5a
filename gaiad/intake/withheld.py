"""What is told of packets elsewhere: a record that names one its reader may not see is withheld (`memory.exclude`).

The archive itself leaves such packets out. Runs, cognition packets, turns and the council's messages are kept beside
it and repeat what they were given: of these whole records are left out, for nobody can take a thought out of a text.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from gaiad.errors import NotFound

_CITED = re.compile(r"\[Packet: ([^\[\]]+)\]")
_LONGEST_ID = 200


class Withheld(NotFound):
    """The record names what its reader may not see; it is to him as if it were not there."""


def names_in(value: Any) -> Iterator[str]:
    """Everything in a JSON value that can be the id of a packet or page: short strings, and citations in long ones."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_ID:
            yield value
        yield from _CITED.findall(value)
    elif isinstance(value, dict):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)


def without(record: Any, hidden: Collection[str]) -> Any:
    """The record without those entries of its lists that name something hidden. Raises Withheld when it does itself."""
    if not isinstance(record, dict):
        return _shown(record, hidden)
    return {
        name: [each for each in value if not _tells(each, hidden)] if _is_table(value) else _shown(value, hidden)
        for name, value in record.items()
    }


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _shown(value: Any, hidden: Collection[str]) -> Any:
    if _tells(value, hidden):
        raise Withheld("nothing of that name is here; look at what is listed")
    return value


def _tells(value: Any, hidden: Collection[str]) -> bool:
    return any(name in hidden for name in names_in(value))
