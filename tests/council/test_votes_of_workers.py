"""Votes among three real workers, of which one is whole, stopped or killed while it is asked."""

import asyncio
import os
import signal

import msgspec
import pytest

from council.balloting import Balloting
from council.limits import council_limits
from council.quorum import council_rules
from council.voting import Voting
from gaiad.base.clock import SystemClock
from gaiad.base.config import ModelConfig, load_config
from gaiad.base.ports import RequestContext
from gaiad.models.pool.making import ModelDependencies
from gaiad.models.pool.pool import ModelPool
from gaiad.models.pool.pooled import Pooled
from gaiad.models.tokens.token_worker import TokenWorker
from gaiad.wire.generation import Generated, GenerateRequest, Segment
from tests.makers.council import ROLES, MadeAudit, MadeFloor, said
from tests.makers.llama_files import write_tiny_llama

LIMITS = msgspec.structs.replace(council_limits().voting, deadline_s=6.0, late_s=0.5)


class WorkersSpeak:
    """Each role by its own worker; `before` happens when a role is asked, before it writes."""

    def __init__(self, pool):
        self.pool, self.before = pool, {}

    async def say(self, ask, call):
        self.before.get(ask.role, lambda: None)()
        request = GenerateRequest(
            segments=[Segment(ask.subject)], max_tokens=ask.max_tokens, seed=7, schema=ask.form.schema
        )
        async for piece in self.pool.model(ask.role).generate(request, call):
            if isinstance(piece, Generated):
                return said(piece.text, piece.tokens)
        raise AssertionError("a worker ends with what it wrote")


@pytest.fixture
async def pool(tmp_path):
    settings = msgspec.structs.replace(load_config(environment={}).models, threads=1, flash_attention="off")
    clock, path = SystemClock("UTC"), str(write_tiny_llama(tmp_path / "tiny.gguf"))
    dependencies = ModelDependencies(
        settings=settings, clock=clock, tokenizer_process=TokenWorker(clock), environment={}
    )
    known = [Pooled(role, ModelConfig(kind="gguf", path=path)) for role in ROLES]
    one = ModelPool({role: role for role in ROLES}, known, dependencies, 2**32)
    await one.start()
    await asyncio.gather(*(one.load(role, RequestContext()) for role in ROLES))
    yield one
    await one.close()


@pytest.fixture
async def council(pool):
    clock = SystemClock("UTC")
    floor, audit, speaker = MadeFloor(clock), MadeAudit(), WorkersSpeak(pool)
    balloting = Balloting(floor, speaker, Voting(council_rules(), LIMITS), audit, clock, LIMITS)

    async def decide():
        return await balloting.decide("local", "execute", "prime", "Run `ls`? ", RequestContext())

    yield speaker, floor, decide
    await balloting.close()


async def test_whole_stopped_and_killed_workers_vote_as_far_as_they_can(council, pool):
    speaker, floor, decide = council
    decision, record = await decide()
    assert (decision.closed_by, len(record.ballots), decision.tally.silent) == ("all_voted", 3, ())

    pid = pool.model("lite").status().pid
    speaker.before["lite"] = lambda: os.kill(pid, signal.SIGSTOP)
    try:
        decision, record = await decide()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (decision.closed_by, decision.tally.silent, len(record.ballots)) == ("deadline", ("lite",), 2)
    assert "lite gave no ballot: too slow" in record.reason

    speaker.before["lite"] = lambda: None
    killed = pool.model("codemind").status().pid
    speaker.before["codemind"] = lambda: os.kill(killed, signal.SIGKILL)
    decision, record = await decide()
    assert "codemind" in decision.tally.silent
    assert {"prime"} <= {one.role for one in record.ballots if not one.uncounted} <= {"prime", "lite"}
    assert len({(vote.sender, vote.parent_full_id) for vote in floor.of("VOTE")}) == len(floor.of("VOTE"))
