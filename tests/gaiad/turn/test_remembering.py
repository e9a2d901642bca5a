import asyncio

import pytest

from gaiad.clock import SystemClock
from gaiad.ledger.cognition_log import CognitionLog, Record
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.ports import Call
from gaiad.turn.remembering import Keeper, Sent
from prompts.builder import build
from tests.makers.cognition import build_request, session


async def test_what_is_being_kept_is_kept_though_the_caller_is_cancelled_twice():
    keeper, kept, release = Keeper(None, None, SystemClock("UTC")), [], asyncio.Event()

    async def slow():
        await release.wait()
        kept.append("turn")

    async def leave():
        try:
            await asyncio.sleep(60)
        finally:
            await keeper.finish(slow())

    caller = asyncio.ensure_future(leave())
    for _ in range(2):
        await asyncio.sleep(0.01)
        caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert kept == []
    release.set()
    await keeper.close()
    assert kept == ["turn"]


async def test_an_error_of_keeping_is_the_callers():
    async def fails():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await Keeper(None, None, SystemClock("UTC")).finish(fails())


async def test_a_last_packet_of_another_version_is_none_and_told(tmp_path, capfd):
    clock = SystemClock("UTC")
    log = CognitionLog(tmp_path, clock)
    keeper = Keeper(None, log, clock)
    assert await keeper.last_packet("s", Call(), "model") is None
    row = Record(full_id="cog_1", short_id="1", turn_id="t", session_id="s", body=b'{"v": 9}', model="model")
    await log.add("local", row)
    assert await keeper.last_packet("s", Call(), "model") is None
    written = capfd.readouterr()
    assert "cog_1: was kept by another version of gaiad" in written.out + written.err
    await log.close()


async def test_the_last_packet_is_a_turns_however_much_was_asked_beside_it(tmp_path, call):
    clock = SystemClock("UTC")
    log = CognitionLog(tmp_path, clock)
    keeper = Keeper(None, log, clock)

    async def keep(number, *, aside):
        request = build_request(full_id=f"cog_{number:03}", model="print-1", history=[] if aside else session(2))
        built = await build(request, WordTokenizer(clock), None, call)
        sent = Sent(packet=built.packet, manifest=built.manifest, request={}, reply={}, aside=aside)
        await keeper.keep("s", sent, "local")

    await keep(0, aside=True)
    assert await keeper.last_packet("s", Call(), "print-1") is None
    await keep(1, aside=False)
    for number in range(2, 32):
        await keep(number, aside=True)
    last = await keeper.last_packet("s", Call(), "print-1")
    assert (last.full_id, len(last.history)) == ("cog_001", 4)
    assert await keeper.last_packet("s", Call(), "print-2") is None
    assert await keeper.last_packet("another", Call(), "print-1") is None
    blind = Call().without(["secret"], [])
    assert await Keeper(Hiding("another"), log, clock).last_packet("s", blind, "print-1") == last
    assert await Keeper(Hiding(last.history[0].turn_id), log, clock).last_packet("s", blind, "print-1") is None
    await log.close()


class Hiding:
    """An archive in which one turn or packet is not there for the call."""

    def __init__(self, name):
        self._name = name

    async def hidden(self, ids, call):
        return {self._name} & set(ids)
