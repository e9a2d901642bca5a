"""The measure of router and redactor takes the way an answer takes, and tells what its reader sees when."""

import random

import pytest

from router.redact import RedactionSettings, redact
from router.routing import Routing, make_routing
from tests.bench.routed_stream import PIECE, Way, delay_s, mixed, prose, rate


@pytest.fixture(scope="module")
def routing() -> Routing:
    return make_routing({}, {}, RedactionSettings(names=["Jane Doe"]))


def test_what_is_measured_is_scrubbed(routing: Routing) -> None:
    text = mixed(random.Random(5), 20_000).strip()
    way = Way(routing)
    seen = "".join(way.feed(text[place : place + PIECE]) for place in range(0, len(text), PIECE)) + way.finish()
    assert seen == redact(text, routing.rules).text
    assert "acme.org" in text
    assert "acme.org" not in seen


def test_plain_prose_has_nothing_to_take_out(routing: Routing) -> None:
    assert redact(prose(random.Random(5), 20_000), routing.rules).redactions == []


def test_a_marked_answer_is_seen_with_its_first_piece_and_an_unmarked_one_after_its_preamble(routing: Routing) -> None:
    text = "The council met in the garden and talked about sensors. " * 5
    assert delay_s(routing, "RESPONSE: ", text, PIECE, 10.0) < 1.0
    assert delay_s(routing, "RESPONSE: ", text, 4, 10.0) == pytest.approx(10.0, abs=1.0), "a word waits for its end"
    assert delay_s(routing, "", text, PIECE, 10.0) == pytest.approx(60.0, abs=1.0)


def test_the_rate_is_of_characters_in_seconds(routing: Routing) -> None:
    assert rate(routing, prose(random.Random(1), 20_000)) > 0.05
