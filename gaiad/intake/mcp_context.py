"""The tools of MCP for Context Memory: agents that work in iterations keep their state here and read it back."""

from typing import Any

import msgspec

from gaiad.intake.mcp_tools import DATA, Asking, Tool, fenced, told
from gaiad.wire.agents import (
    ContextCheckpointArguments,
    ContextFeedbackArguments,
    ContextOutputArguments,
    ContextRecoveryArguments,
    ContextStateArguments,
)
from gaiad.wire.context import AgentOutput, StateQuery
from gaiad.wire.context_reviews import ReviewQuery


def _stored(value: Any, source: str) -> dict[str, Any]:
    """What agents stored, fenced and as structured content."""
    text = msgspec.json.encode(value)
    return {**told(DATA, fenced(text.decode(), source)), "structured": msgspec.json.decode(text)}


def _same(given: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(given, name) for name in given.__struct_fields__}


async def _state(asking: Asking, given: ContextStateArguments) -> dict[str, Any]:
    query = StateQuery(tenant=asking.call.tenant, **_same(given))
    return _stored(await asking.exchange.service.context.state(query, asking.call), "state from Context Memory")


async def _feedback(asking: Asking, given: ContextFeedbackArguments) -> dict[str, Any]:
    query = ReviewQuery(tenant=asking.call.tenant, **_same(given))
    return _stored(await asking.exchange.service.context.feedback(query, asking.call), "reviews from Context Memory")


async def _recovery(asking: Asking, given: ContextRecoveryArguments) -> dict[str, Any]:
    found = await asking.exchange.service.context.store.recovery(given.checkpoint_id, asking.call)
    return _stored(found, "checkpoint from Context Memory")


async def _output(asking: Asking, given: ContextOutputArguments) -> dict[str, Any]:
    kept = await asking.exchange.service.context.add(AgentOutput(**_same(given)), asking.call)
    again = " before" if kept.duplicate else ""
    words = f"Stored{again} as {kept.id} in iteration {kept.iteration}."
    return {**told(words), "structured": msgspec.to_builtins(kept)}


async def _checkpoint(asking: Asking, given: ContextCheckpointArguments) -> dict[str, Any]:
    made = await asking.exchange.service.context.checkpoint(given.reason, asking.call)
    return {**told(f"Made checkpoint {made.checkpoint_id}."), "structured": msgspec.to_builtins(made)}


CONTEXT_TOOLS = {
    "context_state": Tool(
        ContextStateArguments,
        _state,
        "For agents that work in iterations: the state they stored, as a summary, in full, or only some sections.",
    ),
    "context_feedback": Tool(
        ContextFeedbackArguments,
        _feedback,
        "For agents that work in iterations: what the review of an iteration says to an agent, and recurring patterns.",
    ),
    "context_recovery": Tool(
        ContextRecoveryArguments,
        _recovery,
        "For agents that work in iterations: the newest whole checkpoint, with the tasks that were under way.",
    ),
    "context_output": Tool(
        ContextOutputArguments,
        _output,
        "For agents that work in iterations: store what an agent produced for a task. The same again is stored once.",
        writes=True,
    ),
    "context_checkpoint": Tool(
        ContextCheckpointArguments,
        _checkpoint,
        "For agents that work in iterations: make a verified recovery point of all states as they are now.",
        writes=True,
    ),
}
