"""Nothing a rule forbids is released, a model can stop what comes after, and neither holds the stream up."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from council.limits import council_limits
from council.observer import Observer, Windows, whole_sentences
from council.observer_rules import ObserverRules, observer_table
from gaiad.base.errors import Unavailable
from gaiad.base.ports import Priority, RequestContext
from tests.makers.council import MadeFloor, MadeSpeaker, MadeTime

LIMITS = msgspec.structs.replace(council_limits().observer, every_characters=40, shown_characters=60)
KEY = "AKIA" + "Q7" * 8
FINE = '{"interrupt": false, "reason": ""}'
STOP = '{"interrupt": true, "reason": "it gives a wrong date"}'


def rules() -> ObserverRules:
    return ObserverRules(["You are GAIA."], ["RESPONSE"], observer_table())


class Watched:
    """An observer whose model says what `words` has."""

    def __init__(self, words=FINE, limits=LIMITS, deadline=None):
        self.time = MadeTime()
        self.floor, self.speaker = MadeFloor(self.time), MadeSpeaker(self.time, lite=words)
        self.call = RequestContext("blue", deadline, turn_id="turn_1")
        self.observer = Observer(
            rules(),
            Windows(
                role="lite", floor=self.floor, speaker=self.speaker, clock=self.time, limits=limits, call=self.call,
                max_tokens=96, question="When was it?", turn_id="turn_1", session_id="ses_1",
            ),
        )  # fmt: skip

    async def feed(self, *pieces):
        """What is shown of them, with time for a look after each."""
        shown = []
        for piece in pieces:
            shown.append(self.observer.feed(piece))
            await self.time.settle()
        return "".join(shown)


def words(count, start=0):
    """Text of `count` characters that is no loop."""
    return "".join(f"w{number} " for number in range(start, start + count))[:count]


async def test_a_rule_stops_before_anything_is_shown() -> None:
    observer = Observer(rules())
    shown = observer.feed("The key is ") + observer.feed(KEY[:7]) + observer.feed(KEY[7:] + " and so on")
    assert shown == "The key is "
    assert observer.stop is not None
    stop = await asyncio.wait_for(observer.wait_stop(), 30)
    assert (stop.source, stop.rule, stop.at, stop.role) == ("rule", "secret", 11, "")
    assert KEY not in stop.reason
    assert (observer.feed("more"), observer.finish(), observer.looks) == ("", "", [])
    await observer.close()


async def test_a_text_without_fault_comes_out_whole_and_nobody_waits_for_a_stop() -> None:
    observer = Observer(rules())
    text = "RESPONSE: Hello, all is well. "
    shown = "".join(map(observer.feed, text)) + observer.finish()
    assert (shown, observer.stop) == (text, None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(observer.wait_stop(), 0.01)
    await observer.close()


async def test_a_fault_at_the_very_end_is_found_when_the_stream_finishes() -> None:
    observer = Observer(rules())
    assert observer.feed(f"it is {KEY}") == "it is "
    assert observer.finish() == ""
    assert observer.stop is not None
    assert observer.stop.rule == "secret"


async def test_the_model_is_shown_the_last_of_the_released_text_in_the_background() -> None:
    watched = Watched()
    await watched.feed(*(words(25, start) for start in range(0, 200, 25)))
    ask, call = watched.speaker.asks[-1], watched.speaker.calls[-1]
    assert (ask.role, ask.task_instruction, ask.turn_id) == ("lite", "observer_window", "turn_1")
    asked, response = ask.work
    assert (asked.marker, asked.text, response.marker) == ("QUESTION", "When was it?", "RESPONSE")
    window = response.text
    assert window not in ask.subject, "what a model wrote is fenced"
    assert 0 < len(window) <= LIMITS.shown_characters
    assert ask.form.schema is not None
    assert (call.tenant, call.priority, call.deadline) == ("blue", Priority.BACKGROUND, LIMITS.look_s)
    looks = watched.observer.looks
    assert [look.outcome for look in looks] == ["ok"] * len(looks)
    assert 3 <= len(looks) <= 200 // LIMITS.every_characters
    assert [look.tokens for look in looks] == [7] * len(looks)
    assert watched.observer.stop is None
    await watched.observer.close()


async def test_an_interrupt_of_the_model_stops_what_comes_after() -> None:
    watched = Watched([FINE, STOP])
    waiting = asyncio.get_running_loop().create_task(watched.observer.wait_stop())
    shown = await watched.feed(*(words(30, start) for start in range(0, 300, 30)))
    stop = await waiting
    assert (stop.source, stop.reason, stop.role) == ("model", "it gives a wrong date", "lite")
    assert stop.at == len(shown) < 150, "nothing more is released"
    assert watched.observer.finish() == ""
    assert [look.outcome for look in watched.observer.looks] == ["ok", "interrupt"]
    await watched.observer.close()


async def test_the_model_is_not_shown_the_sentence_that_is_still_being_written() -> None:
    watched = Watched(limits=msgspec.structs.replace(LIMITS, shown_characters=200))
    await watched.feed("It opened in May 1901, says the log. It ", "was painted red (twice!) and its keep")
    assert watched.speaker.asks[-1].work[1].text == "It opened in May 1901, says the log."
    await watched.feed("er was Zephyrine. She had a dog named \u201cBo.\u201d In the winter of that year s")
    assert watched.speaker.asks[-1].work[1].text.endswith("keeper was Zephyrine. She had a dog named \u201cBo.\u201d")
    await watched.observer.close()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("3.5 m is deep. It was 3.", "3.5 m is deep."),
        ("- one\n- two\n- thr", "- one\n- two"),
        ("\u5b83\u662f\u7ea2\u8272\u7684\u3002\u5b83\u5f88", "\u5b83\u662f\u7ea2\u8272\u7684\u3002"),
        ("no end yet", "no end yet"),
        ("", ""),
    ],
)
def test_sentences_that_have_ended_are_whole(text: str, whole: str) -> None:
    assert whole_sentences(text) == whole


async def test_it_looks_only_when_its_model_is_free_and_at_one_window_at_a_time() -> None:
    watched = Watched((5, FINE))
    watched.floor.free = set()
    await watched.feed(words(100))
    assert watched.speaker.asks == []
    watched.floor.free = {"lite"}
    await watched.feed(words(50, 100), words(50, 150), words(50, 200))
    assert len(watched.speaker.asks) == 1
    await watched.time.pass_by(6)
    await watched.feed(words(50, 250))
    assert len(watched.speaker.asks) == 2
    await watched.observer.close()


async def test_the_end_of_the_stream_cancels_the_look_and_nothing_waits_for_it() -> None:
    watched = Watched((10_000, STOP))
    await watched.feed(words(60))
    watched.observer.finish()
    assert watched.speaker.calls[0].cancelled
    await asyncio.wait_for(watched.observer.close(), 30)
    assert (watched.observer.stop, watched.time.monotonic()) == (None, 0)
    (look,) = watched.observer.looks
    assert (look.outcome, look.why, look.tokens) == ("lost", "the text ended first", 0)
    assert watched.call.cancelled is False, "the turn goes on"


async def test_a_look_that_comes_back_after_the_end_stops_nothing() -> None:
    watched = Watched((5, STOP))
    await watched.feed(words(60))
    watched.observer.finish()
    await watched.time.pass_by(6)
    assert watched.observer.stop is None
    assert [look.outcome for look in watched.observer.looks] == ["interrupt"], "it is on record"
    await watched.observer.close()


async def test_a_rule_cancels_the_look_of_the_model() -> None:
    watched = Watched((10_000, FINE))
    await watched.feed(words(60), f" {KEY} ")
    assert watched.observer.stop is not None
    assert watched.observer.stop.source == "rule"
    assert watched.speaker.calls[0].cancelled
    await watched.observer.close()


async def test_after_two_lost_looks_it_looks_no_more_at_this_text() -> None:
    watched = Watched([Unavailable("lite: busy"), "I have no idea", STOP])
    await watched.feed(*(words(50, start) for start in range(0, 500, 50)))
    assert [look.outcome for look in watched.observer.looks] == ["lost", "unreadable"]
    assert watched.observer.looks[0].why == "lite: busy"
    assert (len(watched.speaker.asks), watched.observer.stop) == (2, None)
    await watched.observer.close()


async def test_a_look_that_takes_too_long_is_lost() -> None:
    watched = Watched((10_000, STOP), msgspec.structs.replace(LIMITS, look_s=0.02), deadline=100.0)
    await watched.feed(words(60))
    async with asyncio.timeout(30):
        while not watched.observer.looks:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [look.outcome for look in watched.observer.looks] == ["lost"]
    assert "no judgement in 0.02 s" in watched.observer.looks[0].why
    await watched.observer.close()


@settings(max_examples=60)
@given(
    pieces=st.lists(st.text(alphabet="ab \n:RESPONSEk$./", max_size=30), max_size=12),
    says=st.sampled_from([FINE, STOP, "?", Unavailable("busy")]),
)
def test_with_a_model_nothing_more_is_released_than_the_rules_release(pieces, says) -> None:
    async def course() -> None:
        watched, bare = Watched(says), Observer(rules())
        shown = await watched.feed(*pieces) + watched.observer.finish()
        alone = "".join(map(bare.feed, pieces)) + bare.finish()
        assert alone.startswith(shown)
        if watched.observer.stop is None or watched.observer.stop.source == "rule":
            assert (shown, watched.observer.stop) == (alone, bare.stop)
        await watched.observer.close()

    asyncio.run(course())
