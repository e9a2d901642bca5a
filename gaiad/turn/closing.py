"""The council's last words to the person, where an answer alone does not say how the turn ended (GCP 6, 8.4).

What a command did that did not stand up to verification is undone here too, for the words tell of it.
"""

from council.course import End
from gaiad.errors import GaiadError
from gaiad.turn.executed import Executed, command_line, how_it_ended
from gaiad.turn.story import Story

_NOTHING_RAN = "No command was run, so there is nothing to revert"
_WAITS = "The council agreed to a command, and it waits for its owner: gaiad approvals shows it."
"""Which command is for its owner alone, and an answer may go to a channel that others read (GCP 7.2)."""


def closing_words(end: End, story: Story, undone: str = "") -> str:
    """What is said in place of an answer, "" when there is one; beside an answer the rest goes to the notes.

    `undone` says what became of the work directory of a command that did not stand up to verification.
    """
    if story.executed is not None:
        return _outcome(end, story, story.executed, undone)
    if instead := _stand_in(story):
        story.notes.append(instead)
    match end.ending:
        case "asks_person":
            words = f"The council asks you: {_question(end, story)}"
        case "reverted":
            words = f"Verification failed: {_verdict(story) or end.why}. {_NOTHING_RAN}; take the answer with care."
        case "awaits_approval" if not story.shown.strip():
            return _WAITS
        case "unverified":
            words = f"Nobody verified this answer: {end.why}."
        case _:
            return ""
    if not story.shown.strip():
        story.answered = False
        return words
    story.notes.append(words)
    return ""


async def undone(end: End, story: Story) -> str:
    """After a command that did not stand up to verification: what became of its work directory."""
    executed = story.executed
    if end.ending != "reverted" or executed is None:
        return ""
    try:
        why_not = await executed.revert()
    except GaiadError as error:
        why_not = error.message
    where = executed.approval.work
    return f"{where} could not be put back: {why_not}." if why_not else f"{where} is as it was before it ran."


def _question(end: End, story: Story) -> str:
    """What a person is to say something to. What a plan says stays out: it may not go to every channel (GCP 7.2)."""
    fired = () if end.escalation is None else end.escalation.triggers
    if "low_confidence" in fired:
        return f"it is not sure of its plan ({end.why}). Say how it is to go on."
    stopped = _last(story, "INTERRUPT").rstrip(".") if "interrupts" in fired else ""
    because = f", the last time for this: {stopped}" if stopped else ""
    return f"{end.why}{because}. Say how it is to go on."


def _stand_in(story: Story) -> str:
    """Who answered in whose place, and why."""
    acts = [row for row in story.stages if row.stage == "act"]
    if not story.shown.strip() or not acts or not acts[-1].stands_in_for:
        return ""
    lost = [note for row in acts if row.verdict == "lost" for note in row.notes]
    why = "; ".join(lost) or "it is not there, see gaiad council status"
    return f"{acts[-1].role} answered in place of {acts[-1].stands_in_for}: {why}"


def _outcome(end: End, story: Story, executed: Executed, undone: str) -> str:
    """What a command did, what Verify says to it, and what stays of it."""
    ran = f"{command_line(executed.approval)} {how_it_ended(executed.approval)}"
    match end.ending:
        case "answered":
            return f"{ran}, and it was verified: {_last(story, 'VERIFY').removeprefix('success: ').rstrip('.')}."
        case "reverted":
            return f"{ran}, and verification failed: {_verdict(story) or end.why}. {undone}"
        case _:
            return f"{ran}. Nobody verified it: {end.why}. What it did stays in {executed.approval.work}."


def _verdict(story: Story) -> str:
    """What the verifying role said, without its first word."""
    return _last(story, "VERIFY").removeprefix("fail: ").rstrip(".")


def _last(story: Story, marker: str) -> str:
    """The newest block of that marker, "" without one."""
    return next((told.text for told in reversed(story.blocks) if told.marker == marker), "")
