"""What is told of a turn on one line: the council at work while it is taken, sources and engine under it. Pure."""

from typing import TYPE_CHECKING, Any

from gaiad.cli.output import counted, milliseconds, plain
from gaiad.cli.research_layout import SEARCHING, SYNTHESIZING, found_line
from gaiad.cli.turn_story import looked_back_line, role_name
from gaiad.ids import short

if TYPE_CHECKING:
    from gaiad.chat_schemas import ChatAnswer

_DOING = {
    "plan": "planning",
    "refine": "refining the plan",
    "act": "writing the answer",
    "verify": "verifying",
}
_ENDED = {
    ("plan", "missing"): "wrote no plan",
    ("refine", "missing"): "wrote no plan with a confidence",
    ("refine", "low_confidence"): "is not sure of the plan",
    ("act", "empty"): "wrote an empty answer",
    ("verify", "missing"): "gave no verdict",
}
_PLAIN_STATUS = ("SUCCESS", "PARTIAL", "NOT_FOUND", "CLARIFY")  # those of the research stand with it


def working_line(event: str, data: dict[str, Any]) -> str:
    """What goes on now, "" when the event begins nothing."""
    if event == "stage":
        return plain(f"{role_name(data['role'])} is {_DOING.get(data['stage'], data['stage'])}...")
    if event == "searching" and data["iteration"] > 1:
        return plain(f"Searching again: {data['query']}")
    return {"searching": SEARCHING, "synthesizing": SYNTHESIZING}.get(event, "")


def done_line(event: str, data: dict[str, Any]) -> str:
    """What has happened, on one line; "" when the event is nothing to tell."""
    match event:
        case "synthesizing":
            line = found_line(data["packets"])
        case "depth":
            line = f"Depth full: {data['why']}" if data["depth"] == "full" else ""
        case "block":
            line = _block(data)
        case "stage_done":
            line = _ended(data)
        case "vote":
            line = _vote(data)
        case "escalation" if data["to"] != "person":  # to a person it is the answer or one of its notes
            line = f"{role_name(data['raised_by'])} turned to {role_name(data['to'])}: {data['why']}"
        case _:
            line = ""
    return " ".join(plain(line).split())


def _block(data: dict[str, Any]) -> str:
    """A block that this channel gets (GCP 7.2: no THOUGHT_SEED, if the settings do not say otherwise)."""
    role, text = role_name(data["role"]), data["text"]
    steps, _, confidence = text.rpartition("\nconfidence=")
    match data["marker"]:
        case "PLAN" if steps:
            return f"{role} refined the plan (confidence {confidence}): {steps}"
        case "PLAN":
            return f"{role} planned: {text}"
        case "VERIFY":
            return f"{role} verified: {text}"
        case "INTERRUPT":
            return f"{role} stopped the answer: {text}"
        case "THOUGHT_SEED":
            return f"{role} thought for later: {text}"
    return ""


def _ended(data: dict[str, Any]) -> str:
    """Of a stage that did not end well; what went well is told by what it wrote."""
    stage, verdict = data["stage"], data["verdict"]
    role = role_name(data["role"])
    if verdict == "lost":
        return f"{role} was lost while {_DOING.get(stage, stage)}: {'; '.join(data['notes'])}"
    words = _ENDED.get((stage, verdict), "")
    return f"{role} {words}" if words else ""


def _vote(data: dict[str, Any]) -> str:
    ballots = [f"{role_name(one['role'])} {one['vote']}" for one in data["ballots"] if not one["uncounted"]]
    said = f"Voted ({', '.join(ballots)})" if ballots else "Not voted on"
    subject = data["subject"].partition("\n")[0]
    return f"{said}: {data['reason']}: {subject}"


def footer_lines(answer: "ChatAnswer", options: str = "") -> list[str]:
    """Sources, what looked back and why, depth and why, engine and session; notes are not among them."""
    lines = []
    if answer.sources:
        lines.append("Sources: " + " ".join(f"[Packet: {source}]" for source in answer.sources))
    elif answer.history.packets and answer.answered:
        lines.append("Read, but not cited: " + " ".join(f"[Packet: {packet}]" for packet in answer.history.packets))
    if answer.also is not None:
        lines.append(answer.also.words)
    if looked_back := looked_back_line(answer.history, options):
        lines.append(looked_back)
    plans = [block.text for block in answer.blocks if block.marker == "PLAN"]
    if plans and not answer.answered:
        lines.append(f"Plan: {plans[-1]}")
    stopped = [block.text for block in answer.blocks if block.marker == "INTERRUPT"]
    if stopped:
        reasons = "; ".join(dict.fromkeys(stopped))
        lines.append(f"Retracted {counted(len(stopped), 'time')}: {reasons}")
    if answer.redactions:
        lines.append(_taken_out(answer))
    if answer.depth_why:
        lines.append(_depth(answer))
    took = sum(answer.timings.values())
    lines.append(f"Engine: {answer.engine or 'none'} ({milliseconds(took)}) | Session: {answer.session_id}")
    return [" ".join(plain(line).split()) for line in lines]


def _taken_out(answer: "ChatAnswer") -> str:
    taken = ", ".join(f"{item.count} {item.kind}" for item in answer.redactions)
    changed = " ".join(f"[Packet: {source}]" for source in answer.redacted)
    return f"Taken out of the answer: {taken}" + (f"; not as stored: {changed}" if changed else "")


def _depth(answer: "ChatAnswer") -> str:
    parts = [f"Depth: {answer.depth} ({answer.depth_why})"]
    if answer.reduced_quorum:
        parts.append("reduced_quorum")
    if answer.status not in _PLAIN_STATUS:
        parts.append(f"Status: {answer.status}")
    if answer.depth == "full":
        parts.append(f"Turn: {short(answer.turn_id)}")
    return " | ".join(parts)
