"""A scripted council that wants a command, agrees to it, and says a verdict of what it did."""

import json

import msgspec

from gaiad.models.plain.scripted import ScriptedReply

WISH = "Please delete the old log files in the folder."
GOOD = '{"outcome": "success", "summary": "the file is gone"}'
BAD = '{"outcome": "fail", "summary": "the wrong file is gone"}'
_SAYS = {
    "think step by step": 'PLAN: {"steps": ["Look", "Delete"]}',
    "errors, gaps and risks": 'PLAN: {"confidence": 0.8, "steps": ["Look", "Delete it"]}',
    "Vote yes, no or abstain": '{"vote": "yes", "confidence": 0.9, "reason": "I think so"}',
    "Review the proposed command": '{"verdict": "accept", "reason": "as asked"}',
}


def commanding(argv=("rm", "old.log"), verdict=GOOD, text="I would remove old.log."):
    """`says` of a House."""
    command = msgspec.json.encode({"argv": list(argv), "why": "it is old"}).decode()
    said = {
        **_SAYS,
        "Answer the user now": f"EXECUTE: {command}\nRESPONSE: {text}",
        "the plan, step by step": f"VERIFY: {verdict}",
    }
    replies = [ScriptedReply(text=words, match=match) for match, words in said.items()]
    return {role: [*replies, ScriptedReply(text="RESPONSE: I heard you.")] for role in ("prime", "lite", "codemind")}


def as_script(argv=("rm", "old.log")):
    """The same for a scripted model's file; see `scripted_home`."""
    command = msgspec.json.encode({"argv": list(argv), "why": "you asked for it"}).decode()
    said = {
        **_SAYS,
        "the plan, step by step": f"VERIFY: {GOOD}",
        "Answer the user now(?s:.*)Please": f"EXECUTE: {command}\nRESPONSE: I would.",
    }
    replies = [f"[[reply]]\nmatch = {json.dumps(match)}\ntext = {json.dumps(text)}" for match, text in said.items()]
    return "\n".join([*replies, "[[reply]]\ntext = 'RESPONSE: I heard you.'"])
