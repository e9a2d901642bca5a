"""How two sentences of different packets can stand to each other, as a value. See `gaiad.research.contradictions`."""

from typing import Literal

import msgspec

RelationKind = Literal["contradiction", "refinement", "agreement"]
Matter = Literal["date", "time", "number", "negation", "value", "change", "wording"]
Severity = Literal["major", "minor", "clarification"]


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """How two assertions stand to each other. `first` and `second` are what differs, in their own words.

    `overlap` is the share of the shorter one's words that both have, 0 to 1; `replaces` is the one that takes the place
    of the other, "" for none.
    """

    kind: RelationKind
    matter: Matter
    severity: Severity
    first: str
    second: str
    overlap: float
    replaces: Literal["", "first", "second"] = ""


def relation(kind: RelationKind, matter: Matter, severity: Severity, first: str, second: str) -> Relation:
    """A relation without its overlap."""
    return Relation(kind=kind, matter=matter, severity=severity, first=first, second=second, overlap=0.0)
