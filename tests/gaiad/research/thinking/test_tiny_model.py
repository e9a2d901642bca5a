"""A random GGUF holds every form: what it writes is noise, and each reply decodes and cites the context only."""

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.ports import RequestContext, Tokenizer
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.research.thinking import asking as forms
from gaiad.research.thinking.asking import Limits, RunCalls
from gaiad.research.thinking.by_model import planning_prompt, reflection_prompt, synthesis_prompt
from gaiad.research.thinking.support import passages_of
from gaiad.research.trail import Spent
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from gaiad.wire.status import ModelStatus
from tests.makers.llama_files import TINY_LLAMA, write_tiny_llama

CLOCK = SystemClock("UTC")
ROUNDS = 10
"""Of three calls each."""
ROOM = 5000
"""Tokens of a reply: this vocabulary spells in bytes, so that the longest texts of a form take that many."""


class TinyMind:
    """The worker as the pool gives it; each call draws with another seed, so that the noise differs."""

    name, kind, window = "tiny", "gguf", 16_384

    def __init__(self, worker: WorkerGenerator) -> None:
        self._worker = worker
        self.asked: list[GenerateRequest] = []

    @property
    def tokenizer(self) -> Tokenizer:
        return self._worker.tokenizer

    @property
    def fingerprint(self) -> str:
        return self._worker.fingerprint

    def generate(self, request: GenerateRequest, call: RequestContext) -> AsyncGenerator[TextDelta | Generated, None]:
        self.asked.append(request)
        sampling = msgspec.structs.replace(request.sampling, temperature=1.0)
        seeded = msgspec.structs.replace(request, seed=len(self.asked), sampling=sampling)
        return self._worker.generate(seeded, call)

    def status(self) -> ModelStatus:
        return self._worker.status()


@pytest.fixture
async def tiny(tmp_path: Path) -> AsyncIterator[TinyMind]:
    shape = msgspec.structs.replace(TINY_LLAMA, name="thinker", context=16_384, layers=1, embedding=32, feed_forward=32)
    path = write_tiny_llama(tmp_path / "thinker.gguf", shape)
    tokens = TokenWorker(CLOCK, RestartPolicy(start_s=60.0))
    await tokens.start()
    settings = GeneratorSettings(threads=1, flash="off", context=16_384, cells=16_384, parallel=1)
    worker = WorkerGenerator(path, settings, CLOCK, role="writer", tokenizer=tokens.tokenizer(path, ""))
    await worker.start()
    await worker.wait_ready(60.0)
    yield TinyMind(worker)
    await worker.close()
    await tokens.close()


async def test_thirty_of_thirty_calls_keep_their_form(tiny: TinyMind, page: Any) -> None:
    pages = [
        page("The float switch is wired in series. Mara tested it twice.", packet_id="tp-1"),
        page("Greta ordered the spare membrane in Lisbon.", packet_id="tp-2"),
    ]
    passages = passages_of(pages)
    labels = [one.label for of_page in passages for one in of_page]
    limits = Limits(calls=3 * ROUNDS, tokens=10_000_000, seconds=3600.0)
    asking = RunCalls(tiny, limits, CLOCK, RequestContext(), Spent(), lambda *_told, **_data: None)
    steps = [msgspec.structs.replace(one, reply_tokens=ROOM, share=1.0) for one in (
        forms.PLAN, forms.REFLECTION, forms.SYNTHESIS,
    )]  # fmt: skip
    question = "Where is the switch wired?"
    for _ in range(ROUNDS):
        evidence = [_Found(one) for one in pages]
        plan = await asking.ask(
            steps[0],
            planning_prompt(question, evidence, ["", ""]),  # type: ignore[arg-type]
            forms.Plan,
            lambda _items: forms.plan_schema(["tp-1/0", "tp-2/0"], ["bm25", "page_id"]),
        )
        said = await asking.ask(
            steps[1], reflection_prompt(question, pages), forms.Reflection, lambda _items: forms.reflection_schema()
        )
        written = await asking.ask(
            steps[2],
            synthesis_prompt(question, passages),
            forms.Synthesis,
            lambda _items: forms.synthesis_schema(labels),
        )
        assert plan is not None, asking.degraded
        assert said is not None, asking.degraded
        assert written is not None, asking.degraded
        assert {one.tool for one in plan.actions} <= {"bm25", "page_id"}
        assert {one for action in plan.actions for one in action.page_ids} <= {"tp-1/0", "tp-2/0"}
        assert {label for sentence in written.sentences for label in sentence.sources} <= set(labels)
    assert asking.degraded == []
    assert len(tiny.asked) == 3 * ROUNDS


class _Found(msgspec.Struct):
    page: Any
