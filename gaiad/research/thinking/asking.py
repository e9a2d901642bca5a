"""Calls of one run to a model: each under a form, all together within a number of calls, of tokens and of seconds.

A call that fails, comes late or says what does not fit its form is no error of the run: the step goes by the rules,
and why is told. Only the caller's own cancel and deadline end the run.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from gaiad.base.clock import Clock
from gaiad.base.contracts import struct_schema
from gaiad.base.errors import GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Model, RequestContext
from gaiad.research.responses import FORM_MISSED, by_rules
from gaiad.research.trail import PlanAction, Spent
from gaiad.wire.generation import ChatMessage, Generated, GenerateRequest, Sampling, Segment

_log = get_logger("gaiad.research")
_TEMPLATE_TOKENS = 64  # what a chat template may put around two messages
_FAILURES = 2  # of the model itself; after so many it is left alone for the rest of the run
_LIKELIEST = Sampling(temperature=0.0)

Form = TypeVar("Form", bound=msgspec.Struct)
ReportProgress = Callable[..., None]
"""`tell(name, **data)`."""


class Mind(Model, Protocol):
    """A model with a name; `window` is how many tokens prompt and reply may have together, 0 when nobody knows."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def window(self) -> int: ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What the calls of one run may take together; `tokens` counts prompts and replies."""

    calls: int
    tokens: int
    seconds: float


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of call: its name, the duty that a model must be able to do for it, the longest reply in tokens, and the
    share of what is left that it may use up."""

    name: str
    duty: str
    reply_tokens: int
    share: float


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a call says: `before`, as many of `items` (retrieved text, best first) as fit, `after`."""

    system: str
    before: str
    items: Sequence[Sequence[Segment]]
    after: str


class RunCalls:
    """One run's calls. `degraded` are the steps that went by the rules, with the reason.

    A step for which the model has no duty (`duties`, None for all) is the rules' own, and no reason is told. Every call
    begins with `identity` (GCP 1).
    """

    def __init__(
        self,
        mind: Mind,
        limits: Limits,
        clock: Clock,
        call: RequestContext,
        spent: Spent,
        tell: ReportProgress,
        duties: Collection[str] | None = None,
        identity: str = "",
    ) -> None:
        self.name = mind.name
        self.degraded: list[str] = []
        self._mind = mind
        self._limits = limits
        self._clock = clock
        self._call = call
        self._until = call.until(clock.monotonic() + limits.seconds)
        self._spent = spent
        self._duties = duties
        self._identity = identity
        self.tell = tell
        self._failures = 0

    async def ask(
        self, step: Step, prompt: Prompt, form: type[Form], schema: Callable[[int], dict[str, Any]]
    ) -> Form | None:
        """What the model says, None when the rules must do. `schema` gets the number of items that the prompt has.

        Raises Cancelled and DeadlineExceeded of the run's own call.
        """
        if self._duties is not None and step.duty not in self._duties:
            return None
        started = self._clock.monotonic()
        why = self._refusal()
        reply: Generated | None = None
        said: Form | None = None
        if not why:
            try:
                reply = await self._generate(step, prompt, schema)
                said = msgspec.json.decode(_object_in(reply.text), type=form)
            except GaiadError as error:
                self._call.check(self._clock.monotonic())
                self._failures += 1
                why = error.message
            except (msgspec.DecodeError, UnicodeError) as error:
                cut = "its reply was cut off" if reply and reply.reason == "length" else str(error)
                why = f"{self.name} {FORM_MISSED}: {cut}"
        self._told(step, reply, why, round((self._clock.monotonic() - started) * 1000, 3))
        return said

    def go_without(self, what: str, error: GaiadError) -> None:
        """A search of the model's brings nothing, and why is told. Raises Cancelled, DeadlineExceeded as `ask`."""
        self._call.check(self._clock.monotonic())
        why = f"{what}: {error.message}"
        if why not in self.degraded:
            self.degraded.append(why)
        _log.warning("planned_search_failed", model=self.name, reason=why)

    def fall_back(self, step: Step, why: str) -> None:
        """The step goes by the rules after all."""
        self.degraded.append(by_rules(step.name, why))
        _log.warning("thinking_by_rules", step=step.name, model=self.name, reason=why)

    @property
    def _tokens_left(self) -> int:
        return self._limits.tokens - self._spent.prompt_tokens - self._spent.reply_tokens

    def _refusal(self) -> str:
        """Why no call is made any more, "" when one is."""
        if self._failures >= _FAILURES:
            return f"{self.name} failed {self._failures} times"
        if self._spent.calls >= self._limits.calls:
            return f"{self._limits.calls} calls are used up (research.model_calls)"
        if self._clock.monotonic() >= (self._until.deadline or 0.0):
            return f"{self._limits.seconds:g} seconds are used up (research.model_s)"
        return ""

    async def _generate(self, step: Step, prompt: Prompt, schema: Callable[[int], dict[str, Any]]) -> Generated:
        call = self._until.share(step.share, self._clock.monotonic())
        kept = await self._fitting(step, prompt, call)
        request = GenerateRequest(
            messages=_messages(self._identity, prompt, prompt.items[:kept]),
            max_tokens=step.reply_tokens,
            seed=0,
            sampling=_LIKELIEST,
            schema=schema(kept),
        )
        reply: Generated | None = None
        async with aclosing(self._mind.generate(request, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Generated):
                    reply = piece
        if reply is None:
            raise Unavailable(f"{self.name} ended without a reply", 5.0)
        self._spent.add(reply.prompt_tokens, reply.tokens)
        return reply

    async def _fitting(self, step: Step, prompt: Prompt, call: RequestContext) -> int:
        """How many items the prompt has room for. Raises Unavailable when not even one fits."""
        frame = [Segment(self._identity), Segment(prompt.system), Segment(prompt.before), Segment(prompt.after)]
        counts = await self._mind.tokenizer.count([frame, *prompt.items], call)
        room = min(int(self._tokens_left * step.share), self._mind.window or self._tokens_left)
        room -= counts[0] + step.reply_tokens + _TEMPLATE_TOKENS
        kept = 0
        for count in counts[1:]:
            room -= count
            if room < 0:
                break
            kept += 1
        if prompt.items and not kept:
            raise Unavailable(
                f"{self.name} has no room for a page: its window is {self._mind.window or 'unknown'}, "
                f"{self._tokens_left} tokens are left (research.model_tokens)",
                60.0,
            )
        return kept

    def _told(self, step: Step, reply: Generated | None, why: str, took_ms: float) -> None:
        if why:
            self.fall_back(step, why)
        self.tell(
            "thought",
            step=step.name,
            model=self.name,
            by_rules=why,
            prompt_tokens=reply.prompt_tokens if reply else 0,
            tokens=reply.tokens if reply else 0,
            fingerprint=reply.fingerprint if reply else "",
            took_ms=took_ms,
        )


def _object_in(text: str) -> str:
    """The JSON object of a reply: a server that is not held to the form may write a frame around it."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def _messages(identity: str, prompt: Prompt, items: Sequence[Sequence[Segment]]) -> list[ChatMessage]:
    """Everything is untrusted text: no part of it needs a control token."""
    asked = [Segment(prompt.before), *(part for item in items for part in item), Segment(prompt.after)]
    return [
        ChatMessage(role="system", content=[Segment("\n\n".join(filter(None, (identity, prompt.system))))]),
        ChatMessage(role="user", content=[part for part in asked if part.text]),
    ]


SENTENCE_CHARACTERS = 300
QUERY_CHARACTERS, NOTE_CHARACTERS = 160, 80
MOST_ACTIONS, MOST_HITS = 4, 24

PLAN = Step(name="planning", duty="plan", reply_tokens=512, share=0.25)
REFLECTION = Step(name="reflection", duty="verify", reply_tokens=384, share=0.35)
SYNTHESIS = Step(name="synthesis", duty="answer", reply_tokens=1024, share=1.0)

Aspect = Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
Suggestion = Annotated[str, msgspec.Meta(min_length=1, max_length=120)]
Label = Annotated[str, msgspec.Meta(min_length=1, max_length=8)]
Query = Annotated[str, msgspec.Meta(max_length=QUERY_CHARACTERS)]
PageIds = Annotated[list[str], msgspec.Meta(max_length=4)]


class PlannedAction(PlanAction, frozen=True, kw_only=True, rename="camel"):
    """A PlanAction with the bounds that hold for a model."""

    query: Query = ""
    page_ids: PageIds = msgspec.field(default_factory=list)
    k: Annotated[int, msgspec.Meta(ge=1, le=MOST_HITS)] = 8
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARACTERS)] = ""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JIT's plan: searches besides the question's own."""

    actions: Annotated[list[PlannedAction], msgspec.Meta(max_length=MOST_ACTIONS)]


class Reflection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GAM 4's ReflectionResult as a model says it. A suggestion is what to search for next, in words."""

    is_sufficient: bool
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    missing_aspects: Annotated[list[Aspect], msgspec.Meta(max_length=4)]
    refinement_suggestions: Annotated[list[Suggestion], msgspec.Meta(max_length=3)]


class Sentence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One sentence of an answer, and the labels of the passages that say it."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=SENTENCE_CHARACTERS)]
    sources: Annotated[list[Label], msgspec.Meta(min_length=1, max_length=3)]


class Synthesis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GAM 5's answer, sentence by sentence; without one the context does not answer."""

    sentences: Annotated[list[Sentence], msgspec.Meta(max_length=6)]


_SHARES = [step / 20 for step in range(21)]


def plan_schema(page_ids: Sequence[str], tools: Sequence[str]) -> dict[str, Any]:
    """A plan of these tools, whose page ids are some of those given."""
    return struct_schema(Plan, {"actions.pageIds": page_ids, "actions.tool": tools})


def reflection_schema() -> dict[str, Any]:
    """A reflection; its confidence is one of 21 steps, which is as fine as a model can say it."""
    schema = struct_schema(Reflection)
    schema["properties"]["confidence"] = {"enum": _SHARES}
    return schema


def synthesis_schema(labels: Sequence[str]) -> dict[str, Any]:
    """An answer whose sources are some of these labels."""
    return struct_schema(Synthesis, {"sentences.sources": labels})
