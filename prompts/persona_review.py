"""Whether a persona stays below identity (GCP 3.3): tools by the rules' own lists, free text by wording or by Prime.

A tool that identity denies is refused, always, and the finding names the rule. Free text can only be judged: by a model
where there is one, whose word refuses; without one by wordings that are known to be used for it, which only warn.
Nearness of sentence vectors was tried too and told sly texts from harmless ones hardly better than chance.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Any, Literal

import msgspec

from gaiad.base.errors import Unavailable
from gaiad.base.ports import Model, RequestContext
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment
from prompts.identity import Identity
from prompts.load import PersonaReviewWords, fill
from prompts.persona import Persona, persona_text, suspicions

VERDICT_TOKENS = 640  # room for the longest verdict at a token a byte
REASON_CHARACTERS = 120
_NO_RULE = "none"


class PersonaFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What speaks against a persona: the rule by name, the tool it asks for ("" for free text), and why.

    `judge` is "grants", "wording", "nobody" where a model should have judged and there is none, or the fingerprint of
    the model that did. A refused persona must not be used.
    """

    rule: str
    grant: str
    severity: Literal["refused", "warning"]
    judge: str
    reason: str


class PersonaVerdict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model says of a persona's free text."""

    overrules: bool
    rule: str
    reason: str


def review_persona(persona: Persona, identity: Identity) -> list[PersonaFinding]:
    """What can be seen without a model: denied tools are refused, suspicious wordings are warned of."""
    return [*_denied_tools(persona, identity), *_wordings(persona, identity)]


async def judge_persona(
    persona: Persona, identity: Identity, instruction: str, model: Model | None, call: RequestContext
) -> list[PersonaFinding]:
    """`review_persona`, and the model's verdict on the free text, which refuses; `instruction` is its directive.

    The warnings stay beside a verdict that finds nothing, for the text may have talked the model round. Without a model
    a warning says that nobody read the text: wordings show the plain attempts and next to none of the sly. Raises what
    the model raises, and Unavailable when its reply is not a verdict.
    """
    if model is None:
        return [*review_persona(persona, identity), _unread(identity)]
    request = verdict_request(persona, identity, instruction)
    async with aclosing(model.generate(request, call)) as parts:
        async for part in parts:
            if isinstance(part, Generated):
                verdict = _read_verdict(part)
                return [*review_persona(persona, identity), *_verdict_findings(verdict, identity, model.fingerprint)]
    raise Unavailable("the model ended without a verdict on the persona; try again")


def free_text(persona: Persona) -> list[str]:
    """The texts of a persona that a person wrote freely, in the order they are shown to the model."""
    layers = (*persona.context_layers, *persona.roleplay_layers)
    return [
        persona.tone,
        persona.style_notes,
        *persona.constraints,
        *(text for layer in layers for text in (layer.name, layer.text)),
    ]


def verdict_request(persona: Persona, identity: Identity, instruction: str) -> GenerateRequest:
    """The question to the model. The persona is untrusted and is in a fence that its own text cannot contain."""
    text = persona_text(persona)
    words = PersonaReviewWords(
        instruction=instruction,
        rules="\n".join(f"- {rule.name}: {rule.text}." for rule in identity.rules()),
        fence=f"[persona {hashlib.sha256(text.encode()).hexdigest()[:16]}]",
        persona=text,
    )
    content = [Segment(fill(words))]
    return GenerateRequest(
        messages=[ChatMessage(role="user", content=content)],
        max_tokens=VERDICT_TOKENS,
        seed=0,
        sampling=Sampling(temperature=0.0),
        schema=verdict_schema(identity),
    )


def verdict_schema(identity: Identity) -> dict[str, Any]:
    """JSON Schema of a Verdict; `rule` can only be one of identity's rules, or "none"."""
    return {
        "type": "object",
        "properties": {
            "overrules": {"type": "boolean"},
            "rule": {"enum": [*(rule.name for rule in identity.rules()), _NO_RULE]},
            "reason": {"type": "string", "maxLength": REASON_CHARACTERS},
        },
        "required": ["overrules", "rule", "reason"],
        "additionalProperties": False,
    }


def _denied_tools(persona: Persona, identity: Identity) -> Iterator[PersonaFinding]:
    for grant in persona.tools:
        rule = identity.denying(grant)
        if rule is not None:
            reason = f'identity denies {grant!r} by its rule {rule.name} ("{rule.text}"); remove it from tools'
            yield PersonaFinding(rule=rule.name, grant=grant, severity="refused", judge="grants", reason=reason)


def _wordings(persona: Persona, identity: Identity) -> Iterator[PersonaFinding]:
    seen: set[tuple[str, str]] = set()
    for text in free_text(persona):
        for suspicion in suspicions(text):
            rule = _known_rule(suspicion.rule, identity)
            if (rule, suspicion.words) not in seen:
                seen.add((rule, suspicion.words))
                reason = f'"{suspicion.words}" seems to work against the rule {rule}; reword it if that is not meant'
                yield PersonaFinding(rule=rule, grant="", severity="warning", judge="wording", reason=reason)


def _unread(identity: Identity) -> PersonaFinding:
    reason = "no model read its free text, only known wordings were looked for; read it yourself before you rely on it"
    return PersonaFinding(rule=identity.precedence.name, grant="", severity="warning", judge="nobody", reason=reason)


def refusal(name: str, findings: Sequence[PersonaFinding]) -> str:
    """Why the persona must not be used, in words; "" when it may."""
    refused = [f"rule {finding.rule}: {finding.reason}" for finding in findings if finding.severity == "refused"]
    return f"persona {name!r} is refused by {'; '.join(refused)}" if refused else ""


def _verdict_findings(verdict: PersonaVerdict, identity: Identity, judge: str) -> Iterator[PersonaFinding]:
    if verdict.overrules or verdict.rule != _NO_RULE:
        rule = _known_rule(verdict.rule, identity)
        severity: Literal["refused", "warning"] = "refused" if verdict.overrules else "warning"
        yield PersonaFinding(rule=rule, grant="", severity=severity, judge=judge, reason=verdict.reason)


def _known_rule(name: str, identity: Identity) -> str:
    """`name` when identity has such a rule; else the rule for all of it."""
    return name if any(rule.name == name for rule in identity.rules()) else identity.precedence.name


def _read_verdict(generated: Generated) -> PersonaVerdict:
    try:
        return msgspec.json.decode(generated.text, type=PersonaVerdict)
    except msgspec.DecodeError as error:
        raise Unavailable(
            f"{generated.fingerprint}: its reply is not a verdict on the persona ({error}); try again"
        ) from error
