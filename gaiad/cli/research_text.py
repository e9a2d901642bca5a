"""Research as text: an answer (GAM's Integration Point 1, failure modes 1 to 3), a run as it goes, a run afterwards."""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, UnsetType, structs

from gaiad.cli.output import counted, date_of, dim, milliseconds, plain, terminal_width, wrap

if TYPE_CHECKING:
    from gaiad.client.connection import ServerEvent
    from gaiad.wire.research import IterationRecord, ResearchRun, RunRow, SourceRecord
    from gaiad.wire.schemas import Citation, ResearchResult


RULE = "─" * 54
SEARCHING = "Searching Transmission Packets..."
SYNTHESIZING = "Synthesizing answer..."
_WARNING = "⚠️ Review source packets to verify accuracy."
_PARTIAL = (
    "Research completed with PARTIAL status.\n\n"
    "Found relevant information but query may not be fully answered.\n"
    "Review sources and consider refining query."
)
_OPEN_ONE = "gaiad packets show PACKET_ID"
_SHOWN_IDS = 2
_HOW_SEARCHED = "Searched again "  # the last of an answer's notes


def result_text(
    result: "ResearchResult",
    query: str,
    width: int,
    confidence: bool,
    quotes: bool = False,
    zone: tzinfo = UTC,
    options: str = "",
) -> str:
    """All that follows `SEARCHING`. Confidence that is not high is shown with the warning; high, when `confidence`.

    Days are those of `zone`; `options` are what a command named there needs to reach this memory.
    """
    answered = result.status in ("SUCCESS", "PARTIAL")
    parts = [
        found_line(result.source_packets),
        *([SYNTHESIZING] if answered else []),
        f"{RULE}\nRESEARCH RESULT",
        _body(result, query, width, options),
        *([_PARTIAL] if result.status == "PARTIAL" else []),
        *(_confidence(result, confidence) if answered else []),
        *([_quotes(result.citations, width)] if quotes and result.citations else []),
        *([f"SOURCES:\n{source_lines(result, zone)}"] if result.source_packets else []),
        f"Iterations: {result.iterations_used}/{result.max_iterations} | Status: {result.status}\n{RULE}",
    ]
    return "\n\n".join(part for part in parts if part)


def short_text(
    result: "ResearchResult", query: str, width: int, quotes: bool = False, zone: tzinfo = UTC, options: str = ""
) -> str:
    """The answer and its sources; `result_text` has the whole layout, with how the search went."""
    brief = structs.replace(result, note=result.note.partition(_HOW_SEARCHED)[0])
    parts = [
        _body(brief, query, width, options),
        *([_quotes(result.citations, width)] if quotes and result.citations else []),
        *([f"SOURCES:\n{source_lines(result, zone)}"] if result.source_packets else []),
    ]
    return "\n\n".join(part for part in parts if part)


def summary_line(result: "ResearchResult") -> str:
    """Status, confidence, time, and what tells more."""
    answered = result.status in ("SUCCESS", "PARTIAL")
    doubt = "" if result.confidence_band == "HIGH" else ", check the sources"
    confidence = f"confidence {result.confidence:.2f} ({result.confidence_band}{doubt})" if answered else ""
    parts = (result.status, confidence, milliseconds(result.took_ms), "more: --why")
    return " | ".join(part for part in parts if part)


def found_line(packet_ids: list[str]) -> str:
    """`Found 3 relevant packets [a, b, ...]`."""
    noun = "packet" if len(packet_ids) == 1 else "packets"
    shown = [plain(packet_id) for packet_id in packet_ids[:_SHOWN_IDS]] + ["..."] * (len(packet_ids) > _SHOWN_IDS)
    return f"Found {len(packet_ids)} relevant {noun}" + (f" [{', '.join(shown)}]" if shown else "")


def source_lines(result: "ResearchResult", zone: tzinfo) -> str:
    """A line for each source of the answer: id, topic, date."""
    from gaiad.base.citations import as_text

    facts = {citation.packet_id: (citation.topic, citation.timestamp) for citation in result.citations}
    facts |= {source.packet_id: (source.topic, source.timestamp) for source in result.sources}
    lines = []
    for packet_id in result.source_packets:
        topic, timestamp = facts.get(packet_id, ("", ""))
        title = as_text(one_line(topic)) or "untitled"
        lines.append(f'- [Packet: {plain(packet_id)}] "{title}" ({date_of(timestamp, zone)})')
    return "\n".join(lines)


def engine_line(result: "ResearchResult", options: str = "") -> str:
    """What made the answer, how long it took, and where its trail is; `options` reach this memory."""
    trail = f"; gaiad research show {result.research_id}{options}" if result.research_id else ""
    return f"Engine: {result.engine} ({milliseconds(result.took_ms)}){trail}"


def one_line(text: str) -> str:
    return " ".join(plain(text).split())


def _body(result: "ResearchResult", query: str, width: int, options: str) -> str:
    answer = result.answer.strip().replace(_OPEN_ONE, f"{_OPEN_ONE}{options}")
    if not answer and result.status == "NOT_FOUND":
        answer = f'No relevant Transmission Packets found for query: "{one_line(query)}"'
    parts = [answer]
    if result.note and result.note.strip() not in answer:
        parts.append(result.note.strip())
    fresh = [hint for hint in result.suggestions if hint not in answer]
    if fresh:
        parts.append("\n".join(["Suggestions:", *(f"- {hint}" for hint in fresh)]))
    return wrap("\n\n".join(part for part in parts if part), width)


def _confidence(result: "ResearchResult", always: bool) -> list[str]:
    line = f"CONFIDENCE: {result.confidence:.2f} ({result.confidence_band})"
    if result.confidence_band != "HIGH":
        return [line, _WARNING]
    return [line] if always else []


def _quotes(citations: "list[Citation]", width: int) -> str:
    blocks = [
        f"[Packet: {plain(citation.packet_id)}] page {citation.page_id}, characters {citation.start} to "
        f"{citation.end}, sha256 {citation.sha256[:12]}\n{wrap(citation.quote, width, '  > ')}"
        for citation in citations
    ]
    return "QUOTES:\n" + "\n".join(blocks)


_EVENT_IDS = 3
_PARTIAL_INDENT = "  | "


def event_text(name: str, data: dict[str, Any], width: int) -> str:
    """The lines of one event, "" when there is nothing to tell. Pure."""
    match name:
        case "resumed":
            return "Interrupted by the end of the daemon; it goes on where it was"
        case "interrupted":
            return "The daemon is stopping; the run continues at its next start"
        case "searching":
            again = "Searching again" if data["iteration"] > 1 else "Searching"
            how = f" ({one_line(data['refinements'][-1])})" if data["refinements"] else ""
            return f"{again}: {one_line(data['query'])}{how}"
        case "found":
            return _found_text(data)
        case "reflected":
            verdict = "That is enough" if data["sufficient"] else "Not enough yet"
            missing = f"; missing: {one_line(', '.join(data['missing']))}" if data["missing"] else ""
            return f"{verdict}, confidence {data['confidence']:.2f}{missing}"
        case "planned":
            return "" if data.get("by") == "rules" else _planned(data["actions"])
        case "thought":
            return f"{data['step'].capitalize()} by rules: {one_line(data['by_rules'])}" if data["by_rules"] else ""
        case "partial":
            return f"So far, confidence {data['confidence']:.2f}:\n{wrap(data['answer'], width, _PARTIAL_INDENT)}"
        case _:
            return ""


def _planned(actions: list[dict[str, Any]]) -> str:
    """What a model searches for besides the question."""
    what = [one_line(one["query"]) or f"pages {one_line(', '.join(one['pageIds']))}" for one in actions]
    return f"Searching besides: {'; '.join(what)}" if what else ""


def _found_text(data: dict[str, Any]) -> str:
    pages = f"{counted(data['new_pages'], 'new page')}, " if "new_pages" in data else ""
    packets = data["packets"]
    shown = [plain(packet_id) for packet_id in packets[:_EVENT_IDS]] + ["..."] * (len(packets) > _EVENT_IDS)
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

    from gaiad.base.errors import Unavailable
    from gaiad.wire.schemas import ResearchResult

    for event in events:
        if event.event == "result":
            return msgspec.convert(event.data, ResearchResult)
    raise Unavailable(otherwise)


_QUESTION = 60
_DETAIL_INDENT = "    "
_NOT_TOLD = ("kind", "refinements")  # told as the kind; told round by round


def run_row(row: "RunRow") -> tuple[str, ...]:
    """A row of the list."""
    status = row.outcome or row.status
    confidence = f"{row.confidence:.2f}" if row.outcome in ("SUCCESS", "PARTIAL") else ""
    counts = (str(row.sources), str(row.contradictions))
    return row.research_id, _minute(row.started_at), status, confidence, *counts, _cut_query(row.query)


def run_text(found: "ResearchRun", width: int) -> str:
    """The whole story, wrapped to `width` columns."""
    payload, run = found.payload, found.run
    parts = [
        f'{run.research_id}, {_minute(run.started_at)} UTC\nAsked: "{one_line(run.query)}"',
        _understood(found),
        f"Plan: {payload.plan.current_plan}",
        *(_iteration(one) for one in payload.iterations),
        _titled("Sources", [_source(one) for one in payload.sources]),
        _titled(
            "Contradictions", [f"- {one.description} ({one.status}, {one.severity})" for one in payload.contradictions]
        ),
        _titled("In short", [f"- {one}" for one in payload.synthesis.key_takeaways]),
        _ended(found),
        _account(found),
    ]
    return "\n\n".join(wrap(part, width) for part in parts if part)


def _understood(found: "ResearchRun") -> str:
    """How the question was read: its kind, then what was taken from its words. "" when the run came to no end."""
    if found.result is None:
        return ""
    read = {name: value for name, value in found.result.parameters.items() if name not in _NOT_TOLD}
    told = [f"{name.replace('_', ' ')} {_value(value)}" for name, value in read.items()]
    return f"Read as: {'; '.join([f'{found.result.kind} question', *told])}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_value(one) for one in value)
    if not isinstance(value, dict):
        return one_line(str(value))
    low, high = value.get("minimum"), value.get("maximum")
    bounds = [*([f"from {low}"] if low is not None else []), *([f"to {high}"] if high is not None else [])]
    return " ".join([one_line(str(value.get("name", ""))), *bounds])


def _iteration(one: "IterationRecord") -> str:
    lines = [f"Iteration {one.iteration_number}: {one.completeness_assessment.reasoning}"]
    for activity in one.activities_performed:
        outcome = _set_text(activity.error_message) or activity.result_summary
        lines.append(f"{_DETAIL_INDENT}{activity.description}: {outcome}")
    lines += [f"{_DETAIL_INDENT}{lesson.description}" for lesson in one.learnings if lesson.learning_type == "gap"]
    return "\n".join(lines)


def _source(one: "SourceRecord") -> str:
    day = _set_text(one.published_date)
    head = f"{one.source_id} [Packet: {_set_text(one.file_path)}] {one_line(_set_text(one.title))} ({day})"
    return f"{head}: reliability {one.reliability}, relevance {one.relevance_score:.2f}"


def _ended(found: "ResearchRun") -> str:
    run = found.run
    if run.status == "in_progress":
        return f"It is still running: gaiad research follow {run.research_id}"
    if found.result is None:
        return f"It was {run.status}: {found.error}"
    score = found.payload.metadata.completeness_score
    return (
        f"It ended as {run.outcome}, confidence {run.confidence:.2f} ({found.result.confidence_band}), "
        f"completeness {score:.2f}.{_reviewed(run)}"
    )


def _reviewed(run: "RunRow") -> str:
    return f" Reviewed {_minute(run.reviewed_at)} UTC." if run.reviewed_at else ""


def _account(found: "ResearchRun") -> str:
    """What it took; "" for a run of before that was kept."""
    took = found.account
    if not (took.took_ms or took.searches):
        return ""
    calls = counted(took.model_calls, "model call")
    model = f"{calls} ({took.prompt_tokens:,} tokens in, {took.reply_tokens:,} out)" if took.model_calls else calls
    quoted = f"{counted(took.pages_quoted, 'page')} quoted of {counted(took.packets_cited, 'packet')}"
    return (
        f"It took {counted(took.rounds, 'round')}, {took.searches:,} {'search' if took.searches == 1 else 'searches'}, "
        f"{counted(took.pages_found, 'page')} found, {quoted}; {model}; "
        f"an answer of at most {counted(took.answer_tokens, 'token')}; {milliseconds(took.took_ms)}."
    )


def _titled(title: str, lines: list[str]) -> str:
    return "\n".join([f"{title}:", *lines]) if lines else ""


def _set_text(value: str | UnsetType) -> str:
    return "" if value is UNSET or not isinstance(value, str) else value


def _cut_query(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _QUESTION else f"{line[: _QUESTION - 1]}…"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
