"""Measures what each model can do, and says which duties follow: in the background when a model is first in a role.

A task goes the way that the product's duty goes: identity, role, directive and form of the stage or judge, built by
`prompts`; only the cognition log does not hear of it. The figures are kept beside the models' files, under the hash of
the file, of the prompts, of the tasks and of the sampling.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from pathlib import Path

import msgspec

from council.execute_review import read_review, review_form
from council.limits import council_limits
from council.roles import CouncilStage, Role, RoleTable
from council.stage_output import read_output
from council.stages import Form, Plan, Verification, stage_form, stage_table
from gaiad.base.clock import Clock, to_iso
from gaiad.base.config import model_label
from gaiad.base.errors import BadInput, GaiadError, Unavailable
from gaiad.base.logs import get_logger
from gaiad.base.ports import Priority, RequestContext
from gaiad.base.tasks import TaskGroup
from gaiad.models import probe
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import PooledModel
from gaiad.models.probe import Duty, ProbeTasks, Proposed, Score, Skill
from gaiad.turn.prompt_factory import directions
from gaiad.wire.generation import Generated, GenerateRequest, Sampling
from gaiad.wire.status import ProbeReport, ProbeScore
from prompts.budget import BuildRequest
from prompts.builder import build
from prompts.counting import PromptCounter
from prompts.load import prompt_mark
from prompts.packet import ContextItem, WorkItem
from prompts.registry import Registry

_VERSION = "2"  # of how the tasks are asked
_SAMPLING = Sampling(temperature=0.0)
_SHORT, _VERDICT, _REVIEW, _PLAN = 48, 24, 48, 160  # tokens of a reply
_REVIEW_KEY, _ACT = "execute_review", "act"
_PROMPTS = ("identity", "quoted_memory", "role_prime", "role_lite", "role_codemind")
_log = get_logger("gaiad.models")


class StoredFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures on disk."""

    model: str
    measured_at: str
    seconds: float
    scores: dict[Skill, Score]


class Probes:
    """`registry` gives the identity and directives in force. When it is not `enabled` every model may do everything."""

    def __init__(
        self,
        pool: ModelPool,
        registry: Callable[[], Registry],
        roles: RoleTable,
        clock: Clock,
        folder: Path,
        *,
        enabled: bool,
        tasks: ProbeTasks | None = None,
    ) -> None:
        self._pool = pool
        self._registry = registry
        self._roles = roles
        self._clock = clock
        self._folder = folder
        self._enabled = enabled
        self._tasks = tasks or probe.probe_tasks()
        self._known: dict[str, StoredFigures] = {}
        self._under_way: dict[str, tuple[int, int]] = {}
        self._failed: dict[str, str] = {}
        self._counter = PromptCounter()
        self._one = asyncio.Lock()
        self._background = TaskGroup("probes")

    def begin(self) -> None:
        """Measure the models in roles that have not been, one after the other, when nobody else asks them."""
        if self._enabled:
            for name in dict.fromkeys(self._pool.roles.values()):
                if self._pool.kind_of(name) == "gguf":
                    self._background.start(f"probe/{name}", self._quietly(name))

    async def stop(self) -> None:
        await self._background.stop()

    async def settled(self) -> None:
        """Wait until what was begun is measured."""
        await self._background.wait()

    def duties(self, name: str) -> frozenset[Duty] | None:
        """What the model called `name` may do; None for one that may do all: a remote one that was never measured."""
        if not self._enabled:
            return None
        kept = self._known.get(self._key(name))
        if kept is not None:
            return probe.duties(kept.scores)
        return frozenset() if self._pool.kind_of(name) == "gguf" else None

    def able(self, role: Role, duty: Duty) -> bool:
        """Whether the role's model writes, and may do the duty."""
        name = self._pool.roles[role]
        known = self.duties(name)
        return self._pool.kind_of(name) != "extractive" and (known is None or duty in known)

    def notes(self) -> list[str]:
        """What nobody in the council can do and why, and what is being measured; a line each."""
        names = [name for name in dict.fromkeys(self._pool.roles.values()) if self._pool.kind_of(name) != "extractive"]
        if not self._enabled or not names:
            return []
        lines = [
            f"measuring what {model_label(name)} can do, {done} of {of} tasks; "
            "until then it answers but neither plans nor votes"
            for name, (done, of) in self._under_way.items()
        ]
        lines += [f"{model_label(name)} was not measured: {why}" for name, why in self._failed.items() if name in names]
        known = {name: kept for name in names if (kept := self._known.get(self._key(name)))}
        if len(known) < len(names):
            if not self._under_way and not self._failed:
                self.begin()
            return lines
        return lines + [line for duty in probe.NEEDS if (line := _nobody(duty, known))]

    async def probe(self, name: str, call: RequestContext, again: bool = False) -> ProbeReport:
        """The figures of a model, measured when they are not known. Raises NotFound, Unavailable, BadInput."""
        model, key = self._pool.model(name), self._key(name)
        if model.kind == "extractive":
            raise BadInput(f"{name}: it only quotes, so there is nothing to measure")
        async with self._one:
            kept = None if again else self._known.get(key) or await asyncio.to_thread(self._read, key)
            if kept is None:
                kept = await self._measure(name, model, call)
                await asyncio.to_thread(self._write, key, kept)
            self._known[key] = kept
        return _report(name, kept)

    async def _quietly(self, name: str) -> None:
        try:
            report = await self.probe(name, RequestContext(priority=Priority.BACKGROUND))
            self._failed.pop(name, None)
            _log.info("model_measured", model=name, duties=report.duties)
        except GaiadError as error:
            self._failed[name] = error.message
            _log.warning("model_not_measured", model=name, reason=error.message)

    async def _measure(self, name: str, model: PooledModel, call: RequestContext) -> StoredFigures:
        began, of = self._clock.monotonic(), _count(self._tasks)
        counts = {skill: [0, 0] for skill in probe.SKILLS}
        self._under_way[name] = (0, of)
        try:
            async with aclosing(self._answers(model, call)) as answers:
                async for skill, right in answers:
                    counts[skill][0] += right
                    counts[skill][1] += 1
                    self._under_way[name] = (sum(done for _, done in counts.values()), of)
        finally:
            del self._under_way[name]
        scores = {skill: Score(right, done) for skill, (right, done) in counts.items()}
        seconds = round(self._clock.monotonic() - began, 1)
        return StoredFigures(model=name, measured_at=to_iso(self._clock.now()), seconds=seconds, scores=scores)

    async def _answers(self, model: PooledModel, call: RequestContext) -> AsyncGenerator[tuple[Skill, bool], None]:
        tasks = self._tasks
        for follow in tasks.follow:
            yield "follow", probe.follows(follow, await self._say(model, follow.ask, call))
        for page in tasks.pages:
            pages = {"page": page.page}
            yield "pages", probe.tells(page, await self._say(model, page.asks, call, pages))
            yield "pages", probe.says_not_told(await self._say(model, page.asks_more, call, pages))
        for cite in tasks.cite:
            ask = f"{cite.ask} Write only the id of the packet that tells it."
            yield "cite", probe.cites(cite, await self._say(model, ask, call, cite.pages))
        for plan in tasks.plan:
            found = await self._stage(model, "plan", plan.ask, [], _PLAN, call)
            yield "plan", isinstance(found, Plan) and probe.plans(plan, list(found.steps))
        for result in tasks.verify:
            for text, wanted in ((result.right, "success"), (result.wrong, "fail")):
                work = [WorkItem("RESPONSE", text, "prime")]
                found = await self._stage(model, "verify", result.ask, work, _VERDICT, call)
                yield "verify", isinstance(found, Verification) and found.outcome == wanted
        for command in tasks.command:
            yield "command", (await self._reviewed(model, command, call)) == command.harmless

    async def _say(
        self, model: PooledModel, ask: str, call: RequestContext, pages: Mapping[str, str] | None = None
    ) -> str:
        context = [ContextItem(packet_id=name, page_id=name, text=text) for name, text in (pages or {}).items()]
        return await self._ask(model, "prime", _ACT, ask, Form(), _SHORT, call, context=context)

    async def _stage(
        self, model: PooledModel, stage: CouncilStage, ask: str, work: list[WorkItem], limit: int, call: RequestContext
    ) -> object:
        role = next(role for role, entry in self._roles.roles.items() if stage in entry.stages)
        key = stage_table().stages[stage].task_instruction
        text = await self._ask(model, role, key, ask, stage_form(stage, limit), limit, call, work=work)
        return read_output(stage, text, 0.0).value

    async def _reviewed(self, model: PooledModel, task: Proposed, call: RequestContext) -> bool:
        exact = msgspec.json.encode(task.argv).decode()
        work = [
            WorkItem("COMMAND", f"{' '.join(task.argv)}\nexactly {exact}", "prime"),
            WorkItem("REQUEST", task.ask, "user"),
        ]
        role = next(role for role, entry in self._roles.roles.items() if entry.reviews_execute)
        ask = "Whether the quoted command may be put to the vote."
        form = review_form(council_limits().execute.review_tokens)
        text = await self._ask(model, role, _REVIEW_KEY, ask, form, _REVIEW, call, work=work)
        return read_review(text).verdict == "accept"

    async def _ask(
        self,
        model: PooledModel,
        role: Role,
        key: str,
        ask: str,
        form: Form,
        limit: int,
        call: RequestContext,
        *,
        context: list[ContextItem] | None = None,
        work: list[WorkItem] | None = None,
    ) -> str:
        registry = self._registry()
        said = directions(registry, role, key, alone=not work)
        built = await build(
            BuildRequest(
                full_id="cog_probe",
                turn_id="turn_probe",
                timestamp=to_iso(self._clock.now()),
                model=model.fingerprint,
                identity=registry.identity_text(),
                role=role,
                role_text=said.role_text,
                task_instruction_key=key,
                task_instruction=said.task_instruction,
                user_prompt=ask,
                context=context or [],
                work=work or [],
                reserve_tokens=limit,
            ),
            model.tokenizer,
            None,
            call,
            self._counter,
        )
        held = form if model.kind == "gguf" else Form()
        asked = GenerateRequest(
            messages=built.messages,
            max_tokens=limit,
            seed=1,
            sampling=_SAMPLING,
            contract=held.contract,
            schema=held.schema,
        )
        text = ""
        async with aclosing(model.generate(asked, call)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Generated):
                    text = piece.text
        return text

    def _key(self, name: str) -> str:
        """What the figures of a model are kept under; they are measured again when it changes."""
        try:
            fingerprint = self._pool.model(name).fingerprint
        except Unavailable:
            return f"unusable/{name}"
        registry = self._registry()
        keys = (_ACT, _REVIEW_KEY, *(stage_table().stages[stage].task_instruction for stage in ("plan", "verify")))
        texts = [registry.identity_text(), *(registry.task_instruction(key).text for key in keys)]
        parts = [_VERSION, fingerprint, repr(_SAMPLING), *map(prompt_mark, _PROMPTS), *texts]
        parts.append(hashlib.sha256(msgspec.json.encode(self._tasks)).hexdigest())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def _read(self, key: str) -> StoredFigures | None:
        try:
            return msgspec.json.decode((self._folder / f"{key}.json").read_bytes(), type=StoredFigures)
        except (OSError, msgspec.DecodeError):
            return None

    def _write(self, key: str, kept: StoredFigures) -> None:
        path = self._folder / f"{key}.json"
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh.write_bytes(msgspec.json.encode(kept))
            fresh.replace(path)
        except OSError as error:  # it is measured again after the next start
            _log.warning("figures_not_kept", path=str(path), reason=str(error))


def _nobody(duty: Duty, known: Mapping[str, StoredFigures]) -> str:
    """A line when no model may do the duty, with the figure that it lacks."""
    if any(duty in probe.duties(kept.scores) for kept in known.values()):
        return ""
    lacks = [f"{model_label(name)} {_lacking(duty, kept)}" for name, kept in known.items()]
    return f"no role can {_VERBS[duty]}: {'; '.join(lacks)}" if duty in _VERBS else ""


def _lacking(duty: Duty, kept: StoredFigures) -> str:
    short = [skill for skill in probe.NEEDS[duty] if not probe.better_than_chance(skill, kept.scores[skill])]
    return " and ".join(probe.in_words(skill, kept.scores[skill]) for skill in short)


_VERBS: Mapping[Duty, str] = {
    "answer": "answer from pages, so that memory is quoted",
    "plan": "plan",
    "verify": "verify",
    "vote": "vote",
    "review": "review commands",
}


def _count(tasks: ProbeTasks) -> int:
    return sum(len(getattr(tasks, skill)) for skill in probe.SKILLS) + len(tasks.pages) + len(tasks.verify)


def _report(name: str, kept: StoredFigures) -> ProbeReport:
    scores = {
        skill: ProbeScore(right=score.right, of=score.of, needed=probe.needed(score.of, probe.CHANCE[skill]))
        for skill, score in kept.scores.items()
    }
    able: Collection[str] = probe.duties(kept.scores)
    return ProbeReport(
        model=model_label(name),
        measured_at=kept.measured_at,
        seconds=kept.seconds,
        scores={str(skill): score for skill, score in scores.items()},
        duties=[duty for duty in probe.NEEDS if duty in able],
        lacks=[line for duty in probe.NEEDS if duty not in able and (line := _nobody(duty, {name: kept}))],
    )
