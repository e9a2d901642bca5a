"""What a run took, from its trail: rounds, searches, pages, packets, model calls, tokens and time. Pure."""

from gaiad.research.trail import Trail
from gaiad.research.within import tokens_of
from gaiad.run_schemas import RunAccount


def account_of(trail: Trail) -> RunAccount:
    """The account of a run at its end."""
    result = trail.result
    citations = result.citations if result else []
    seconds = (trail.ended_at - trail.started_at).total_seconds()
    return RunAccount(
        rounds=len(trail.rounds),
        searches=len(trail.searches),
        pages_found=len(trail.evidence),
        pages_quoted=len({citation.page_id for citation in citations}),
        packets_cited=len({citation.packet_id for citation in citations}),
        model_calls=trail.spent.calls,
        prompt_tokens=trail.spent.prompt_tokens,
        reply_tokens=trail.spent.reply_tokens,
        answer_tokens=tokens_of(result.answer) if result else 0,
        took_ms=result.took_ms if result else round(max(0.0, seconds) * 1000, 3),
    )
