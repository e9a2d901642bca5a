"""What agents ask over MCP: the arguments of each tool and prompt, and how one is handed to the daemon."""

from typing import Annotated, Any, Literal

import msgspec

from gaiad.wire.context import SECTIONS, AgentOutput, Iteration, RequestType, Text, Time
from gaiad.wire.schemas import DEFAULT_TENANT, Input, Tenant

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=50)]
_Tokens = Annotated[int, msgspec.Meta(ge=50, le=100_000)]


class SearchArguments(Input, frozen=True):
    query: Annotated[_Text, msgspec.Meta(description="Words, a name, a date or a period to look for.")]
    limit: Annotated[_Limit, msgspec.Meta(description="How many records at most.")] = 10


class FetchArguments(Input, frozen=True):
    id: Annotated[_Id, msgspec.Meta(description="The id of a result of search or recent, or of a citation.")]
    max_tokens: Annotated[_Tokens, msgspec.Meta(description="The text is cut at about so many tokens.")] = 8000


class AskArguments(Input, frozen=True):
    question: Annotated[_Text, msgspec.Meta(description="A whole question in the user's words.")]
    max_tokens: Annotated[_Tokens, msgspec.Meta(description="The answer is cut at about so many tokens.")] = 2000


class BriefingArguments(Input, frozen=True):
    request: Annotated[_Text, msgspec.Meta(description="The task that needs background.")]
    session_id: Annotated[str, msgspec.Meta(description="The session whose records are preferred, if any.")] = ""
    max_tokens: Annotated[_Tokens, msgspec.Meta(description="All of the briefing is at most so many tokens.")] = 2000


class RememberedTurn(Input, frozen=True):
    role: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    content: _Text


class RememberArguments(Input, frozen=True):
    turns: Annotated[
        Annotated[list[RememberedTurn], msgspec.Meta(min_length=1, max_length=1000)],
        msgspec.Meta(description="What was said, in order; a note is one turn of role user."),
    ]
    title: Annotated[Annotated[str, msgspec.Meta(max_length=200)], msgspec.Meta(description="What it is about.")] = ""
    session_id: Annotated[
        Annotated[str, msgspec.Meta(max_length=100)], msgspec.Meta(description="The session it continues, if any.")
    ] = ""


class RecentArguments(Input, frozen=True):
    limit: Annotated[_Limit, msgspec.Meta(description="How many records at most.")] = 10


class ContextStateArguments(Input, frozen=True):
    request_type: Annotated[RequestType, msgspec.Meta(description="partial needs component.")] = "summary"
    component: Annotated[Text, msgspec.Meta(description=f"Sections, commas between them: {', '.join(SECTIONS)}.")] = ""
    agent_type: Annotated[Text, msgspec.Meta(description="Only of this agent.")] = ""
    as_of: Annotated[Time, msgspec.Meta(description="As it was known then: ISO 8601.")] = ""


class ContextFeedbackArguments(Input, frozen=True):
    iteration: Annotated[
        Iteration | Literal["latest"], msgspec.Meta(description="The number of an iteration, or latest.")
    ] = "latest"
    agent_type: Annotated[Text, msgspec.Meta(description="Only what concerns this agent.")] = ""


class ContextRecoveryArguments(Input, frozen=True):
    checkpoint_id: Annotated[Text, msgspec.Meta(description="A checkpoint; without it the newest.")] = ""


class ContextOutputArguments(AgentOutput, frozen=True):
    """The seed's AgentOutput."""


class ContextCheckpointArguments(Input, frozen=True):
    reason: Annotated[Text, msgspec.Meta(description="A line for people.")] = "on request"


class ContinueArguments(Input, frozen=True):
    session_id: Annotated[str, msgspec.Meta(description="A session; without it the one spoken in last.")] = ""


class DecidedArguments(Input, frozen=True):
    topic: Annotated[_Text, msgspec.Meta(description="What the decision was about.")]


class AgentCall(Input, frozen=True):
    """One request of an agent, as `gaiad mcp` hands it to the daemon. `write` offers the tools that store."""

    kind: Literal["tools", "tool", "resources", "resource", "prompt"]
    name: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    write: bool = False
    tenant: Tenant = DEFAULT_TENANT
