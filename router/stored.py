"""What is stored, on its way to a reader whose channel is scrubbed: hits, packets, pages, runs, records, messages.

Pure: JSON values in, the same out with their words scrubbed and everything by which things are known left alone. A
record (our own shape) is known by its keys; what packets and sessions bring along has any keys, and is scrubbed whole.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from gaiad.chat_schemas import RedactionCount
from router.redact import Redaction
from router.scrubbing import Scrubber, counted, is_prose

MARK = "redacted"
"""Set to true in a record whose own words were scrubbed."""
_FREE = frozenset({"fields", "metadata", "session_metadata", "parameters"})
_CAPITALS = re.compile("(?<=[a-z])[A-Z]+")
_IDS = frozenset({"packet_id", "session_id", "turn_id", "page_id", "tenant_id", "sha256"})
_PACKET_AS_SENT = "manifest"  # a record with this key is a Cognition Packet, of which all is what was said or read


def stored_as_shown(scrubber: Scrubber, value: object) -> tuple[Any, list[RedactionCount]]:
    """A struct or plain value as JSON values that may be shown, and what was taken out. What things are known by stays.

    Exact stay the arguments of a command that waits for a person: what is shown is what its hash is of (decision 13);
    and what the person said, by which a turn is known.
    A message of the council that holds JSON is scrubbed within it.
    """
    before = scrubber.taken.copy()
    shown = _Walk(scrubber).of("", msgspec.json.decode(msgspec.json.encode(value)))
    taken = scrubber.taken - before
    return shown, counted([Redaction(kind, count) for kind, count in sorted(taken.items())])


class _Walk:
    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber

    def of(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value) if _is_words(key) else value
        if isinstance(value, list):
            return [self.of(key, one) for one in value]
        return self._record(value) if isinstance(value, dict) else value

    def _record(self, record: dict[str, Any]) -> dict[str, Any]:
        shown = {key: self._part(key, value, record) for key, value in record.items()}
        if any(_words_changed(shown[key], value) for key, value in record.items()):
            shown[MARK] = True
        return shown

    def _part(self, key: str, value: Any, record: dict[str, Any]) -> Any:
        if (key, True) in (("command", "sha256" in record), ("message", "stages" in record)):
            return value
        if key in _FREE or (_PACKET_AS_SENT in record and isinstance(value, dict)):
            return self._free(value)
        if key == "content" and "full_id" in record and isinstance(value, str):
            return self._message(value)
        return self.of(key, value)

    def _message(self, content: str) -> str:
        """What a role said, which may be JSON: its escapes would hide what stands behind them."""
        try:
            values = msgspec.json.decode(content)
        except msgspec.DecodeError:
            return self._text(content)
        if not isinstance(values, dict | list):
            return self._text(content)
        shown = self._free(values)
        return content if shown == values else msgspec.json.encode(shown).decode()

    def _free(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._free(one) for one in value]
        if not isinstance(value, dict):
            return value
        shown: dict[str, Any] = {}
        for key, one in value.items():
            kept = key in _IDS and isinstance(one, str)
            shown[_unused(self._text(key), shown)] = one if kept else self._free(one)
        return shown

    def _text(self, text: str) -> str:
        return self._scrubber.text(text)[0]


@lru_cache(maxsize=1024)
def _is_words(key: str) -> bool:
    """Of a record's key as it is on the wire: some of our shapes are in camelCase (decision 24)."""
    plain = _CAPITALS.sub(lambda found: f"_{found[0].lower()}", key)
    return is_prose(plain) and not plain.endswith("_ids")


def _unused(key: str, taken: dict[str, Any]) -> str:
    """Two keys that read the same when they are scrubbed stay two."""
    number, found = 1, key
    while found in taken:
        number += 1
        found = f"{key} ({number})"
    return found


def _words_changed(shown: Any, value: Any) -> bool:
    """Whether a record's own words are others now: its texts and lists of texts, not the records in it."""
    return any(one != other for one, other in zip(_words(shown), _words(value), strict=True))


def _words(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _words(one)
    elif isinstance(value, str):
        yield value
