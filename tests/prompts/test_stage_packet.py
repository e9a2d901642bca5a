"""A turn's packet for its next stage: the same beginning, the stage's own end, counted to the token."""

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaiad.base.clock import FrozenClock
from gaiad.base.errors import TokenBudgetError
from gaiad.models.tokens.word_tokenizer import WordTokenizer, count_words
from gaiad.wire.generation import Segment
from prompts.budget import Built
from prompts.builder import build, retarget
from prompts.compress import BudgetOverrun, Compressed, Compressor
from prompts.counting import PromptCounter
from prompts.messages import messages_of
from prompts.packet import SUMMARY_TAG, CognitionPacket, FieldReport, WorkItem
from prompts.work import equal_share, work_room
from tests.makers.cognition import build_request, pages, session
from tests.makers.word_embedder import WordEmbedder
from tests.prompts.test_builder_properties import REQUESTS, SETTINGS, WORK, attempt

PLAN = WorkItem("PLAN", "1. Look the lantern up. 2. Say where it is.", "lite")
BETTER = WorkItem("PLAN", "1. Look it up. 2. Say where it is and since when.", "prime")
REPLY = WorkItem("RESPONSE", "It is in the hall.", "prime")
EVERYTHING = ("user_prompt", "history", "context", "plan", "response", "executed")


@pytest.fixture
def words(clock: FrozenClock) -> WordTokenizer:
    return WordTokenizer(clock)


async def stage(built: Built, tokenizer, call, **changes) -> Built:
    asked = {
        "full_id": "cog_NEXT",
        "role": "prime",
        "role_text": "You are Prime.",
        "task_instruction_key": "refinement",
        "task_instruction": "Find what is wrong with it.",
        "work": [PLAN],
        "reserve_tokens": 400,
        "timestamp": "2019-03-04T05:06:09Z",
        "parent_id": built.packet.full_id,
        "inputs": EVERYTHING,
        "tokenizer": tokenizer,
        "compressor": None,
        "call": call,
        "counter": PromptCounter(),
    }
    return await retarget(built, **(asked | changes))


def rows(built: Built) -> dict[str, FieldReport]:
    return {row.field: row for row in built.manifest.fields}


def content(packet: CognitionPacket) -> list[Segment]:
    return [part for message in messages_of(packet) for part in message.content]


def prompt(built: Built) -> str:
    return "".join(part.text for part in built.rendered)


async def test_every_stage_begins_as_the_one_before_and_goes_on_behind_its_work(words, call) -> None:
    first = await build(build_request(history=session(5), context=pages(3), work_tokens=600), words, None, call)
    second = await stage(first, words, call)
    third = await stage(second, words, call, work=[PLAN, BETTER], full_id="cog_THIRD")
    fourth = await stage(third, words, call, work=[PLAN, BETTER, REPLY], full_id="cog_FOURTH")
    beginnings = [prompt(first).partition("You plan.")[0]]
    beginnings += [prompt(one).partition("You are Prime.")[0] for one in (second, third, fourth)]
    for one, after in itertools.pairwise(beginnings):
        assert len(after) > len(one) > 500
        assert after.startswith(one)
    assert beginnings[3].index(PLAN.text) < beginnings[3].index(BETTER.text) < beginnings[3].index(REPLY.text)
    assert second.packet.history == first.packet.history
    assert second.packet.context == first.packet.context


async def test_the_table_adds_up_and_the_header_is_the_stages_own(words, call) -> None:
    first = await build(build_request(history=session(5), context=pages(3)), words, None, call)
    built = await stage(first, words, call, confidence=0.5, risk_level="high", retry_count=2)
    manifest, packet = built.manifest, built.packet
    assert sum(row.tokens for row in manifest.fields) == manifest.total_tokens == count_words(prompt(built))
    assert (packet.full_id, packet.parent_id, packet.turn_id) == ("cog_NEXT", "cog_FULLID", "t-now")
    assert (packet.role, packet.task_instruction_key) == ("prime", "refinement")
    assert (packet.confidence, packet.risk_level, packet.retry_count) == (0.5, "high", 2)
    assert (manifest.packet_id, manifest.reserve_tokens, manifest.model) == ("cog_NEXT", 400, "model-fingerprint")
    assert rows(built)["work"].tokens == rows(built)["work"].original_tokens > count_words(PLAN.text)
    assert rows(built)["history"] == rows(first)["history"]
    assert built.messages == messages_of(packet)
    again = await stage(built, words, call, work=[], confidence=None)
    assert "work" not in rows(again)
    assert again.packet.confidence is None


async def test_a_stage_gets_the_work_it_takes_and_every_reason_for_an_interruption(words, call) -> None:
    first = await build(build_request(), words, None, call)
    reason = WorkItem("INTERRUPT", "It named a private address.", "codemind")
    work = [PLAN, REPLY, reason, WorkItem("EXECUTE", "ls ended with 0", "shell"), WorkItem("PLAN", "", "lite")]
    for inputs, wanted in (
        (("user_prompt", "plan"), ["PLAN", "INTERRUPT"]),
        (("response", "executed"), ["RESPONSE", "INTERRUPT", "EXECUTE"]),
        ((), ["INTERRUPT"]),
    ):
        built = await stage(first, words, call, work=work, inputs=inputs)
        assert [item.marker for item in built.packet.work] == wanted


async def test_work_too_long_is_summarised_and_reported_and_cut_where_there_is_no_compressor(
    words, call, clock
) -> None:
    heard: list[BudgetOverrun] = []
    compressor = Compressor(WordEmbedder(), None, None, clock, heard.append)
    first = await build(build_request(mtu=500, history=session(20), work_tokens=200), words, None, call)
    reply = ". ".join(f"Fact {number} is about lantern {number}" for number in range(200))
    work = [PLAN, WorkItem("RESPONSE", reply, "prime")]
    for rung, method in ((compressor, "extractive"), (None, "trimmed")):
        built = await stage(first, words, call, work=work, compressor=rung)
        row = rows(built)["work"]
        assert (row.method, row.tokens <= row.limit, row.original_tokens > 1000) == (method, True, True)
        plan, short = built.packet.work
        assert plan == PLAN
        assert (short.marker, short.summary, short.text.startswith(f"{SUMMARY_TAG} Fact ")) == ("RESPONSE", True, True)
        assert built.manifest.total_tokens == count_words(prompt(built)) <= 500
        assert built.manifest.total_tokens > 450
        assert built.packet.history == first.packet.history
    assert {one.field for one in heard} == {"work"}


class Unwilling(Compressor):
    """Has never found a summary; counts how often it was asked."""

    asked = 0

    async def summarize_field(self, *_: object, **__: object) -> Compressed:
        self.asked += 1
        raise TokenBudgetError("no")


async def test_a_ladder_that_fails_is_climbed_once_and_the_text_cut(words, call, clock) -> None:
    first = await build(build_request(mtu=500, history=session(20), work_tokens=200), words, None, call)
    compressor = Unwilling(None, None, None, clock, lambda _: None)
    long = WorkItem("RESPONSE", "It is in the hall. " * 200, "prime")
    built = await stage(first, words, call, work=[PLAN, long], compressor=compressor)
    assert (compressor.asked, rows(built)["work"].method) == (1, "trimmed")
    assert built.packet.work[1].text.startswith(f"{SUMMARY_TAG} It is in the hall.")
    assert built.packet.history == first.packet.history
    again = await stage(
        first, words, call, work=[PLAN, msgspec.structs.replace(built.packet.work[1], summary=True)] * 2
    )
    assert all(item.text.count(SUMMARY_TAG) == (item.marker == "RESPONSE") for item in again.packet.work)


async def test_history_yields_to_work_that_has_no_room_at_all(words, call) -> None:
    first = await build(build_request(mtu=300, history=session(20)), words, None, call)
    work = [WorkItem("PLAN", f"{number}. Look it up and say where it is.", "lite") for number in range(6)]
    built = await stage(first, words, call, work=work)
    assert built.packet.work == work
    gone = {entry.turn_id for entry in first.packet.history} - {entry.turn_id for entry in built.packet.history}
    assert gone <= set(built.manifest.dropped)
    assert set(first.manifest.dropped) <= set(built.manifest.dropped)
    assert len(built.packet.history) < len(first.packet.history)
    assert built.manifest.total_tokens == count_words(prompt(built)) <= 300


async def test_a_packet_that_cannot_hold_any_work_says_so_with_numbers(words, call) -> None:
    first = await build(build_request(mtu=134, user_prompt="why " * 70), words, None, call)
    with pytest.raises(TokenBudgetError, match=r"work has \d+ tokens and at most \d+ fit") as caught:
        await stage(first, words, call)
    assert "raise the MTU to about" in caught.value.message
    assert "work" in {name for name, _, _ in caught.value.fields}


async def test_held_room_is_enough_for_stages_that_write_all_they_may(words, call) -> None:
    most = (320, 400, 512)
    request = build_request(history=session(300), context=pages(40), work_tokens=work_room(most))
    built = await build(request, words, None, call)
    assert rows(built)["history"].method == "trimmed"
    work = [WorkItem("PLAN", "step " * tokens, "lite") for tokens in most]
    last = await stage(built, words, call, work=work, role_text="You check. " * 15, task_instruction="check " * 60)
    assert rows(last)["work"].method == "whole"
    assert last.packet.history == built.packet.history
    assert (work_room([]), work_room([100]) > 100) == (0, True)
    table = rows(last)
    fixed = ("identity", "persona", "role", "task_instruction", "template")
    remaining = 4096 - sum(table[name].tokens for name in fixed)
    assert table["history"].tokens + table["context"].tokens <= remaining * 60 // 100


def test_long_items_share_what_short_ones_leave() -> None:
    assert equal_share([10, 100, 100], 110) == 50
    assert equal_share([10, 20], 100) == 20
    assert equal_share([5, 5, 50], 6) == 2
    assert equal_share([], 7) == 7


@settings(SETTINGS, max_examples=15)
@given(request=REQUESTS, work=WORK, mtu=st.integers(60, 3000), takes_all=st.booleans())
async def test_any_stage_fits_or_says_so(tokenizer, clock, call, request, work, mtu, takes_all) -> None:
    request = msgspec.structs.replace(request, identity="Be true.", mtu=max(request.work_tokens, mtu) + 200)
    compressor = Compressor(WordEmbedder(), None, None, clock, lambda _: None) if mtu % 2 else None
    first, _ = await attempt(build(request, tokenizer, compressor, call))
    if first is None:
        return
    changes = {"work": work, "inputs": EVERYTHING if takes_all else ("plan",), "compressor": compressor}
    built, refusal = await attempt(stage(first, tokenizer, call, **changes))
    if built is None:
        assert refusal is not None
        assert {name for name, _, _ in refusal.fields} >= {"work"} or "user_prompt has" in refusal.message
        return
    table = rows(built)
    total = built.manifest.total_tokens
    assert total == len(await tokenizer.encode(built.rendered, call)) <= request.mtu
    assert total == sum(row.tokens for row in table.values())
    assert all(0 <= row.tokens <= row.limit for row in table.values() if row.field != "template"), table
    wanted = [item for item in work if takes_all or item.marker not in ("RESPONSE", "EXECUTE")]
    assert [item.marker for item in built.packet.work] == [item.marker for item in wanted]
    if built.packet.history == first.packet.history and built.packet.context == first.packet.context:
        asked = content(
            msgspec.structs.replace(first.packet, role_text="", task_instruction="", work=[], user_prompt="")
        )
        assert content(built.packet)[: len(asked)] == asked == content(first.packet)[: len(asked)]
    assert built == await stage(first, tokenizer, call, **changes)
