"""Random weights in a real worker keep every stage's contract, also when their tokens end in the middle."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from council.ballots import ballot_schema, read_ballot, read_ballot_text
from council.execute_review import CommandReview, read_review
from council.limits import council_limits
from council.roles import STAGES
from council.stage_output import read_output
from council.stages import Form, fitted_schema, stage_form
from gaiad.base.clock import SystemClock
from gaiad.base.ports import RequestContext
from gaiad.models.generator import GeneratorSettings, WorkerGenerator
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.wire.generation import Generated, GenerateRequest, Segment
from tests.makers.llama_files import write_tiny_llama

TOKENS = 64
SEEDS = 6


@pytest.fixture
async def generator(tmp_path: Path) -> AsyncIterator[WorkerGenerator]:
    clock = SystemClock("UTC")
    path = write_tiny_llama(tmp_path / "tiny.gguf")
    tokens = TokenWorker(clock)
    await tokens.start()
    settings = GeneratorSettings(threads=1, flash="off", parallel=4)
    made = WorkerGenerator(path, settings, clock, role="writer", tokenizer=tokens.tokenizer(path, ""))
    await made.start()
    await made.wait_ready(30.0)
    yield made
    await made.close()
    await tokens.close()


async def replies(generator: WorkerGenerator, form: Form, tokens: int) -> list[Generated]:
    async def one(seed: int) -> Generated:
        request = GenerateRequest(
            segments=[Segment("Now: ")], max_tokens=tokens, seed=seed, contract=form.contract, schema=form.schema
        )
        events = [event async for event in generator.generate(request, RequestContext())]
        assert isinstance(events[-1], Generated)
        return events[-1]

    return await asyncio.gather(*map(one, range(SEEDS)))


async def test_every_contract_is_kept_in_few_tokens(generator: WorkerGenerator) -> None:
    for stage in STAGES:
        for last in await replies(generator, stage_form(stage, TOKENS), TOKENS):
            reading = read_output(stage, last.text, 0.3)
            if stage in ("plan", "refine") and reading.value is None:  # cut in its first step
                assert last.reason == "length", (stage, last.text)
                continue
            assert reading.outcome in ("ok", "low_confidence", "interrupt", "success", "fail"), (stage, last.text)


async def test_a_ballot_that_was_given_room_is_whole(generator: WorkerGenerator) -> None:
    """A token a byte, as these weights have it, is the worst there is."""
    for last in await replies(generator, Form(schema=ballot_schema(64)), 420):
        assert last.reason == "end"
        assert read_ballot(last.text).vote in ("yes", "no", "abstain")


async def test_a_ballot_and_a_review_in_their_shipped_room_are_read(generator: WorkerGenerator) -> None:
    limits = council_limits()
    tokens = limits.voting.ballot_tokens
    for last in await replies(generator, Form(schema=ballot_schema(tokens)), tokens):
        assert read_ballot_text(last.text).vote in ("yes", "no", "abstain"), last.text
    tokens = limits.execute.review_tokens
    for last in await replies(generator, Form(schema=fitted_schema(CommandReview, tokens)), tokens):
        found = read_review(last.text)
        assert f'"{found.verdict}"' in last.text, last.text
        assert "cannot be read" not in found.reason
