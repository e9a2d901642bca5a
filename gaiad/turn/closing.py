"""The council's last words to the person, where an answer alone does not say how the turn ended (GCP 6, 8.4).

What a command did that did not stand up to verification is undone here too, for the words tell of it.
"""

from collections.abc import Collection

from council.observer import Observer, Windows
from council.observer_rules import ObserverRules
from council.quorum import Seat
from council.roles import assign_stage
from council.stages import Marker
from council.state_machine import End
from gaiad.base.clock import Clock
from gaiad.base.errors import GaiadError
from gaiad.base.ports import RequestContext
from gaiad.turn.gathering import Names
from gaiad.turn.services import TurnServices
from gaiad.turn.stage_call import StageCall
from gaiad.turn.turn_state import Executed, TurnState, command_line, how_it_ended
from prompts.messages import own_texts

_NOTHING_RAN = "No command was run, so there is nothing to revert"
_WAITS = "The council agreed to a command, and it waits for its owner: gaiad approvals shows it."
"""Which command is for its owner alone, and an answer may go to a channel that others read (GCP 7.2)."""


def closing_words(end: End, turn_state: TurnState, undone: str = "") -> str:
    """What is said in place of an answer, "" when there is one; beside an answer the rest goes to the notes.

    `undone` says what became of the work directory of a command that did not stand up to verification.
    """
    if turn_state.executed is not None:
        return _outcome(end, turn_state, turn_state.executed, undone)
    if instead := _stand_in(turn_state):
        turn_state.notes.append(instead)
    match end.ending:
        case "asks_person":
            words = f"The council asks you: {_question(end, turn_state)}"
        case "reverted":
            words = (
                f"Verification failed: {_verdict(turn_state) or end.why}. {_NOTHING_RAN}; take the answer with care."
            )
        case "awaits_approval" if not turn_state.shown.strip():
            return _WAITS
        case "unverified":
            words = f"This answer was not verified: {end.why}."
        case _:
            return ""
    if not turn_state.shown.strip():
        turn_state.answered = False
        return words
    turn_state.notes.append(words)
    return ""


async def undone(end: End, turn_state: TurnState) -> str:
    """After a command that did not stand up to verification: what became of its work directory."""
    executed = turn_state.executed
    if end.ending != "reverted" or executed is None:
        return ""
    try:
        why_not = await executed.revert()
    except GaiadError as error:
        why_not = error.message
    where = executed.approval.work
    return f"{where} could not be put back: {why_not}." if why_not else f"{where} is as it was before it ran."


def _question(end: End, turn_state: TurnState) -> str:
    """What a person is to say something to. What a plan says stays out: it may not go to every channel (GCP 7.2)."""
    fired = () if end.escalation is None else end.escalation.triggers
    if "low_confidence" in fired:
        return f"it is not sure of its plan ({end.why}). Say how to continue."
    stopped = _last(turn_state, "INTERRUPT").rstrip(".") if "interrupts" in fired else ""
    because = f", the last time for this: {stopped}" if stopped else ""
    return f"{end.why}{because}. Say how to continue."


def _stand_in(turn_state: TurnState) -> str:
    """Who answered in whose place, and why."""
    acts = [row for row in turn_state.stages if row.stage == "act"]
    if not turn_state.shown.strip() or not acts or not acts[-1].stands_in_for:
        return ""
    lost = [note for row in acts if row.verdict == "lost" for note in row.notes]
    why = "; ".join(lost) or "it is not there, see gaiad council status"
    return f"{acts[-1].role} answered in place of {acts[-1].stands_in_for}: {why}"


def _outcome(end: End, turn_state: TurnState, executed: Executed, undone: str) -> str:
    """What a command did, what Verify says to it, and what stays of it."""
    ran = f"{command_line(executed.approval)} {how_it_ended(executed.approval)}"
    match end.ending:
        case "answered":
            return f"{ran}, and it was verified: {_last(turn_state, 'VERIFY').removeprefix('success: ').rstrip('.')}."
        case "reverted":
            return f"{ran}, and verification failed: {_verdict(turn_state) or end.why}. {undone}"
        case _:
            return f"{ran}. It was not verified: {end.why}. What it did stays in {executed.approval.work}."


def _verdict(turn_state: TurnState) -> str:
    """What the verifying role said, without its first word."""
    return _last(turn_state, "VERIFY").removeprefix("fail: ").rstrip(".")


def _last(turn_state: TurnState, marker: str) -> str:
    """The newest block of that marker, "" without one."""
    return next((told.text for told in reversed(turn_state.blocks) if told.marker == marker), "")


def watch(
    services: TurnServices,
    stage: StageCall,
    names: Names,
    seats: list[Seat],
    call: RequestContext,
    clock: Clock,
    *,
    allowed: Collection[Marker],
    windows: bool,
) -> Observer:
    """`windows` is whether a model may read along; it does so only when the settings let it and a role can."""
    packet = stage.built.packet
    rules = ObserverRules(own_texts(packet), allowed, services.observed, packet.user_prompt)
    reader = (
        assign_stage(services.rules.roles, "observe", seats) if windows and services.config.observer_windows else None
    )
    if reader is None:
        return Observer(rules)
    return Observer(
        rules,
        Windows(
            role=reader.role,
            floor=services.room,
            speaker=services.speaker,
            clock=clock,
            limits=services.rules.limits.observer,
            call=call,
            max_tokens=services.rules.stages.stages["observe"].max_tokens,
            question=packet.user_prompt,
            turn_id=names.turn_id,
            session_id=names.session_id,
        ),
    )
