"""A research run as it goes, in lines: searched, found, missing, what the answer would be so far."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.output import counted, dim, plain, terminal_width, wrap
from gaiad.cli.research_layout import one_line

if TYPE_CHECKING:
    from gaiad.connection import ServerEvent
    from gaiad.schemas import ResearchResult

_SHOWN_IDS = 3
_INDENT = "  | "


def event_text(name: str, data: dict[str, Any], width: int) -> str:
    """The lines of one event, "" when there is nothing to tell. Pure."""
    match name:
        case "resumed":
            return "Interrupted by the end of the daemon; begun again from its beginning"
        case "interrupted":
            return "The daemon stops; the run goes on at its next start"
        case "searching":
            again = "Searching again" if data["iteration"] > 1 else "Searching"
            how = f" ({one_line(data['refinements'][-1])})" if data["refinements"] else ""
            return f"{again}: {one_line(data['query'])}{how}"
        case "found":
            return _found(data)
        case "reflected":
            verdict = "That is enough" if data["sufficient"] else "Not enough yet"
            missing = f"; missing: {one_line(', '.join(data['missing']))}" if data["missing"] else ""
            return f"{verdict}, confidence {data['confidence']:.2f}{missing}"
        case "planned":
            return "" if data.get("by") == "rules" else _planned(data["actions"])
        case "thought":
            return f"{data['step'].capitalize()} by rules: {one_line(data['by_rules'])}" if data["by_rules"] else ""
        case "partial":
            return f"So far, confidence {data['confidence']:.2f}:\n{wrap(data['answer'], width, _INDENT)}"
        case _:
            return ""


def _planned(actions: list[dict[str, Any]]) -> str:
    """What a model searches for besides the question."""
    what = [one_line(one["query"]) or f"pages {one_line(', '.join(one['pageIds']))}" for one in actions]
    return f"Searching besides: {'; '.join(what)}" if what else ""


def _found(data: dict[str, Any]) -> str:
    pages = f"{counted(data['new_pages'], 'new page')}, " if "new_pages" in data else ""
    packets = data["packets"]
    shown = [plain(packet_id) for packet_id in packets[:_SHOWN_IDS]] + ["..."] * (len(packets) > _SHOWN_IDS)
    named = f" [{', '.join(shown)}]" if shown else ""
    return f"Found {pages}{counted(len(packets), 'relevant packet')}{named}"


def told(events: "Iterable[ServerEvent]") -> "Iterator[ServerEvent]":
    """The events as they come, each said on stderr first."""
    for event in events:
        text = event_text(event.event, event.data, terminal_width()) if isinstance(event.data, dict) else ""
        if text:
            click.echo(dim(text, sys.stderr), err=True)
        yield event


def result_of(events: "Iterable[ServerEvent]", otherwise: str) -> "ResearchResult":
    """What the run came to. Raises what it was broken off by; Unavailable with `otherwise` when it came to no end."""
    import msgspec

    from gaiad.errors import Unavailable
    from gaiad.schemas import ResearchResult

    for event in events:
        if event.event == "result":
            return msgspec.convert(event.data, ResearchResult)
    raise Unavailable(otherwise)
