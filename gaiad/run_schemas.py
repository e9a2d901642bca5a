"""Research runs that were kept, on the wire: one line, the whole with its payload and what it took, a source's text."""

from gaiad.payload_schemas import PayloadStatus, ResearchAgentPayload, wire_name
from gaiad.schemas import Output, ResearchResult, Tenant


class RunRow(Output, frozen=True):
    """One line about a kept run. `outcome` is the answer's status, "" when the run failed or was cancelled.

    `reviewed_at` says when somebody ticked it off (`gaiad research review --done`), "" when nobody did.
    """

    research_id: str
    tenant: Tenant
    query: str
    started_at: str
    status: PayloadStatus
    outcome: str
    confidence: float
    sources: int
    contradictions: int
    iterations: int
    reviewed_at: str = ""


class RunAccount(Output, frozen=True):
    """What a run took. Pages are different ones; tokens of calls are as the model counts them, 0 without a model.

    `answer_tokens` is a cautious estimate of what the answer takes of whoever reads it on.
    """

    rounds: int = 0
    searches: int = 0
    pages_found: int = 0
    pages_quoted: int = 0
    packets_cited: int = 0
    model_calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    answer_tokens: int = 0
    took_ms: float = 0.0


class ResearchRun(Output, frozen=True):
    """A kept run whole. `result` is None, and `error` says why, when it came to no answer.

    Of a run under way (`in_progress`) neither is there yet.
    """

    run: RunRow
    result: ResearchResult | None
    error: str
    payload: ResearchAgentPayload
    account: RunAccount = RunAccount()


class SourceText(Output, frozen=True, rename=wire_name):
    """The whole text of a source, fetched by its id. `changed` says that the packet was revised since the run."""

    source_id: str
    packet_id: str
    content: str
    content_length: int
    changed: bool
