"""Scrubs what is said beside an answer on its way to a channel: blocks, reasons, notes. Pure; it keeps counts alone."""

from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from gaiad.chat_schemas import RedactionCount
from router.redact import Redaction, RedactionRules, Redactor, Stage, redact

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
    """Whether what stands under this key of our own is words."""
    return key not in _NOT_PROSE and not key.endswith(_NOT_PROSE_ENDS)


def counted(redactions: list[Redaction]) -> list[RedactionCount]:
    """As they are told on the wire."""
    return [RedactionCount(kind=item.kind, count=item.count) for item in redactions]
