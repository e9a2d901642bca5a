"""A prompt counted piece by piece has the tokens it has as a whole, and what was counted is not counted again."""

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gaiad.models.tokens.json_tokenizer import JsonTokenizer
from gaiad.models.tokens.word_tokenizer import ByteEstimate, WordTokenizer
from gaiad.wire.generation import ChatMessage, Segment
from prompts.counting import PromptCounter
from tests.makers.word_files import write_bpe_json

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SEGMENTS = st.builds(Segment, st.text(alphabet="ab <|im_end|>\n.é", max_size=40), trusted=st.booleans())


@pytest.fixture(scope="module")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> JsonTokenizer:
    folder = tmp_path_factory.mktemp("bpe")
    return JsonTokenizer(write_bpe_json(folder / "tokenizer.json", chat_template=TEMPLATE))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(SEGMENTS, max_size=8))
async def test_the_chain_has_as_many_tokens_as_the_whole(bpe, clock, call, parts) -> None:
    for tokenizer in (bpe, WordTokenizer(clock), ByteEstimate(clock)):
        (whole,) = await tokenizer.count([parts], call)
        assert await PromptCounter().prompt_tokens(tokenizer, parts, 10_000, call) == whole


class Asked(WordTokenizer):
    """Notes what it was asked to count."""

    def __init__(self, clock) -> None:
        super().__init__(clock)
        self.texts: list[str] = []

    async def count(self, texts, call):
        self.texts += ["".join(part.text for part in text) for text in texts]
        return await super().count(texts, call)


async def test_what_is_known_is_not_asked_for_again(clock, call) -> None:
    tokenizer, counter = Asked(clock), PromptCounter()
    long = [Segment("system: ", trusted=True), Segment("word " * 500), Segment("\n", trusted=True)]
    await counter.prompt_tokens(tokenizer, long, 10_000, call)
    tokenizer.texts.clear()
    total = await counter.prompt_tokens(tokenizer, [*long, Segment("one more")], 10_000, call)
    assert total == 504
    assert tokenizer.texts == ["\n", "\none more"]


async def test_near_the_mtu_the_whole_is_counted(clock, call) -> None:
    tokenizer, counter = Asked(clock), PromptCounter()
    parts = [Segment("some "), Segment("more "), Segment("words")]
    assert await counter.prompt_tokens(tokenizer, parts, 67, call) == 3
    assert "some more words" not in tokenizer.texts
    assert await counter.prompt_tokens(tokenizer, parts, 66, call) == 3
    assert tokenizer.texts[-1] == "some more words"


async def test_a_message_costs_what_the_template_adds(bpe, clock, call) -> None:
    counter = PromptCounter()
    assert await counter.message_overhead(WordTokenizer(clock), call) == 2
    overhead = await counter.message_overhead(bpe, call)
    messages = [ChatMessage(role="user", content=[Segment("x")]), ChatMessage(role="assistant", content=[Segment("x")])]
    counts = [
        await counter.prompt_tokens(bpe, await bpe.render(messages * times, call), 10_000, call) for times in (1, 3)
    ]
    (one,) = await bpe.count([[Segment("x")]], call)
    assert 0 <= 4 * (overhead + one) - (counts[1] - counts[0]) <= 4


async def test_what_is_remembered_stays_small_whatever_was_counted(clock, call) -> None:
    tokenizer, counter = Asked(clock), PromptCounter()
    for number in range(20):
        parts = [Segment(f"{number} " * 20_000), Segment("\ud800 and more")]
        before = await counter.prompt_tokens(tokenizer, parts, 100_000, call)
        counter.remember_frame(tokenizer, [parts[0].text], before)
        assert counter.frame_tokens(tokenizer, [parts[0].text]) == before
    assert len(pickle.dumps(counter)) < 10_000
    assert counter.frame_tokens(ByteEstimate(clock), [parts[0].text]) is None


async def test_texts_that_only_look_alike_put_together_are_told_apart(clock, call) -> None:
    tokenizer, counter = Asked(clock), PromptCounter()
    pairs = [[Segment("ab"), Segment("c")], [Segment("a"), Segment("bc")], [Segment("abc")]]
    await counter.count(tokenizer, [*pairs, [Segment("abc", trusted=True)]], call)
    assert tokenizer.texts == ["abc"] * 4
