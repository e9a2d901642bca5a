"""The script of the README's tour answers what the tour's turns ask, so that the tour prints what stands there."""

import re
import tomllib
from pathlib import Path

import msgspec

from prompts.persona_review import Verdict

ROOT = Path(__file__).resolve().parent.parent


def test_the_script_of_the_tour_has_a_verdict_on_its_persona():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (
        readme.split("whose first reply that fits a prompt is given:", 1)[1].split("```toml\n", 1)[1].split("```", 1)[0]
    )
    prompt = (ROOT / "prompts" / "text" / "judge_persona_review.md").read_text(encoding="utf-8")
    replies = tomllib.loads(script)["reply"]
    reply = next(reply for reply in replies if re.search(reply.get("match", ""), prompt))
    verdict = msgspec.json.decode(reply["text"], type=Verdict)
    assert (verdict.overrules, verdict.rule) == (False, "none")
