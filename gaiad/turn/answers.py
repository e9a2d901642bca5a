"""What the person gets to read: the usable part of an answer, without loops and words of its own prompt; quotes where
nothing is usable; and the council's last words, where an answer alone does not say how the turn ended (GCP 6, 8.4).

What counts of a stage that only the council reads: whole steps that name something of the request, and a success by a
model that has shown that it tells right from wrong. What a command did that failed its verification is undone here too.
"""

from collections.abc import Collection

from msgspec import structs

from council.observer import whole_sentences
from council.reply_rules import RepetitionLimits, before_loop, own_share, parrots, without_own_sentences
from council.stages import STEP_CHARACTERS, Plan, RefinedPlan, Verification, verification_text
from council.state_machine import End
from gaiad.base.config import model_label
from gaiad.base.errors import GaiadError
from gaiad.research.evidence import CHAT_TURN, asks, only_tells, without_order
from gaiad.research.familiar import asks_back, names_asked_about, told_before
from gaiad.research.query import request_words
from gaiad.research.responses import in_chat
from gaiad.research.sentences import inline, shown, split
from gaiad.research.words import content_words, stem, stems
from gaiad.turn.cognition import NOT_TOLD
from gaiad.turn.gathering import Gathered
from gaiad.turn.grounding import Grounding
from gaiad.turn.stage_call import StageCall
from gaiad.turn.turn import Executed, Turn, command_line, how_it_ended
from gaiad.wire.generation import Contract, Generated
from prompts.messages import own_texts
from prompts.packet import CognitionPacket

ENDS_TEXT = ("repetition", "leaked_prompt", "marker")
"""The observer's rules that end a text where they are broken; what came before may stand."""
_NOTES = {
    "repetition": "the reply began to repeat itself and was ended there",
    "leaked_prompt": "the reply began to repeat its instructions and was ended there",
    "marker": "the reply was ended where it began something else than the answer",
}
_FEWEST_WORDS = 3
_SAID_SHARE = 0.7  # of the words of the best quote that the question does not have
_SHOWN_CHARACTERS, _MOST_SHOWN = 120, 3
_YOU_SAID = "You said: “{quote}”"
_NOTED = "Noted. I will remember it."
_ABOUT_ITSELF = "I am {name}, an AI that answers your questions and looks things up in your records."
_PARROTED = "the reply repeated its instructions and was left out"
_ECHOED = "sentences of its instructions were left out of the reply"
_UNRECORDED = "not from your records: the model's own words"
_QUOTED = "the model gave no usable answer; these are quotes from your packets"


def usable(text: str, broken: str, packet: CognitionPacket, limits: RepetitionLimits) -> tuple[str, str]:
    """The usable part of a text that broke a rule of the observer, "" when none is, and a note on the rest."""
    note = _NOTES.get(broken, "")
    if broken == "repetition":
        text = before_loop(text, limits)
    elif broken == "leaked_prompt":
        text = whole if (whole := whole_sentences(text)) != text else ""
    elif broken and len(text.split()) < _FEWEST_WORDS:
        text = ""
    own, asked = own_texts(packet), packet.user_prompt
    if parrots(text, own, asked):
        return "", _PARROTED
    kept = without_own_sentences(text, own, asked)
    return (text, note) if kept == text else (kept, note or _ECHOED)


def not_told(grounding: Grounding, turn: Turn) -> bool:
    """Whether the pages in hand answer and the text does not say so, or nothing is left of it, or little beside what it
    invented; or the person told it in this session and the text has it from other chats, if at all.
    """
    found = turn.gathered.found
    elsewhere = not grounding.from_history and all(name.startswith(CHAT_TURN) for name in grounding.cited)
    if grounding.strict and elsewhere and _said_here(turn.request.message, turn.gathered):
        return True
    in_hand = found is not None and bool(found.citations)
    if grounding.invented and not grounding.carried:
        return in_hand or len(turn.shown.strip()) <= len(grounding.invented)
    return grounding.strict and not grounding.carried and (in_hand or not turn.shown.strip())


def unsaid_quote(grounding: Grounding, turn: Turn) -> str:
    """The best quote of what was found, where the answer leaves out most of it; "" where it says it."""
    found = turn.gathered.found
    if (
        not grounding.strict
        or grounding.from_history
        or found is None
        or found.status != "SUCCESS"
        or not found.citations
    ):
        return ""
    best, asked = found.citations[0], stems(turn.request.message)
    quote = max((part.text for part in split(best.quote)), key=lambda text: len(stems(text) & asked), default="")
    new = stems(quote) - asked
    if len(new & stems(turn.shown)) >= _SAID_SHARE * len(new):
        return ""
    turn.cited = list(dict.fromkeys([*turn.cited, best.packet_id]))
    return f"\n\n“{shown(quote)}” {inline(best.packet_id)}"


def instead_of_answer(stage: StageCall, turn: Turn) -> str:
    """Verified quotes when the archive has any, else a sentence; `act_notes` say which."""
    found, message = turn.gathered.found, turn.request.message
    if said := _said_here(message, turn.gathered):
        turn.act_notes, turn.cited = [], []
        return _YOU_SAID.format(quote=shown(said))
    turn.act_notes = [_QUOTED]
    if found is not None and found.citations:
        turn.cited = found.source_packets
        return in_chat(found)
    turn.act_notes = []
    if only_tells(message):
        return _NOTED
    if turn.gathered.by_name:
        return f"{NOT_TOLD} {_closest(turn)}"
    if stage.built.packet.context or asks_back(message):
        return NOT_TOLD
    if own_share(stage.text, (stage.built.packet.identity,), message):
        return _ABOUT_ITSELF.format(name=turn.gathered.registry.identity.name)
    turn.answered = False
    return f"{model_label(stage.model.name)} gave no usable answer. Ask in other words, or give the role another model."


def _closest(turn: Turn) -> str:
    """What comes nearest to the question in the pages that name what it is about; the turn cites it."""
    asked = stems(turn.request.message)
    quotes = [(part.text, item.packet_id) for item in turn.gathered.by_name for part in split(item.text)]
    text, packet_id = max(quotes, key=lambda quote: len(stems(quote[0]) & asked))
    turn.cited = [packet_id]
    return f"The closest passage: “{shown(text)}” {inline(packet_id)}"


def unrecorded_notes(grounding: Grounding, stage: StageCall, turn: Turn) -> list[str]:
    """That an answer to a question about somebody or something with a name comes from no record and from nothing said
    in this session, where there are records.
    """
    names, looked = names_asked_about(turn.request.message), turn.gathered.note
    said = stems(" ".join(entry.text for entry in stage.built.packet.history))
    if not names or names <= said or grounding.carried or turn.cited or (looked.why and not looked.sought):
        return []
    return [_UNRECORDED]


def cut_notes(grounding: Grounding) -> list[str]:
    """What was left out because no page carries it."""
    if not grounding.cut:
        return []
    said = "; ".join(f"“{sentence[:_SHOWN_CHARACTERS]}”" for sentence in grounding.cut[:_MOST_SHOWN])
    return [f"left out, for no packet says so: {said}"]


ONLY_QUOTES = (
    "No chat model is set up, so I can only quote your packets, and nothing in them answers this. Ask about something "
    "that was said before, or give the role a model (roles.prime)."
)
_STANDS_IN = (
    "The role {role} gave no answer, and without it I can only quote your packets; nothing in them answers this."
)


def is_quoting(stage: StageCall, gathered: Gathered, duties: Collection[str] | None) -> bool:
    """Whether quotes are the answer: the model writes nothing, or has not shown that it answers from pages.

    Where nothing was found that answers, what was said here may.
    """
    found, message = gathered.found, gathered.request.message
    if stage.model.kind == "extractive":
        return True
    if duties is None or "answer" in duties:
        return False
    if _said_here(message, gathered):
        return True
    if found is None:
        return False
    if not found.source_packets:
        return bool(asks_back(message)) and not gathered.turns
    if found.status == "NOT_FOUND":
        return gathered.needed and not gathered.turns
    return gathered.needed or (found.status == "SUCCESS" and asks(message))


def _said_here(message: str, gathered: Gathered) -> str:
    """What the person told in this session of what they ask about their own affairs; "" when nothing."""
    return told_before(message, [earlier.user for earlier in gathered.turns]) if asks_back(message) else ""


def quote(stage: StageCall, turn: Turn) -> str:
    """The answer and what it cites; the call is whole with it. All its time went into the research."""
    gathered = turn.gathered
    found, said = gathered.found, _said_here(gathered.request.message, gathered)
    if said and stage.model.kind != "extractive":
        text, turn.cited = _YOU_SAID.format(quote=shown(said)), []
    else:
        says_more = found is not None and bool(found.source_packets or gathered.needed)
        absent = stage.task.stands_in_for
        nothing = ONLY_QUOTES if absent is None else _STANDS_IN.format(role=absent)
        text = in_chat(found) if found and says_more else nothing
        turn.cited = [] if found is None else found.source_packets
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


_NOTHING_RAN = "No command was run, so there is nothing to revert"
_WAITS = "The council agreed to a command, and it waits for its owner: gaiad approvals shows it."
"""Which command is for its owner alone, and an answer may go to a channel that others read (GCP 7.2)."""


def closing_words(end: End, turn: Turn, undone: str = "") -> str:
    """What is said in place of an answer, "" when there is one; beside an answer the rest goes to the notes.

    `undone` says what became of the work directory of a command that did not stand up to verification.
    """
    if turn.executed is not None:
        return _outcome(end, turn, turn.executed, undone)
    if instead := _stand_in(turn):
        turn.notes.append(instead)
    match end.ending:
        case "asks_person":
            words = f"The council asks you: {_question(end, turn)}"
        case "reverted":
            words = f"Verification failed: {_verdict(turn) or end.why}. {_NOTHING_RAN}; take the answer with care."
        case "awaits_approval" if not turn.shown.strip():
            return _WAITS
        case "unverified":
            words = f"This answer was not verified: {end.why}."
        case _:
            return ""
    if not turn.shown.strip():
        turn.answered = False
        return words
    turn.notes.append(words)
    return ""


async def undone(end: End, turn: Turn) -> str:
    """After a command that did not stand up to verification: what became of its work directory."""
    executed = turn.executed
    if end.ending != "reverted" or executed is None:
        return ""
    try:
        why_not = await executed.revert()
    except GaiadError as error:
        why_not = error.message
    where = executed.approval.work
    return f"{where} could not be put back: {why_not}." if why_not else f"{where} is as it was before it ran."


def _question(end: End, turn: Turn) -> str:
    """What a person is to say something to. What a plan says stays out: it may not go to every channel (GCP 7.2)."""
    fired = () if end.escalation is None else end.escalation.triggers
    if "low_confidence" in fired:
        return f"it is not sure of its plan ({end.why}). Say how to continue."
    stopped = turn.last("INTERRUPT").rstrip(".") if "interrupts" in fired else ""
    because = f", the last time for this: {stopped}" if stopped else ""
    return f"{end.why}{because}. Say how to continue."


def _stand_in(turn: Turn) -> str:
    """Who answered in whose place, and why."""
    acts = [row for row in turn.stages if row.stage == "act"]
    if not turn.shown.strip() or not acts or not acts[-1].stands_in_for:
        return ""
    absent = acts[-1].stands_in_for
    lost = [row.notes[-1] for row in turn.stages if row.role == absent and row.verdict == "lost" and row.notes]
    why = "; ".join(dict.fromkeys(lost)) or "it is not there, see gaiad council status"
    return f"{acts[-1].role} answered in place of {absent}: {why}"


def _outcome(end: End, turn: Turn, executed: Executed, undone: str) -> str:
    """What a command did, what Verify says to it, and what stays of it."""
    ran = f"{command_line(executed.approval)} {how_it_ended(executed.approval)}"
    match end.ending:
        case "answered":
            said = turn.last("VERIFY").rstrip(".")
            return f"{ran}, and it was verified: {said.removeprefix('success: ')}."
        case "reverted":
            return f"{ran}, and verification failed: {_verdict(turn) or end.why}. {undone}"
        case "unverified":
            said = turn.last("VERIFY").rstrip(".") or f"unverified: {end.why}"
            return f"{ran}; {said}. What it did stays in {executed.approval.work}."
        case _:
            return f"{ran}. It was not verified: {end.why}."


def _verdict(turn: Turn) -> str:
    """What the verifying role said, without its first word."""
    return turn.last("VERIFY").removeprefix("fail: ").rstrip(".")


_BEGINNING = 4  # letters


def step_characters(contract: Contract | None) -> int:
    """How long a step can be in a reply that was held to this contract; one as long was cut there."""
    steps = contract.blocks[0].schema["properties"]["steps"] if contract and contract.blocks[0].schema else {}
    return int(steps["items"]["maxLength"]) if steps else STEP_CHARACTERS


def of_request(plan: Plan | RefinedPlan, request: str, longest: int) -> tuple[Plan | RefinedPlan | None, str]:
    """The plan's whole steps that share a word with the request, None when it has none; and what was left out.

    The order that it begins with is no such word: a step "answer" names nothing of "Answer with one number: ...". A
    request without such words, or in a script without spaces, says nothing of the steps.
    """
    plain = len(request.split()) > 1 or request.isascii()
    words = (content_words(without_order(request)) or content_words(request)) if plain else []
    asked = {stem(word) for word in words if word not in request_words()} or {stem(word) for word in words}
    kept = [step for step in plan.steps if len(step) < longest and (not asked or _shares(asked, stems(step)))]
    if len(kept) == len(plan.steps):
        return plan, ""
    left_out = f"{len(plan.steps) - len(kept)} of {len(plan.steps)} steps are cut or name nothing of the request"
    return (structs.replace(plan, steps=tuple(kept)) if kept else None), f"{left_out}; they were left out"


def _shares(asked: Collection[str], said: Collection[str]) -> bool:
    """Whether a stem of one side is one of the other, or a long one begins another: keep, keeper."""
    begins = [(one, two) for one in asked for two in said if min(len(one), len(two)) >= _BEGINNING]
    return not set(asked).isdisjoint(said) or any(a.startswith(b) or b.startswith(a) for a, b in begins)


def verdict_text(found: Verification, model: str, role: str, *, proven: bool) -> str:
    """The role's verdict as people and the next stage read it; `proven` is whether the model may verify, by figures."""
    if proven or found.outcome == "fail":
        return verification_text(found)
    return (
        f"unverified: {model_label(model)} says success ({found.summary}), but has not shown that it can tell; "
        f"gaiad models probe {role} measures it"
    )
