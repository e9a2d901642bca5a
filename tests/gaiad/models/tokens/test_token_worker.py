"""What a death of the tokenizer child costs, and whom."""

import asyncio
import os
import signal

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import BadInput, DeadlineExceeded, Unavailable, WorkerDied
from gaiad.base.ports import RequestContext
from gaiad.models.supervision.process import RestartPolicy
from gaiad.models.supervision.protocol import Tokenize
from gaiad.models.tokens.token_worker import BLAME_S, CrashRecord, Gate, TokenWorker
from gaiad.wire.generation import Segment
from tests.makers.waiting import until
from tests.makers.word_files import write_bpe_gguf

CLOCK = SystemClock("UTC")
LONG = [[Segment("many words in one text " * 120_000)]]  # a second or more in a throw-away process


@pytest.fixture(scope="module")
def bpe(tmp_path_factory):
    return write_bpe_gguf(tmp_path_factory.mktemp("words") / "bpe.gguf")


async def killed(tokens, signal_number):
    """Kill the child once it is up; returns when it is gone."""
    await until(lambda: tokens.status().state == "ready" and tokens.status().pid)
    pid = tokens.status().pid
    os.kill(pid, signal_number)
    await until(lambda: tokens.status().pid != pid)


async def test_a_kill_9_between_two_calls_is_not_noticed(tokens, tiny_llama):
    tokenizer = tokens.tokenizer(tiny_llama)
    assert await tokenizer.count([[Segment("one")]], RequestContext()) == [3]
    await killed(tokens, signal.SIGKILL)
    assert await tokenizer.count([[Segment("three")]], RequestContext()) == [5]
    assert await tokenizer.count([[Segment("one")]], RequestContext()) == [3]
    assert tokens.status().restarts == 1


async def test_a_kill_9_under_a_call_is_tried_again_once(tokens, bpe):
    tokenizer = tokens.tokenizer(bpe)
    await tokenizer.count([[Segment("warm")]], RequestContext())
    async with asyncio.TaskGroup() as group:
        counting = [
            group.create_task(tokenizer.count([[Segment(f"{n}"), *LONG[0]]], RequestContext())) for n in range(2)
        ]
        await asyncio.sleep(0.2)
        await killed(tokens, signal.SIGKILL)
        short = await tokenizer.count([[Segment("short")]], RequestContext())
    assert short[0] > 0
    assert all(task.result()[0] > 400_000 for task in counting)


async def test_two_deaths_from_outside_blame_nobody(tokens, bpe):
    tokenizer = tokens.tokenizer(bpe)
    await tokenizer.count([[Segment("warm")]], RequestContext())

    async def dies():
        with pytest.raises(WorkerDied, match="SIGKILL"):
            await tokenizer.count(LONG, RequestContext())

    async with asyncio.TaskGroup() as group:
        counting = group.create_task(dies())
        for _ in range(2):
            await until(lambda: tokens.status().state == "ready")
            await asyncio.sleep(0.3)  # now the child has the request
            await killed(tokens, signal.SIGKILL)
        await counting
    assert (await tokenizer.count(LONG, RequestContext()))[0] > 400_000


async def test_who_crashes_it_twice_is_refused_and_the_others_are_served(tokens, bpe, tiny_llama):
    guilty, other = tokens.tokenizer(bpe), tokens.tokenizer(tiny_llama)
    await guilty.count([[Segment("warm")]], RequestContext())

    async def crashes():
        with pytest.raises(BadInput, match=r"bpe\.gguf: the tokenizer crashed twice on this request.*SIGSEGV"):
            await guilty.count(LONG, RequestContext())

    async def is_served():
        return [
            (await other.count([[Segment(f"text {n}")]], RequestContext()))[0]
            for n in range(40)
            if not await asyncio.sleep(0.05)
        ]

    async with asyncio.TaskGroup() as group:
        served = group.create_task(is_served())
        counting = group.create_task(crashes())
        for _ in range(2):
            await until(lambda: tokens.status().state == "ready")
            await asyncio.sleep(0.3)  # now the child has the request
            await killed(tokens, signal.SIGSEGV)
        await counting
    assert served.result() == [6] * 10 + [7] * 30
    restarts = tokens.status().restarts
    with pytest.raises(BadInput, match="twice"):
        await guilty.count(LONG, RequestContext())
    assert tokens.status().restarts == restarts, "it was not asked again"
    assert (await guilty.count([[Segment("another text of the same file")]], RequestContext()))[0] > 0


async def test_a_child_that_hangs_is_killed_after_a_missed_cancel(bpe):
    tokens = TokenWorker(CLOCK, RestartPolicy(cancel_grace_s=0.3, first_backoff_s=0.02))
    await tokens.start()
    try:
        tokenizer = tokens.tokenizer(bpe)
        await tokenizer.count([[Segment("warm")]], RequestContext())
        pid = tokens.status().pid
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(DeadlineExceeded):
            await tokenizer.count([[Segment("never")]], RequestContext(deadline=CLOCK.monotonic() + 0.2))
        assert await tokenizer.count([[Segment("again")]], RequestContext())
        assert tokens.status().pid != pid
    finally:
        await tokens.close()


async def test_one_that_was_never_started_says_so(bpe):
    with pytest.raises(Unavailable, match="tokenizer: not started"):
        await TokenWorker(CLOCK).tokenizer(bpe).count([[Segment("x")]], RequestContext())


async def test_status_names_the_role_and_no_file(tokens):
    await tokens.wait_ready(30.0)
    status = tokens.status()
    assert (status.role, status.state, status.path_or_url) == ("tokenizer", "ready", "")
    assert status.memory_bytes < 200 << 20


async def test_who_wants_to_be_alone_waits_for_those_inside_and_stops_newcomers():
    gate, order = Gate(CLOCK), []
    leave = asyncio.Event()

    async def stays():
        async with gate.together(RequestContext()):
            await leave.wait()
            order.append("stays")

    async def alone(name):
        async with gate.alone(RequestContext()):
            order.append(name)
            await asyncio.sleep(0.02)
            order.append(f"{name} done")

    async def newcomer():
        async with gate.together(RequestContext()):
            order.append("newcomer")

    async with asyncio.TaskGroup() as group:
        for work in (stays(), alone("a"), alone("b"), newcomer()):
            group.create_task(work)
            await asyncio.sleep(0.01)
        with pytest.raises(DeadlineExceeded):
            async with gate.together(RequestContext(deadline=CLOCK.monotonic() + 0.05)):
                pass
        leave.set()
    first, second = sorted([("a", "a done"), ("b", "b done")], key=lambda pair: order.index(pair[0]))
    assert order == ["stays", *first, *second, "newcomer"]


class Hours:
    """A clock that is put forward by hand."""

    now = 0.0

    def monotonic(self):
        return self.now


def asked(text, number=1):
    return Tokenize(id=number, path="/m.gguf", texts=[[Segment(text)]], counts_only=True, beginning=False)


def test_blame_is_for_one_request_until_its_file_has_several_and_ends_in_time():
    clock = Hours()
    blame = CrashRecord(clock)
    assert "crash" in blame.record(asked("a", 7), "crash").message
    with pytest.raises(BadInput, match="twice on this request"):
        blame.refuse(asked("a", 9))
    blame.refuse(asked("b"))
    for text in "bc":
        blame.record(asked(text), "crash")
    with pytest.raises(BadInput, match=r"/m\.gguf: the tokenizer crashed on this file repeatedly"):
        blame.refuse(asked("innocent"))
    clock.now = BLAME_S + 1
    blame.refuse(asked("a"))
