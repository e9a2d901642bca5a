"""States, outputs and reviews as rows, and the versions of what has a state: the system, and each agent.

A record is described before anything is written (`describe`, pure), then stored in one transaction with its body, the
version it makes and the aggregates it counts in. The iteration is that after the newest review.
"""

import sqlite3
from typing import Any, NamedTuple

import msgspec

from gaiad.base.clock import iso_of_ms, moment_of, to_epoch_ms
from gaiad.base.errors import BadInput, Conflict, NotFound
from gaiad.context.bodies import Body, body_of, insert_body, insert_part
from gaiad.wire.context import (
    Acknowledgement,
    AgentOutput,
    ContextRecord,
    MetaReviewStorage,
    RecordKind,
    RecordRow,
    StateUpdate,
    StateVersion,
)

SYSTEM = "system"
_AGENT = "agent:"
_SUMMARY_CHARS = 400
ROW = "id, kind, iteration, at_ms, agent, task_id, sha256, summary"


class Described(NamedTuple):
    """A record ready to be stored. `state` is the body that becomes the current version of `component`, if any."""

    kind: RecordKind
    at_ms: int
    body: Body
    summary: str
    agent: str = ""
    task_id: str = ""
    iteration: int = 0
    component: str = ""
    state: Body | None = None


def agent_component(agent_type: str) -> str:
    """The component under which an agent's own state has versions."""
    return f"{_AGENT}{agent_type}"


def agent_of(component: str) -> str:
    """The agent of a component; "" for the system."""
    return component.removeprefix(_AGENT) if component.startswith(_AGENT) else ""


def describe(record: ContextRecord) -> Described:
    """What is stored of a record. Raises BadInput for a time that cannot be read, a body too large, a task unnamed."""
    at_ms, body = epoch_ms(record.timestamp, "timestamp"), body_of(record)
    match record:
        case StateUpdate():
            task_ids(record.checkpoint_data.in_flight_tasks)
            return Described("state", at_ms, body, _state_summary(record), component=SYSTEM, state=body)
        case AgentOutput():
            own = record.state_data.internal_state
            return Described(
                "output",
                at_ms,
                body,
                _output_summary(record),
                agent=record.agent_type,
                task_id=record.task_id,
                component="" if own is None else agent_component(record.agent_type),
                state=None if own is None else body_of(own),
            )
        case MetaReviewStorage():
            summary = cut(record.research_overview.synthesis)
            return Described("review", at_ms, body, summary, iteration=record.iteration_number)


def epoch_ms(timestamp: str, name: str) -> int:
    """A time of a record in milliseconds. Raises BadInput naming the field."""
    try:
        return to_epoch_ms(moment_of(timestamp))
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{name} = {timestamp!r}: write ISO 8601, for example 2025-11-30T15:45:00Z") from error


def task_ids(tasks: list[dict[str, Any]]) -> list[str]:
    """The ids of tasks in flight. Raises BadInput for a task without one."""
    found = []
    for number, task in enumerate(tasks):
        if not isinstance(name := task.get("task_id"), str) or not name:
            raise BadInput(f"checkpoint_data.in_flight_tasks[{number}]: a task needs a task_id, a string")
        found.append(name)
    return found


def insert_record(
    connection: sqlite3.Connection, new: Described, record_id: str, now_ms: int
) -> tuple[int, Acknowledgement]:
    """Store a record; its row number (0 for one that was stored before) and the acknowledgement."""
    query = "SELECT number, id, iteration FROM context_records WHERE kind = ? AND sha256 = ?"
    if known := connection.execute(query, (new.kind, new.body.sha256)).fetchone():
        number, record_id, iteration = known
        return 0, _acknowledged(
            new, record_id, iteration, version_of(connection, new.component, number), duplicate=True
        )
    iteration = new.iteration or current_iteration(connection)
    insert_body(connection, new.body)
    if new.state is not None and new.state != new.body:
        insert_part(connection, new.state, new.body)
    values = (record_id, new.kind, iteration, new.at_ms, now_ms, new.agent, new.task_id, new.body.sha256, new.summary)
    number = connection.execute(
        "INSERT INTO context_records (id, kind, iteration, at_ms, stored_ms, agent, task_id, sha256, summary)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    ).lastrowid
    assert number is not None
    version = 0
    if new.state is not None:
        version = add_version(connection, new.component, new.at_ms, number, new.state.sha256)
    return number, _acknowledged(new, record_id, iteration, version)


def _acknowledged(
    new: Described, record_id: str, iteration: int, version: int, *, duplicate: bool = False
) -> Acknowledgement:
    return Acknowledgement(
        id=record_id,
        kind=new.kind,
        sha256=new.body.sha256,
        bytes=len(new.body.content),
        place=new.body.place,
        iteration=iteration,
        version=version,
        duplicate=duplicate,
    )


def current_iteration(connection: sqlite3.Connection) -> int:
    """The iteration that records without one belong to: the one after the newest review's."""
    query = "SELECT coalesce(max(iteration), 0) + 1 FROM context_records WHERE kind = 'review'"
    return int(connection.execute(query).fetchone()[0])


# ----------------------------------------------------------------------------------------------------------- versions


def add_version(
    connection: sqlite3.Connection, component: str, at_ms: int, record: int, sha256: str, restored_from: int = 0
) -> int:
    """Make a body the current state of a component; its version."""
    (version,) = connection.execute(
        "INSERT INTO context_components VALUES (?, 1)"
        " ON CONFLICT (component) DO UPDATE SET version = version + 1 RETURNING version",
        (component,),
    ).fetchone()
    connection.execute(
        "INSERT INTO context_versions VALUES (?, ?, ?, ?, ?, ?)",
        (component, version, at_ms, record, sha256, restored_from),
    )
    return int(version)


def version_of(connection: sqlite3.Connection, component: str, record: int) -> int:
    """The first version that a record made; 0 for none."""
    query = "SELECT coalesce(min(version), 0) FROM context_versions WHERE component = ? AND record = ?"
    return int(connection.execute(query, (component, record)).fetchone()[0])


def roll_back(connection: sqlite3.Connection, component: str, version: int, now_ms: int) -> StateVersion:
    """Make an earlier version the current one, as a new version. Raises NotFound, Conflict for the current one."""
    row = connection.execute(
        "SELECT record, sha256 FROM context_versions WHERE component = ? AND version = ?", (component, version)
    ).fetchone()
    if row is None:
        raise NotFound(f"{component} has no version {version}; `gaiad context versions` lists them")
    newest = connection.execute("SELECT version FROM context_components WHERE component = ?", (component,)).fetchone()
    if newest == (version,):
        raise Conflict(f"version {version} of {component} is the current one already")
    record, sha256 = row
    made = add_version(connection, component, now_ms, record, sha256, restored_from=version)
    return versions(connection, component, 1, made + 1)[0]


def versions(connection: sqlite3.Connection, component: str, limit: int, before: int = 1 << 53) -> list[StateVersion]:
    """The last `limit` versions of a component below `before`, newest first."""
    found = connection.execute(
        "SELECT component, version, v.at_ms, v.sha256, r.id, restored_from FROM context_versions AS v"
        " JOIN context_records AS r ON r.number = v.record WHERE component = ? AND version < ?"
        " ORDER BY version DESC LIMIT ?",
        (component, before, limit),
    )
    return [StateVersion(component=c, version=v, timestamp=iso_of_ms(at), sha256=s, record_id=r, restored_from=f)
            for c, v, at, s, r, f in found]  # fmt: skip


def components(connection: sqlite3.Connection) -> list[str]:
    """What has versions, by name."""
    return [name for (name,) in connection.execute("SELECT component FROM context_components ORDER BY component")]


# --------------------------------------------------------------------------------------------------------------- rows


def row_of(values: tuple[Any, ...], size: int) -> RecordRow:
    """`ROW` of a record as a struct."""
    record_id, kind, iteration, at_ms, agent, task_id, sha256, summary = values
    return RecordRow(
        id=record_id,
        kind=kind,
        iteration=iteration,
        timestamp=iso_of_ms(at_ms),
        agent_type=agent,
        task_id=task_id,
        sha256=sha256,
        bytes=size,
        summary=summary,
    )


def cut(text: str) -> str:
    """The first characters of a text, on one line."""
    return " ".join(text[: 2 * _SUMMARY_CHARS].split())[:_SUMMARY_CHARS]


def _state_summary(update: StateUpdate) -> str:
    """What a state is about, in words: what similar states are found by."""
    numbers, plan = update.system_statistics, update.orchestration_state
    by_state = ", ".join(f"{count} {name}" for name, count in sorted(numbers.hypotheses_by_state.items()))
    weights = ", ".join(f"{name} {weight:g}" for name, weight in sorted(plan.agent_weights.items()))
    return cut(
        f"{plan.strategic_focus}. {numbers.total_hypotheses} hypotheses ({by_state}); {numbers.pending_reviews} reviews"
        f" pending; tournament {numbers.tournament_progress:.0%}; weights {weights}"
    )


def _output_summary(output: AgentOutput) -> str:
    """The first words of an output."""
    content = output.results.primary_output
    if not isinstance(content, str):
        content = msgspec.json.encode(content, order="sorted")[: 4 * _SUMMARY_CHARS].decode("utf-8", "replace")
    return cut(content)


def texts_in(value: Any) -> list[str]:
    """Every string in a JSON value, in order."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inner for text in texts_in(one)]
