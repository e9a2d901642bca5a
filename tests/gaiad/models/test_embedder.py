import asyncio
import os
import signal
import time

import numpy as np
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.errors import Cancelled, DeadlineExceeded, Unavailable
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.supervision.process import RestartPolicy
from tests.makers.waiting import until

CLOCK = SystemClock("UTC")
LONG_JOB = [f"{number} " + "some words of a long page, " * 18 for number in range(24)]
ENDLESS_JOB = LONG_JOB * 20


def background() -> RequestContext:
    return RequestContext(priority=Priority.BACKGROUND)


async def test_rows_have_length_one_and_follow_the_texts(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert)
    texts = ["a longer text than the others", "short", "", "short", "x" * 40]
    rows = await embedder.embed(texts, RequestContext())
    assert rows.shape == (5, embedder.dimension) == (5, 32)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(rows[1], rows[3])
    for index, text in enumerate(texts):
        alone = await embedder.embed([text], background())
        assert np.allclose(alone[0], rows[index], atol=1e-4)
    assert not np.allclose(rows[0], rows[1], atol=1e-2)


async def test_no_texts_give_no_rows(open_embedder, tiny_bert):
    assert (await (await open_embedder(tiny_bert)).embed([], RequestContext())).shape == (0, 32)


async def test_odd_text_is_embedded_too(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert)
    odd = ["\x00nul\x00", "lone \ud800 surrogate", "日本語 ☃ 𝄞", "[CLS] [SEP] [MASK]", " \n\t ", "a" * 5000]
    rows = await embedder.embed(odd, RequestContext())
    assert np.isfinite(rows).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)


async def test_a_long_text_is_the_weighted_mean_of_its_windows(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert)
    first, second = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 2, "0 1 2 3 4 5 6 7 8 9 " * 5 + "! ?"
    tokens = len((first + second).split())
    assert tokens > 62, "the text must be longer than the model's window of 64 with two tokens around it"
    pieces = -(-tokens // 62)
    size = -(-tokens // pieces)
    words = (first + second).split()
    windows = [words[start : start + size] for start in range(0, tokens, size)]
    parts = await embedder.embed([" ".join(window) for window in windows], RequestContext())
    expected = sum(part * (len(window) + 2) for part, window in zip(parts, windows, strict=True))
    whole = await embedder.embed([first + second], RequestContext())
    assert np.allclose(whole[0], expected / np.linalg.norm(expected), atol=1e-4)
    assert not np.allclose(whole[0], parts[0], atol=1e-2), "only the first window was read"


async def test_repeats_within_a_call_are_computed_once(open_embedder, tiny_bert, monkeypatch):
    embedder = await open_embedder(tiny_bert)
    sent = []
    submit = embedder._supervisor.submit

    async def counting(make, call):
        sent.append(make(0).texts)
        return await submit(make, call)

    monkeypatch.setattr(embedder._supervisor, "submit", counting)
    await embedder.embed(["same", "same", "other"], RequestContext())
    assert sorted(text for texts in sent for text in texts) == ["other", "same"]
    await embedder.embed(["same"], RequestContext())
    assert len(sent) == 1, "a query asked again comes from the cache"


async def test_fingerprint_and_dimension_are_known_before_the_worker_is_up(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert, wait=False)
    assert embedder.status().state == "starting"
    assert embedder.dimension == 32
    assert ":mean:32:" in embedder.fingerprint
    rows = await embedder.embed(["a call made early waits for the worker"], RequestContext())
    assert rows.shape == (1, 32)
    assert embedder.status().state == "ready"


async def test_a_persons_query_goes_before_a_running_background_job(open_embedder, slow_bert):
    embedder = await open_embedder(slow_bert)
    finished = []

    async def run(name, texts, call):
        rows = await embedder.embed(texts, call)
        finished.append(name)
        return rows

    async with asyncio.TaskGroup() as group:
        job = group.create_task(run("background", LONG_JOB, background()))
        await asyncio.sleep(0.2)
        assert not job.done(), "the background job must still run"
        group.create_task(run("query", ["a query"], RequestContext()))
    assert finished == ["query", "background"]
    alone = await embedder.embed(LONG_JOB[:1], background())
    assert np.allclose(job.result()[0], alone[0], atol=1e-4), "the interrupted batch was not run again"


async def test_a_cancelled_call_frees_the_worker(open_embedder, slow_bert):
    embedder = await open_embedder(slow_bert)
    pid, call = embedder.status().pid, background()
    async with asyncio.TaskGroup() as group:
        job = group.create_task(raises(Cancelled, embedder.embed(ENDLESS_JOB, call)))
        await asyncio.sleep(0.2)
        call.cancel()
    assert job.done()
    started = time.monotonic()
    await embedder.embed(["next"], background())
    assert time.monotonic() - started < 10.0, "the cancelled job still ran"
    assert embedder.status().pid == pid, "the worker obeyed and was not killed"


async def test_a_deadline_is_kept(open_embedder, slow_bert):
    embedder = await open_embedder(slow_bert)
    call = RequestContext(priority=Priority.BACKGROUND, deadline=CLOCK.monotonic() + 0.2)
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await embedder.embed(ENDLESS_JOB, call)
    assert time.monotonic() - started < 10.0


async def test_background_beyond_the_backlog_is_refused_with_a_number(open_embedder, slow_bert):
    embedder = await open_embedder(slow_bert, max_backlog_pages=6)
    call = background()
    async with asyncio.TaskGroup() as group:
        group.create_task(raises(Cancelled, embedder.embed(LONG_JOB, call)))
        await asyncio.sleep(0.1)
        with pytest.raises(Unavailable, match="24 texts already wait"):
            await embedder.embed(["one more"], background())
        call.cancel()


async def test_a_worker_killed_mid_request_is_replaced_and_the_call_still_answered(open_embedder, slow_bert):
    embedder = await open_embedder(slow_bert)
    pid = embedder.status().pid
    async with asyncio.TaskGroup() as group:
        job = group.create_task(embedder.embed(LONG_JOB[:8], background()))
        await asyncio.sleep(0.1)
        assert not job.done()
        os.kill(pid, signal.SIGKILL)
    assert job.result().shape[0] == 8
    status = embedder.status()
    assert status.state == "ready"
    assert status.pid != pid
    assert status.restarts == 1


async def test_a_stopped_worker_is_killed_and_replaced(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert, restart_policy=RestartPolicy(ping_every_s=0.2, ping_grace_s=0.5))
    pid = embedder.status().pid
    os.kill(pid, signal.SIGSTOP)
    rows = await embedder.embed(["answered by the next worker"], background())
    assert rows.shape == (1, 32)
    assert embedder.status().pid != pid


async def test_a_worker_that_ignores_a_cancel_is_killed(open_embedder, tiny_bert):
    restart_policy = RestartPolicy(cancel_grace_s=0.3, first_backoff_s=0.02)
    embedder = await open_embedder(tiny_bert, restart_policy=restart_policy)
    pid = embedder.status().pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(DeadlineExceeded):
        await embedder.embed(["x"], RequestContext(deadline=CLOCK.monotonic() + 0.1))
    await until(lambda: embedder.status().pid not in (0, pid) and embedder.status().state == "ready")


async def test_repeated_deaths_end_in_failed_with_the_signal_named(open_embedder, tiny_bert):
    embedder = await open_embedder(tiny_bert)
    for _ in range(3):
        await until(lambda: embedder.status().state == "ready")
        pid = embedder.status().pid
        os.kill(pid, signal.SIGSEGV)
        await until(lambda pid=pid: embedder.status().pid != pid)
    await until(lambda: embedder.status().state == "failed")
    assert "SIGSEGV" in embedder.status().reason
    with pytest.raises(Unavailable, match="SIGSEGV"):
        await embedder.embed(["x"], RequestContext())
    await embedder.start()
    await embedder.wait_ready(30.0)
    assert (await embedder.embed(["x"], RequestContext())).shape == (1, 32)


async def test_closing_leaves_no_process(open_embedder, tiny_bert, slow_bert):
    for path in (tiny_bert, slow_bert):
        embedder = await open_embedder(path)
        pid = embedder.status().pid
        async with asyncio.TaskGroup() as group:
            group.create_task(raises(Unavailable, embedder.embed(LONG_JOB, background())))
            await asyncio.sleep(0.05)
            await embedder.close()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert embedder.status().state == "inactive"


async def raises(kind, work):
    with pytest.raises(kind):
        await work
