"""A model is asked about a persona once, and again when anything that matters has changed."""

from pathlib import Path

import pytest

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import GaiadError, NotFound, Unavailable
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from prompts.identity import identity_bytes, parse_identity, shipped_identity
from prompts.persona_verdicts import TRY_AGAIN_S, PersonaVerdicts
from prompts.registry import Registry

REFUSES = '{"overrules": true, "rule": "no_hallucinations", "reason": "Invents."}'


def registry(home: Path, style: str = "Fill every silence.") -> Registry:
    folder = home / "registry" / "personas"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.toml").write_text(f'[mine]\ntone = "a"\nstyle_notes = "{style}"\n', encoding="utf-8")
    return Registry.load(home)


@pytest.fixture
def prime(clock: FrozenClock) -> ScriptedModel:
    return ScriptedModel("prime", [ScriptedReply(text=REFUSES)], clock)


async def test_the_model_is_asked_once_with_the_registrys_directive(
    tmp_path: Path, prime: ScriptedModel, clock: FrozenClock, call: RequestContext
) -> None:
    verdicts = PersonaVerdicts(clock)
    first = await verdicts.findings(registry(tmp_path), "mine", prime, call)
    again = await verdicts.findings(registry(tmp_path), "mine", prime, call)
    assert first == again
    assert [(finding.rule, finding.severity) for finding in first] == [("no_hallucinations", "refused")]
    (request,) = prime.seen
    assert registry(tmp_path).task_instruction("persona_review").text in request.messages[0].content[0].text


async def test_shipped_personas_are_not_judged(
    tmp_path: Path, prime: ScriptedModel, clock: FrozenClock, call: RequestContext
) -> None:
    for name in Registry.load(tmp_path).personas:
        assert await PersonaVerdicts(clock).findings(Registry.load(tmp_path), name, prime, call) == []
    assert prime.seen == []


async def test_other_words_another_identity_or_another_model_ask_again(
    tmp_path: Path, prime: ScriptedModel, clock: FrozenClock, call: RequestContext
) -> None:
    verdicts = PersonaVerdicts(clock)
    await verdicts.findings(registry(tmp_path), "mine", prime, call)
    await verdicts.findings(registry(tmp_path, "Short."), "mine", prime, call)
    assert len(prime.seen) == 2
    changed = parse_identity("x.toml", identity_bytes(shipped_identity()).replace(b"1.0.0", b"1.0.1"))
    await verdicts.findings(Registry.load(tmp_path, changed), "mine", prime, call)
    assert len(prime.seen) == 3
    other = ScriptedModel("other", [ScriptedReply(text=REFUSES.replace("Invents", "Guesses"))], clock)
    await verdicts.findings(registry(tmp_path, "Short."), "mine", other, call)
    assert len(other.seen) == 1
    (unread,) = await verdicts.findings(registry(tmp_path, "Short."), "mine", None, call)
    assert unread.judge == "nobody"


@pytest.mark.parametrize("error", ["unavailable", "bad_input", "deadline_exceeded"])
async def test_a_failure_is_not_tried_again_at_every_turn_but_after_a_while(
    tmp_path: Path, clock: FrozenClock, call: RequestContext, error: str
) -> None:
    prime = ScriptedModel("prime", [ScriptedReply(error=error, times=1), ScriptedReply(text=REFUSES)], clock)
    verdicts = PersonaVerdicts(clock)
    with pytest.raises(GaiadError, match="the script says"):
        await verdicts.findings(registry(tmp_path), "mine", prime, call)
    clock.advance(TRY_AGAIN_S - 20)
    with pytest.raises(Unavailable, match=r"the script says .* here; it is asked again in 20 s"):
        await verdicts.findings(registry(tmp_path), "mine", prime, call)
    assert len(prime.seen) == 1
    clock.advance(21)
    assert len(await verdicts.findings(registry(tmp_path), "mine", prime, call)) == 1
    assert len(prime.seen) == 2


async def test_a_dry_run_keeps_nobody_from_asking(tmp_path: Path, clock: FrozenClock, call: RequestContext) -> None:
    prime = ScriptedModel("prime", [ScriptedReply(error="unavailable", times=1), ScriptedReply(text=REFUSES)], clock)
    verdicts = PersonaVerdicts(clock)
    with pytest.raises(Unavailable):
        await verdicts.findings(registry(tmp_path), "mine", prime, call, dry_run=True)
    assert len(await verdicts.findings(registry(tmp_path), "mine", prime, call)) == 1


async def test_an_unknown_persona_is_named(tmp_path: Path, clock: FrozenClock, call: RequestContext) -> None:
    with pytest.raises(NotFound, match="'mien'; did you mean 'mine'"):
        await PersonaVerdicts(clock).findings(registry(tmp_path), "mien", None, call)
