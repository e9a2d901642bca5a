import asyncio

import msgspec

from gaiad.base.clock import SystemClock
from gaiad.base.ports import Priority, RequestContext
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from gaiad.turn.beside import PrefixWarmup, as_history
from gaiad.wire.generation import Generated
from prompts.messages import messages_of
from prompts.packet import ContextItem, HistoryEntry
from tests.makers.cognition import packet


class Listening:
    """A model that notes what it is asked, and may take its time."""

    def __init__(self, kind="gguf", pause_s=0.0):
        self.kind, self.name, self.pause_s = kind, "one", pause_s
        self.asked, self.ended = [], 0

    async def generate(self, request, call):
        self.asked.append((request, call))
        try:
            await asyncio.sleep(self.pause_s)
            yield Generated(
                text="x",
                reason="length",
                stop="",
                prompt_tokens=1,
                cached_tokens=0,
                tokens=1,
                seed=0,
                fingerprint="f",
                queue_ms=0.0,
                prefill_ms=0.0,
                decode_ms=0.0,
            )
        finally:
            self.ended += 1


async def text_of(one):
    rendered = await WordTokenizer(SystemClock("UTC")).render(messages_of(one), RequestContext())
    return "".join(segment.text for segment in rendered)


async def test_what_is_read_is_the_beginning_of_the_next_prompt_up_to_its_question():
    now = packet()
    said = [
        HistoryEntry(turn_id="t2", role="user", text="What now?"),
        HistoryEntry(turn_id="t2", role="assistant", text="We wait."),
    ]
    old_page = ContextItem(packet_id="TP-1", page_id="p1", text="The lantern.", before_turn="t2")
    following = msgspec.structs.replace(
        now, turn_id="t3", history=[*now.history, *said], context=[old_page], user_prompt="And then?"
    )
    ahead, whole = await text_of(as_history(now, "We wait.")), await text_of(following)
    read = whole.partition("system: You plan.")[0]
    assert "We wait." in read
    assert ahead.startswith(read)
    assert "Write a plan." not in ahead


async def test_only_a_model_whose_cache_is_here_reads_and_nobody_waits_for_it():
    ahead = PrefixWarmup()
    for model in (Listening("openai"), Listening("extractive"), Listening("scripted")):
        ahead.begin(packet(), "We wait.", model, "local", "s")
    silent, model = Listening(), Listening(pause_s=60.0)
    ahead.begin(packet(), "", silent, "local", "s")
    ahead.begin(packet(), "We wait.", model, "work", "s")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert silent.asked == []
    ((request, call),) = model.asked
    assert (request.max_tokens, call.tenant, call.priority) == (1, "work", Priority.BACKGROUND)
    await ahead.stop()
    assert model.ended == 1


async def test_a_turn_stops_what_is_read_for_its_own_session_only():
    ahead, models = PrefixWarmup(), {name: Listening(pause_s=60.0) for name in ("one", "two")}
    for name, model in models.items():
        ahead.begin(packet(), "We wait.", model, "local", name)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await ahead.stop_session("other tenant", "one")
    assert [model.ended for model in models.values()] == [0, 0]
    await ahead.stop_session("local", "one")
    assert [model.ended for model in models.values()] == [1, 0]
    await ahead.stop_session("local", "one")
    await ahead.stop()
    assert [model.ended for model in models.values()] == [1, 1]
