"""The initiative keeps still for as long as a person waits: also for an earlier turn, and while the session is read."""

import asyncio
from contextlib import contextmanager

from gaiad.base.clock import SystemClock
from gaiad.base.ports import RequestContext
from gaiad.models.plain.scripted import ScriptedReply
from gaiad.wire.chat import ChatRequest
from tests.makers.council_house import ROLES, House


class Waiting:
    """How many people wait now."""

    number = 0

    @contextmanager
    def person(self):
        self.number += 1
        try:
            yield
        finally:
            self.number -= 1


async def test_who_waits_for_an_earlier_turn_of_the_session_is_a_person_too(open_archive, tmp_path, config):
    archive, waiting = await open_archive(), Waiting()
    (tmp_path / "house").mkdir()
    says = {role: [ScriptedReply(text="RESPONSE: I heard you.")] for role in ROLES}
    house = await House(tmp_path / "house", archive, SystemClock("UTC"), config, says).open()
    try:
        house.taker._services.person = waiting.person
        read, seen = archive.session_turns, []

        async def reading(*arguments, **more):
            seen.append(waiting.number)
            return await read(*arguments, **more)

        archive.session_turns = reading
        first = house.taker.take(ChatRequest(message="one", session_id="s", depth="fast"), RequestContext())
        assert (await anext(first))[0] == "turn"
        second = house.taker.take(ChatRequest(message="two", session_id="s", depth="fast"), RequestContext())
        begun = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0)
        assert (waiting.number, begun.done()) == (2, False)
        [event async for event in first]
        assert (await begun)[0] == "turn"
        assert waiting.number == 1
        assert seen == [1, 1], "the session is read with the person waiting"
        await second.aclose()
        assert waiting.number == 0
    finally:
        await house.close()
