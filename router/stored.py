"""What is stored, on its way to a reader whose channel is scrubbed: hits, packets, pages, runs, records, messages.

Pure: JSON values in, the same out with their words scrubbed and everything by which things are known left alone. A
record (our own shape) is known by its keys; what packets and sessions bring along has any keys, and is scrubbed whole.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

import msgspec

from gaiad.base.channels import Stage
from gaiad.wire.chat import RedactionCount
from router.redact import Redaction, RedactionRules, Redactor, redact

_NOT_PROSE = frozenset(
    {
        "id",
        "at",
        "timestamp",
        "marker",
        "role",
        "status",
        "persona",
        "packets",
        "sources",
        "source_packets",
        "fingerprint",
        "stage",
        "depth",
        "to",
        "kind",
        "dialect",
        "integrity",
        "confidence_band",
    }
)
_NOT_PROSE_ENDS = ("_id", "_at", "sha256", "_by", "_for")


class Scrubber:
    """For one reader. Without stages everything passes as it is."""

    def __init__(self, rules: RedactionRules, stages: Collection[Stage]) -> None:
        self._rules = rules
        self.stages = tuple(stages)
        self.taken: Counter[str] = Counter()

    def stream(self) -> Redactor:
        """For a text that comes in pieces; what it takes out is not counted here."""
        return Redactor(self._rules, self.stages)

    def text(self, text: str) -> tuple[str, list[RedactionCount]]:
        """A whole text as it may be shown, and what was taken out of it."""
        if not self.stages:
            return text, []
        whole = redact(text, self._rules, self.stages)
        self.count(whole.redactions)
        return whole.text, counted(whole.redactions)

    def would_change(self, text: str) -> bool:
        """Whether something were taken out of it; nothing is counted."""
        return bool(redact(text, self._rules, self.stages).redactions)

    def count(self, redactions: list[Redaction]) -> None:
        """What was taken out elsewhere."""
        for item in redactions:
            self.taken[item.kind] += item.count

    def data(self, data: Any) -> Any:
        """Data of an event with its prose scrubbed; names and numbers by which things are known stay."""
        return self._data("", msgspec.to_builtins(data)) if self.stages else data

    def _data(self, key: str, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)[0] if is_prose(key) else value
        if isinstance(value, dict):
            return {name: self._data(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._data(key, one) for one in value]
        return value


def is_prose(key: str) -> bool:
    """Whether what is under this key of our own is words."""
    return key not in _NOT_PROSE and not key.endswith(_NOT_PROSE_ENDS)


def counted(redactions: list[Redaction]) -> list[RedactionCount]:
    """As the wire has them."""
    return [RedactionCount(kind=item.kind, count=item.count) for item in redactions]


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
    shown = _ScrubWalk(scrubber).of("", msgspec.json.decode(msgspec.json.encode(value)))
    taken = scrubber.taken - before
    return shown, counted([Redaction(kind, count) for kind, count in sorted(taken.items())])


class _ScrubWalk:
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
        """What a role said, which may be JSON: its escapes would hide what is behind them."""
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
