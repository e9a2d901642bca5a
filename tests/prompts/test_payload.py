"""How often the models are asked for a summary while one packet is made smaller and smaller."""

import pytest

from gaiad.models.plain.scripted import ScriptedModel, ScriptedReply
from gaiad.models.tokens.word_tokenizer import WordTokenizer
from prompts.compress import Compressor
from prompts.payload import Offered, PayloadChooser
from tests.makers.cognition import build_request, pages

LIMITS = (120, 110, 100, 90)


@pytest.fixture
def make_chooser(clock, call):
    """A chooser of one page of 400 words and a Lite that answers with `text`."""

    def make(text):
        lite = ScriptedModel("lite", [ScriptedReply(text=text)], clock)
        compressor = Compressor(None, lite, None, clock, lambda _: None)
        tokenizer = WordTokenizer(clock)
        request = build_request(context=pages(1, words=400))
        return PayloadChooser(request, Offered([], [420], 0), tokenizer, compressor, call), lite

    return make


async def test_a_summary_that_fits_is_made_once_for_a_packet(make_chooser) -> None:
    chooser, lite = make_chooser("All is well in the harbour.")
    found = [await chooser.choose(limit) for limit in LIMITS]
    assert [[page.text for page in one.context] for one in found] == [["⚠SUMMARY All is well in the harbour."]] * 4
    assert len(lite.seen) == 1


async def test_a_failure_is_not_tried_again_for_a_packet(make_chooser) -> None:
    chooser, lite = make_chooser(" ")
    assert [(await chooser.choose(limit)).context for limit in LIMITS] == [[], [], [], []]
    assert len(lite.seen) == 1


async def test_a_summary_that_is_too_long_by_now_is_made_again_with_room_to_spare(make_chooser, call) -> None:
    chooser, lite = make_chooser("well " * 80 + "done.")
    assert (await chooser.choose(120)).context
    for limit in (90, 80, 70):
        assert (await chooser.choose(limit)).context == []
    targets = [request.max_tokens for request in lite.seen]
    assert targets[1:] == [(targets[0] - 30) * 3 // 4]
