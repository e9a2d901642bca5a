"""The seed's words for each failure mode (GAM, "Failure modes & mitigation"), filled in."""

import msgspec

from constants.load import load
from gaiad.research.citations import inline, shown


class _Responses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_found: str
    suggestions: tuple[str, ...]
    empty: str
    partial: str
    stopped_note: str
    partial_note: str
    safeguard: str
    clarify: str


def _table() -> _Responses:
    return load("responses.toml", _Responses)


def not_found(query: str, *, empty: bool = False) -> str:
    """Failure mode 1, suggestions included."""
    lines = [_table().not_found.format(query=shown(query)), "", "Suggestions:"]
    return "\n".join([*lines, *(f"- {suggestion}" for suggestion in suggestions(empty=empty))])


def suggestions(*, empty: bool = False) -> list[str]:
    """What to try next; in an `empty` archive there is one thing only."""
    return [_table().empty] if empty else list(_table().suggestions)


def partial(packet_ids: list[str]) -> str:
    """Failure mode 2."""
    return _table().partial + _sources(packet_ids)


def without_sources(answer: str, packet_ids: list[str]) -> str:
    """The answer without failure mode 2's list of its packets, for where they are named beside it anyway."""
    return answer.replace(_sources(packet_ids), "", 1) if packet_ids else answer


def _sources(packet_ids: list[str]) -> str:
    sources = ", ".join(inline(packet_id) for packet_id in packet_ids)
    return f"\n\nSources: {sources}" if sources else ""


def partial_note(at_limit: bool) -> str:
    """Why a PARTIAL run ended: at its limit of iterations (GAM's words), or before, with nothing new to try."""
    return _table().partial_note if at_limit else _table().stopped_note


def safeguard() -> str:
    """Failure mode 3, shown below high confidence."""
    return _table().safeguard


def clarify(query: str) -> str:
    """The question back to the person when theirs names nothing."""
    return _table().clarify.format(vague=shown(query))
