"""A research run told as a person would tell it, from the question to what is still open. Pure."""

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from gaiad.cli.output import counted, milliseconds, plain, wrap

if TYPE_CHECKING:
    from gaiad.payload_schemas import IterationRecord, SourceRecord
    from gaiad.run_schemas import ResearchRun, RunRow

_QUESTION = 60
_INDENT = "    "
_NOT_TOLD = ("kind", "expanded", "refinements")  # told as the kind; too long; told round by round


def run_row(row: "RunRow") -> tuple[str, ...]:
    """A row of the list."""
    status = row.outcome or row.status
    confidence = f"{row.confidence:.2f}" if row.outcome in ("SUCCESS", "PARTIAL") else ""
    counts = (str(row.sources), str(row.contradictions))
    return row.research_id, _minute(row.started_at), status, confidence, *counts, _cut(row.query)


def run_text(found: "ResearchRun", width: int) -> str:
    """The whole story, wrapped to `width` columns."""
    payload, run = found.payload, found.run
    parts = [
        f'{run.research_id}, {_minute(run.started_at)} UTC\nAsked: "{_one_line(run.query)}"',
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
        return _one_line(str(value))
    low, high = value.get("minimum"), value.get("maximum")
    bounds = [*([f"from {low}"] if low is not None else []), *([f"to {high}"] if high is not None else [])]
    return " ".join([_one_line(str(value.get("name", ""))), *bounds])


def _iteration(one: "IterationRecord") -> str:
    lines = [f"Iteration {one.iteration_number}: {one.completeness_assessment.reasoning}"]
    for activity in one.activities_performed:
        outcome = _text(activity.error_message) or activity.result_summary
        lines.append(f"{_INDENT}{activity.description}: {outcome}")
    lines += [f"{_INDENT}{lesson.description}" for lesson in one.learnings if lesson.learning_type == "gap"]
    return "\n".join(lines)


def _source(one: "SourceRecord") -> str:
    day = _text(one.published_date)
    head = f"{one.source_id} [Packet: {_text(one.file_path)}] {_one_line(_text(one.title))} ({day})"
    return f"{head}: reliability {one.reliability}, relevance {one.relevance_score:.2f}"


def _ended(found: "ResearchRun") -> str:
    run = found.run
    if run.status == "in_progress":
        return f"It is under way: gaiad research follow {run.research_id}"
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


def _text(value: str | UnsetType) -> str:
    return "" if value is UNSET or not isinstance(value, str) else value


def _one_line(text: str) -> str:
    return " ".join(plain(text).split())


def _cut(text: str) -> str:
    line = _one_line(text)
    return line if len(line) <= _QUESTION else f"{line[: _QUESTION - 1]}…"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
