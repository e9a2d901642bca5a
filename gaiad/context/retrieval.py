"""What an agent gets back (CONTEXT, Outputs): the state, full, in part or summed up, and the feedback of reviews.

Sections are read in the order of their cost. When time is up, the rest is named as missing; a body that is damaged is
named, and the others are read on.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gaiad.base.clock import iso_of_ms
from gaiad.base.errors import BadInput, NotFound
from gaiad.context.advice import effects
from gaiad.context.aggregates import effectiveness
from gaiad.context.bodies import DamagedBody, Folders, read_json
from gaiad.context.hypotheses import definition
from gaiad.context.records import ROW, SYSTEM, agent_component, agent_of, components, epoch_ms, row_of, texts_in
from gaiad.wire.context import (
    SECTIONS,
    MetaReviewStorage,
    RecordKind,
    RecordQuery,
    RecordRow,
    RetrievedState,
    StateContent,
    StateQuery,
    StoredRecord,
)
from gaiad.wire.context_reviews import FeedbackContent, FeedbackData, ReviewQuery


def where_of(query: RecordQuery | StateQuery) -> tuple[str, list[object]]:
    """The conditions of a query on `context_records`, beginning with AND, and their values. Raises BadInput."""
    parts: list[tuple[str, object]] = []
    if query.since:
        parts.append(("at_ms >= ?", epoch_ms(query.since, "since")))
    if query.until:
        parts.append(("at_ms < ?", epoch_ms(query.until, "until")))
    if query.first_iteration:
        parts.append(("iteration >= ?", query.first_iteration))
    if query.last_iteration:
        parts.append(("iteration <= ?", query.last_iteration))
    return "".join(f" AND {condition}" for condition, _ in parts), [value for _, value in parts]


def find_records(connection: sqlite3.Connection, kind: RecordKind, query: RecordQuery) -> list[RecordRow]:
    """Those that fit, the newest by their own time first. Raises BadInput."""
    conditions, values = where_of(query)
    for column, wanted in (("agent", query.agent_type), ("task_id", query.task_id)):
        if wanted:
            conditions, values = f"{conditions} AND {column} = ?", [*values, wanted]
    source = "context_records AS r"
    if query.hypothesis_id:  # CROSS JOIN: from its mentions, which are few, to the records
        source = "context_mentions AS m CROSS JOIN context_records AS r ON r.number = m.record"
        conditions, values = f"{conditions} AND m.hypothesis = ?", [*values, query.hypothesis_id]
    found = connection.execute(
        f"SELECT {ROW}, (SELECT size FROM context_bodies AS b WHERE b.sha256 = r.sha256) FROM {source}"
        f" WHERE kind = ?{conditions} ORDER BY at_ms DESC, number DESC LIMIT ?",
        (kind, *values, query.limit),
    )
    return [row_of(row[:-1], row[-1]) for row in found]


def read_record(connection: sqlite3.Connection, folders: Folders, record_id: str) -> StoredRecord:
    """One record whole. Raises NotFound, DamagedBody."""
    row = connection.execute(
        f"SELECT {ROW}, (SELECT size FROM context_bodies AS b WHERE b.sha256 = r.sha256) FROM context_records AS r"
        " WHERE id = ?",
        (record_id,),
    ).fetchone()
    if row is None:
        raise NotFound(f"no record is called {record_id!r}; `gaiad context outputs` and `reviews` list the newest")
    found = row_of(row[:-1], row[-1])
    return StoredRecord(row=found, record=read_json(connection, folders, found.sha256))


_REVIEWS, _HYPOTHESES, _ADVICE = 50, 500, 20
IN_PART = ("system_state", "agent_states")
"""What a partial state has, unless other sections are asked for."""
_TOURNAMENT = "ranking"
"""The agent that runs the tournament in the seed's system."""


class StateReader:
    """One retrieval over one snapshot. `expired` says that the time for it is up."""

    def __init__(
        self, connection: sqlite3.Connection, folders: Folders, query: StateQuery, expired: Callable[[], bool]
    ) -> None:
        """Raises BadInput for times that cannot be read and unknown sections."""
        self._connection = connection
        self._folders = folders
        self._query = query
        self._expired = expired
        self._as_of = epoch_ms(query.as_of, "as_of") if query.as_of else None
        self._where, self._values = where_of(query)
        if self._as_of is not None:
            self._where, self._values = f"{self._where} AND at_ms <= ?", [*self._values, self._as_of]
        self._sections = self._asked()
        self._missing: list[str] = []
        self._damaged: list[str] = []

    def read(self) -> RetrievedState:
        """The answer, whole or as far as time allowed."""
        content: dict[str, Any] = {}
        for section in sorted(self._sections, key=_COST.index):
            if self._expired():
                self._missing.append(section)
            else:
                content[section] = getattr(self, f"_{section}")()
        return RetrievedState(
            request_type=self._query.request_type,
            timestamp_range=self._range(),
            content=StateContent(**content),
            complete=not self._missing and not self._damaged,
            missing=self._missing,
            damaged=self._damaged,
        )

    def _asked(self) -> Iterable[str]:
        if self._query.request_type != "partial":
            if self._query.component:
                raise BadInput("component: only with request_type=partial")
            return SECTIONS
        if not self._query.component:
            return IN_PART
        wanted = [name.strip() for name in self._query.component.split(",")]
        if unknown := [name for name in wanted if name not in SECTIONS]:
            raise BadInput(f"component = {unknown[0]!r}: sections are {', '.join(SECTIONS)}")
        return dict.fromkeys(wanted)

    def _range(self) -> tuple[str, str]:
        found = self._connection.execute(
            "SELECT min(first_ms), max(last_ms) FROM context_iterations WHERE (?1 = 0 OR iteration >= ?1)"
            " AND (?2 = 0 OR iteration <= ?2)",
            (self._query.first_iteration, self._query.last_iteration),
        ).fetchone()
        first, last = (
            ("" if found[0] is None else iso_of_ms(found[0])),
            ("" if found[1] is None else iso_of_ms(found[1])),
        )
        return self._query.since or first, self._query.as_of or self._query.until or last

    # ------------------------------------------------------------------------------------------------------ sections

    def _system_state(self) -> dict[str, Any]:
        """The StateUpdate in force; of a summary without what a checkpoint holds."""
        state = self._state()
        if self._query.request_type == "summary":
            state.pop("checkpoint_data", None)
        return state

    def _state(self) -> dict[str, Any]:
        sha256 = self._version(SYSTEM)
        return self._json(sha256, "system_state") if sha256 else {}

    def _tournament_results(self) -> dict[str, Any]:
        """How far the tournament is, and the newest output of the agent that runs it."""
        state = self._state()
        if not state:
            return {}
        progress = state["system_statistics"]["tournament_progress"]
        if self._query.request_type == "summary":
            return {"tournament_progress": progress}
        row = self._connection.execute(
            f"SELECT sha256 FROM context_records WHERE kind = 'output' AND agent = ?{self._where}"
            " ORDER BY at_ms DESC LIMIT 1",
            (_TOURNAMENT, *self._values),
        ).fetchone()
        newest = self._json(row[0], "tournament_results") if row else {}
        return {"tournament_progress": progress, "newest_output": newest.get("results", {})}

    def _agent_states(self) -> dict[str, Any]:
        """What each agent keeps of itself; in a summary how its outputs do."""
        if self._query.request_type == "summary":
            return self._summed_up()
        found: dict[str, Any] = {}
        wanted = [agent_component(self._query.agent_type)] if self._query.agent_type else components(self._connection)
        for component in wanted:
            if component == SYSTEM or not (sha256 := self._version(component)):
                continue
            if self._expired():
                self._missing.append("agent_states")
                break
            found[agent_of(component)] = self._json(sha256, f"agent_states.{agent_of(component)}")
        return found

    def _summed_up(self) -> dict[str, Any]:
        last = self._query.last_iteration or 1 << 53
        found: dict[str, Any] = {}
        for one in effectiveness(self._connection, self._query.first_iteration, last, self._query.agent_type):
            found.setdefault(one.agent_type, []).append(
                {"strategy": one.strategy, "outputs": one.outputs, "mean_confidence": round(one.mean_confidence, 6)}
            )
        return found

    def _feedback_history(self) -> list[dict[str, Any]]:
        """The newest reviews first; in a summary the synthesis of the newest."""
        most = 1 if self._query.request_type == "summary" else _REVIEWS
        rows = self._connection.execute(
            f"SELECT sha256 FROM context_records WHERE kind = 'review'{self._where} ORDER BY number DESC LIMIT ?",
            (*self._values, most + 1),
        ).fetchall()
        found: list[dict[str, Any]] = []
        for (sha256,) in rows[:most]:
            if self._expired():
                self._missing.append("feedback_history")
                return found
            if review := self._json(sha256, "feedback_history"):
                found.append(review)
        if self._query.request_type == "summary":
            overview = [one["research_overview"]["synthesis"] for one in found]
            return [
                {"iteration_number": one["iteration_number"], "synthesis": s}
                for one, s in zip(found, overview, strict=True)
            ]
        if len(rows) > most:
            self._missing.append("feedback_history")
        return found

    def _hypothesis_data(self) -> list[dict[str, Any]]:
        """Those last named in the time and iterations asked for, with their text where an output defines them."""
        if self._query.request_type == "summary":
            return []
        rows = self._hypotheses()
        found: list[dict[str, Any]] = []
        for name, first_ms, last_ms, mentions, defined_by in rows[:_HYPOTHESES]:
            if self._expired():
                self._missing.append("hypothesis_data")
                return found
            own = {"hypothesis_id": name, "first_at": iso_of_ms(first_ms), "last_at": iso_of_ms(last_ms)}
            found.append({**self._definition(name, defined_by), **own, "mentions": mentions})
        if len(rows) > _HYPOTHESES:
            self._missing.append("hypothesis_data")
        return found

    def _hypotheses(self) -> list[tuple[str, int, int, int, int]]:
        columns = "hypothesis, first_ms, last_ms, mentions, defined_by"
        if self._query.hypothesis_id:
            where = f"SELECT {columns} FROM context_hypotheses WHERE hypothesis = ?"
            return self._connection.execute(where, (self._query.hypothesis_id,)).fetchall()
        if not self._where and not self._query.agent_type:
            newest = f"SELECT {columns} FROM context_hypotheses ORDER BY last_ms DESC LIMIT ?"
            return self._connection.execute(newest, (_HYPOTHESES + 1,)).fetchall()
        agent = " AND agent = ?" if self._query.agent_type else ""
        values = [*self._values, *([self._query.agent_type] if agent else []), _HYPOTHESES + 1]
        named = (
            f"SELECT {columns} FROM context_hypotheses WHERE hypothesis IN (SELECT hypothesis FROM context_mentions"
            f" JOIN context_records ON number = record WHERE kind = 'output'{self._where}{agent})"
            " ORDER BY last_ms DESC LIMIT ?"
        )
        return self._connection.execute(named, values).fetchall()

    def _definition(self, name: str, defined_by: int) -> dict[str, Any]:
        if not defined_by:
            return {}
        row = self._connection.execute("SELECT sha256 FROM context_records WHERE number = ?", (defined_by,)).fetchone()
        output = self._json(row[0], f"hypothesis_data.{name}") if row else {}
        return definition(output.get("results"), name) or {}

    # ------------------------------------------------------------------------------------------------------- reading

    def _version(self, component: str) -> str:
        """The body of the newest version that fits the time and iterations asked for; "" for none."""
        row = self._connection.execute(
            "SELECT v.sha256 FROM context_versions AS v JOIN context_records AS r ON r.number = v.record"
            " WHERE component = ?1 AND v.at_ms >= ?2 AND v.at_ms <= ?3 AND r.iteration BETWEEN ?4 AND ?5"
            " ORDER BY version DESC LIMIT 1",
            (component, *self._moments(), self._query.first_iteration, self._query.last_iteration or _OPEN),
        ).fetchone()
        return str(row[0]) if row else ""

    def _moments(self) -> tuple[int, int]:
        since = epoch_ms(self._query.since, "since") if self._query.since else -_OPEN
        until = epoch_ms(self._query.until, "until") - 1 if self._query.until else _OPEN
        return since, until if self._as_of is None else min(until, self._as_of)

    def _json(self, sha256: str, what: str) -> dict[str, Any]:
        try:
            return read_json(self._connection, self._folders, sha256)
        except DamagedBody as error:
            self._damaged.append(f"{what}: {error.message}")
            return {}


_COST = ("system_state", "tournament_results", "agent_states", "feedback_history", "hypothesis_data")
_OPEN = 1 << 53


# ----------------------------------------------------------------------------------------------------------- feedback


def feedback(connection: sqlite3.Connection, folders: Folders, query: ReviewQuery) -> FeedbackData:
    """Of the newest review, or of the newest of an iteration; empty when there is none yet.

    Raises NotFound for an iteration without a review, DamagedBody.
    """
    latest = query.iteration == "latest"
    row = connection.execute(
        "SELECT id, iteration, sha256, (SELECT reviews FROM context_iterations AS i WHERE i.iteration = r.iteration)"
        " FROM context_records AS r WHERE kind = 'review' AND (?1 OR iteration = ?2)"
        " ORDER BY iteration DESC, number DESC LIMIT 1",
        (latest, 0 if latest else query.iteration),
    ).fetchone()
    if row is None and not latest:
        raise NotFound(f"iteration {query.iteration} has no review; `gaiad context reviews` lists them")
    review_id, iteration, sha256, revision = row or ("", 0, "", 0)
    review = msgspec.convert(read_json(connection, folders, sha256), MetaReviewStorage) if row else None
    return FeedbackData(
        iteration_requested=query.iteration,
        agent_type=query.agent_type,
        feedback_content=content_of(review, query.agent_type) if review else FeedbackContent(),
        iteration=iteration,
        revision=revision,
        review_id=review_id,
        advice=effects(connection, query.agent_type, _ADVICE),
    )


def content_of(review: MetaReviewStorage, agent: str = "") -> FeedbackContent:
    """A review as feedback; for one agent only what is for all, and for it."""
    critique = review.critique
    named = {name: texts_in(given) for name, given in critique.agent_feedback.items() if agent in ("", name)}
    return FeedbackContent(
        general_recommendations=texts_in(critique.iteration_improvements),
        agent_specific=named,
        priority_improvements=review.research_overview.next_priorities,
        success_patterns=[one for one in critique.common_patterns if _succeeds(one)],
    )


def _succeeds(pattern: str | dict[str, Any]) -> bool:
    return not isinstance(pattern, dict) or pattern.get("type", "success") == "success"
