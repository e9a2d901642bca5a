import pytest

from gaiad.bench.model import Trace
from gaiad.wire.generation import TextDelta
from tests.bench.first_tokens import _gaps_ms


def test_a_piece_of_several_tokens_is_one_wait():
    trace = Trace()
    for when, tokens in ((0.0, 1), (0.1, 2), (0.7, 8)):
        trace.note(TextDelta(text="x", tokens=tokens), when)
    assert _gaps_ms(trace, 0) == pytest.approx([100.0, 600.0])
    assert _gaps_ms(trace, 1) == pytest.approx([600.0])
