"""Records of Context Memory as a supervisor, agents and a meta-review agent send them."""

from typing import Any

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.config import load_config
from gaiad.base.events import EventHub
from gaiad.base.metrics import Metrics
from gaiad.context.store import ContextStore
from gaiad.context.upkeep import ContextUpkeep
from gaiad.service.context import ContextService
from gaiad.service.jobs import JobRunner
from gaiad.store.home_databases import HomeDatabases
from gaiad.store.jobs import Jobs
from gaiad.wire.context import AgentOutput, MetaReviewStorage, StateUpdate


def state_body(at: str = "2025-12-01T10:00:00Z", focus: str = "ice cores", **fields: Any) -> dict[str, Any]:
    return {
        "timestamp": at,
        "update_type": "periodic",
        "system_statistics": {
            "total_hypotheses": 3,
            "hypotheses_by_state": {"proposed": 2, "reviewed": 1},
            "pending_reviews": 1,
            "tournament_progress": 0.25,
            "agent_effectiveness": {"generation": {"rate": 0.5}},
        },
        "orchestration_state": {
            "agent_weights": {"generation": 0.7},
            "resource_allocation": {"generation": {"tokens": 1000}},
            "queue_statistics": {"waiting": 2},
            "strategic_focus": focus,
        },
        "checkpoint_data": {"in_flight_tasks": [], "recovery_metadata": {}},
        **fields,
    }


def output_body(
    task: str = "task-1", agent: str = "generation", at: str = "2025-12-01T10:01:00Z", **fields: Any
) -> dict[str, Any]:
    """`primary`, `metadata`, `confidence`, `own` (its internal state) and `token` may be given."""
    return {
        "agent_type": agent,
        "task_id": task,
        "timestamp": at,
        "results": {
            "primary_output": fields.get("primary", {"text": f"what {task} found"}),
            "metadata": fields.get("metadata", {}),
            "confidence_score": fields.get("confidence", 0.5),
            "resource_consumed": 2.0,
        },
        "state_data": {"internal_state": fields.get("own"), "continuation_token": fields.get("token")},
    }


def review_body(iteration: int = 1, at: str = "2025-12-01T11:00:00Z", **fields: Any) -> dict[str, Any]:
    """`patterns`, `advice` and `improvements` may be given."""
    return {
        "iteration_number": iteration,
        "timestamp": at,
        "critique": {
            "common_patterns": fields.get("patterns", ["thin evidence"]),
            "agent_feedback": fields.get("advice", {"generation": "name the source"}),
            "iteration_improvements": fields.get("improvements", {"all": ["be brief"]}),
        },
        "research_overview": {
            "synthesis": f"iteration {iteration} in short",
            "research_areas": ["glaciers"],
            "next_priorities": ["date the cores"],
        },
    }


def state(*given: Any, **fields: Any) -> StateUpdate:
    return msgspec.convert(state_body(*given, **fields), StateUpdate)


def output(*given: Any, **fields: Any) -> AgentOutput:
    return msgspec.convert(output_body(*given, **fields), AgentOutput)


def review(*given: Any, **fields: Any) -> MetaReviewStorage:
    return msgspec.convert(review_body(*given, **fields), MetaReviewStorage)


async def change_body(databases: HomeDatabases, sha256: str) -> None:
    """Damage the row that holds a body, or the body that it is a part of."""
    query = (
        "UPDATE context_bodies SET body = x'7b7d'"
        " WHERE sha256 = (SELECT coalesce(whole, sha256) FROM context_bodies WHERE sha256 = ?)"
    )
    await databases.write("local", lambda c: c.execute(query, (sha256,)).rowcount)


def make_service(store: ContextStore, databases: HomeDatabases, clock: Clock, *settings: str) -> ContextService:
    runner = JobRunner(Jobs(databases, clock), clock, EventHub(clock))
    config, upkeep = load_config((), {}, settings), ContextUpkeep(databases, clock)
    return ContextService(store, upkeep, Metrics(), runner, databases.tenants, config)
