import asyncio

import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.ports import RequestContext
from gaiad.ledger.turn_log import CallRecord, CognitionLog
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.store.home_databases import HomeDatabases
from gaiad.turn.turn_record import engine_name
from gaiad.turn.turn_store import Sent, TurnStore
from prompts.builder import build
from tests.makers.cognition import build_request, session


async def test_what_is_being_kept_is_kept_though_the_caller_is_cancelled_twice():
    turn_store, kept, release = TurnStore(None, None, SystemClock("UTC")), [], asyncio.Event()

    async def slow():
        await release.wait()
        kept.append("turn")

    async def leave():
        try:
            await asyncio.sleep(60)
        finally:
            await turn_store.finish(slow())

    caller = asyncio.ensure_future(leave())
    for _ in range(2):
        await asyncio.sleep(0.01)
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert kept == []
    release.set()
    await turn_store.close()
    assert kept == ["turn"]


@pytest.fixture
def databases(tmp_path):
    databases = HomeDatabases(tmp_path)
    yield databases
    databases.close()


async def test_an_error_of_keeping_is_the_callers():
    async def fails():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await TurnStore(None, None, SystemClock("UTC")).finish(fails())


async def test_a_last_packet_of_another_version_is_none_and_told(databases, capfd):
    clock = SystemClock("UTC")
    log = CognitionLog(databases, clock)
    turn_store = TurnStore(None, log, clock)
    assert await turn_store.last_packet("s", RequestContext(), "model") is None
    row = CallRecord(full_id="cog_1", short_id="1", turn_id="t", session_id="s", body=b'{"v": 9}', model="model")
    await log.add("local", row)
    assert await turn_store.last_packet("s", RequestContext(), "model") is None
    written = capfd.readouterr()
    assert "cog_1: was kept by another version of gaiad" in written.out + written.err


async def test_the_last_packet_is_a_turns_however_much_was_asked_beside_it(databases, call):
    clock = SystemClock("UTC")
    log = CognitionLog(databases, clock)
    turn_store = TurnStore(None, log, clock)

    async def keep(number, *, aside):
        request = build_request(full_id=f"cog_{number:03}", model="print-1", history=[] if aside else session(2))
        built = await build(request, WordTokenizer(clock), None, call)
        sent = Sent(packet=built.packet, manifest=built.manifest, request={}, reply={}, aside=aside)
        await turn_store.keep("s", sent, "local")

    await keep(0, aside=True)
    assert await turn_store.last_packet("s", RequestContext(), "print-1") is None
    await keep(1, aside=False)
    for number in range(2, 32):
        await keep(number, aside=True)
    last = await turn_store.last_packet("s", RequestContext(), "print-1")
    assert (last.full_id, len(last.history)) == ("cog_001", 4)
    assert await turn_store.last_packet("s", RequestContext(), "print-2") is None
    assert await turn_store.last_packet("another", RequestContext(), "print-1") is None
    blind = RequestContext().without(["secret"], [])
    assert await TurnStore(Hiding("another"), log, clock).last_packet("s", blind, "print-1") == last
    assert await TurnStore(Hiding(last.history[0].turn_id), log, clock).last_packet("s", blind, "print-1") is None


class Hiding:
    """An archive in which one turn or packet is not there for the call."""

    def __init__(self, name):
        self._name = name

    async def hidden(self, ids, call):
        return {self._name} & set(ids)


def test_a_model_set_by_its_path_goes_by_the_name_of_its_file():
    assert engine_name("/models/a/owl-q4.gguf", "gguf") == "owl-q4.gguf (gguf)"
    assert engine_name("owl", "gguf") == "owl (gguf)"
    assert engine_name("extractive", "extractive") == "extractive"
