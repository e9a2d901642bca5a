"""Act by a model without weights: it says what the research found, with its verified citations (decision 4)."""

from gaiad.generation import Generated
from gaiad.research.responses import without_sources
from gaiad.turn.gathering import Gathered
from gaiad.turn.stage_call import StageCall

ONLY_QUOTES = (
    "No chat model is set up, so I can only quote your packets, and nothing in them answers this. Ask about something "
    "that was said before, or give the role a model (roles.prime)."
)
_STANDS_IN = (
    "The role {role} gave no answer, and without it I can only quote your packets; nothing in them answers this."
)


def is_quoting(stage: StageCall) -> bool:
    return stage.model.kind == "extractive"


def quote(stage: StageCall, gathered: Gathered) -> str:
    """The answer; the call is whole with it. All its time went into the research."""
    found = gathered.found
    says_more = found is not None and bool(found.source_packets or gathered.needed)
    absent = stage.task.stands_in_for
    nothing = ONLY_QUOTES if absent is None else _STANDS_IN.format(role=absent)
    text = without_sources(found.answer, found.source_packets) if found and says_more else nothing
    stage.reply = Generated(
        text=text,
        reason="end",
        stop="",
        prompt_tokens=stage.built.manifest.total_tokens,
        cached_tokens=0,
        tokens=len(text.split()),
        seed=0,
        fingerprint=stage.model.fingerprint,
        queue_ms=0.0,
        prefill_ms=0.0,
        decode_ms=0.0,
    )
    return text
