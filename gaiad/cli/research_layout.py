"""An answer as text: GAM's Integration Point 1 and the user responses of its failure modes 1 to 3. Pure."""

from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from gaiad.cli.output import date_of, milliseconds, plain, wrap

if TYPE_CHECKING:
    from gaiad.schemas import Citation, ResearchResult

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

    Days are those of `zone`; `options` are what a command told of needs to reach this memory.
    """
    answered = result.status in ("SUCCESS", "PARTIAL")
    parts = [
        found_line(result.source_packets),
        *([SYNTHESIZING] if answered else []),
        f"{RULE}\nRESEARCH RESULT",
        _body(result, query, width, options),
        *(_confidence(result, confidence) if answered and "CONFIDENCE:" not in result.answer else []),
        *([_quotes(result.citations, width)] if quotes and result.citations else []),
        *([f"SOURCES:\n{source_lines(result, zone)}"] if result.source_packets else []),
        f"Iterations: {result.iterations_used}/{result.max_iterations} | Status: {result.status}\n{RULE}",
    ]
    return "\n\n".join(part for part in parts if part)


def found_line(packet_ids: list[str]) -> str:
    """`Found 3 relevant packets [a, b, ...]`."""
    noun = "packet" if len(packet_ids) == 1 else "packets"
    shown = [plain(packet_id) for packet_id in packet_ids[:_SHOWN_IDS]] + ["..."] * (len(packet_ids) > _SHOWN_IDS)
    return f"Found {len(packet_ids)} relevant {noun}" + (f" [{', '.join(shown)}]" if shown else "")


def source_lines(result: "ResearchResult", zone: tzinfo) -> str:
    """A line for each packet the answer stands on: id, topic, date."""
    facts = {citation.packet_id: (citation.topic, citation.timestamp) for citation in result.citations}
    facts |= {source.packet_id: (source.topic, source.timestamp) for source in result.sources}
    lines = []
    for packet_id in result.source_packets:
        topic, timestamp = facts.get(packet_id, ("", ""))
        lines.append(f'- [Packet: {plain(packet_id)}] "{one_line(topic) or "untitled"}" ({date_of(timestamp, zone)})')
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
    if result.status == "PARTIAL" and "PARTIAL status" not in f"{answer} {result.note}":
        parts.append(_PARTIAL)
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
