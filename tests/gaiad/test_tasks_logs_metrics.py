"""Small parts everything stands on: owned tasks, logs without secrets, counters and latencies."""

import asyncio
import json
import logging

import pytest
import structlog

from gaiad.base.errors import BadInput, GaiadError, PacketRejected, Unavailable
from gaiad.base.logs import RateLimit, configure_logs, hide_secrets
from gaiad.base.metrics import Metrics
from gaiad.base.tasks import TaskGroup


async def test_a_failed_task_is_reported_by_name() -> None:
    heard: list[tuple[str, str]] = []
    async with TaskGroup("watch", lambda name, error: heard.append((name, str(error)))) as tasks:

        async def fail() -> None:
            raise ValueError("no such folder")

        tasks.start("rescan", fail())
        for _ in range(3):
            await asyncio.sleep(0)
    assert heard == [("watch/rescan", "no such folder")]


async def test_a_task_that_fails_as_foreseen_is_one_line_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "console")
    async with TaskGroup("council") as tasks:

        async def fail(error: Exception) -> None:
            raise error

        tasks.start("beat", fail(Unavailable("state.db: the disk is full")))
        tasks.start("other", fail(ValueError("a fault")))
        await tasks.wait()
    structlog.reset_defaults()
    written = capsys.readouterr().err
    assert ("council/beat" in written, written.count("the disk is full")) == (True, 1)
    assert written.count("Traceback") == 1


async def test_leaving_the_group_cancels_what_still_runs() -> None:
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with TaskGroup("loop") as tasks:
        task = tasks.start("forever", forever())
        await asyncio.sleep(0)
    assert ended.is_set()
    assert task.cancelled()


def test_logs_are_json_with_context_and_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    with structlog.contextvars.bound_contextvars(turn_id="turn_1", tenant="local"):
        log = structlog.get_logger("test")
        log.debug("unseen")
        log.info("asked", token="abcdef", header="Bearer abcdefgh12345678", question="what?")
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["turn_id"], entry["tenant"], entry["event"], entry["question"]) == (
        "turn_1",
        "local",
        "asked",
        "what?",
    )
    assert entry["token"] == "[hidden]"
    assert entry["header"] == "Bearer [hidden]"


def test_an_event_that_repeats_is_cut_off_and_counted() -> None:
    now = [0.0]
    limit = RateLimit(lambda: now[0])

    def logged(method: str = "warning") -> int:
        lines = 0
        for _ in range(1000):
            try:
                limit(None, method, {"event": "flood"})
                lines += 1
            except structlog.DropEvent:
                continue
        return lines

    assert logged() == 50
    assert limit(None, "warning", {"event": "other"}) == {"event": "other"}
    assert logged("debug") == 1000
    now[0] = 10.0
    assert limit(None, "warning", {"event": "flood"})["lines_dropped"] == 950


def test_what_libraries_log_is_an_event_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "json")
    logging.getLogger("asyncio").error("no more %s", "files")
    entry = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert (entry["event"], entry["level"], entry["message"]) == ("asyncio", "error", "no more files")


def test_counts_of_tokens_are_not_secrets() -> None:
    assert hide_secrets(None, "info", {"tokens": 12})["tokens"] == 12


def test_metrics_count_and_summarise() -> None:
    metrics = Metrics()
    metrics.count("search")
    metrics.count("search", 2)
    for value in [1.0] * 90 + [50.0] * 10:
        metrics.observe_ms("search", value)
    summary = metrics.latencies()["search"]
    assert metrics.counters() == {"search": 3}
    assert (summary.count, summary.p50_ms, summary.p95_ms) == (100, 1.0, 60.0)
    assert summary.mean_ms == pytest.approx(5.9)


def test_every_error_knows_its_exit_code_and_status() -> None:
    assert (BadInput("x").exit_code, BadInput("x").http_status) == (2, 400)
    assert PacketRejected("not closed", 12).message == "line 12: not closed"
    assert Unavailable("later", 3.0).retry_after_s == 3.0
    assert issubclass(PacketRejected, GaiadError)
