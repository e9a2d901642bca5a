import pytest

from gaiad.base.errors import BadInput, Cancelled, Unavailable, WorkerDied
from gaiad.models.supervision.protocol import Delta, Failed, Pong
from gaiad.models.supervision.queueing import InFlight, error_of


async def test_each_answer_finds_its_request_and_ids_are_never_used_twice():
    owed = InFlight()
    one, other = owed.register(), owed.register()
    owed.settle(Pong(id=other.id))
    assert (other.answer.done(), one.answer.done(), len(owed)) == (True, False, 1)
    assert owed.register().id not in (one.id, other.id)


async def test_what_comes_for_a_request_that_is_gone_is_dropped():
    owed = InFlight()
    gone = owed.register()
    owed.withdraw(gone)
    owed.withdraw(gone)
    owed.add(Delta(id=gone.id, text="late", tokens=1))
    owed.settle(Pong(id=gone.id))
    assert (len(owed), gone.answer.done(), list(gone.deltas)) == (0, False, [])


async def test_text_goes_to_its_request():
    owed = InFlight()
    one, other = owed.register(), owed.register()
    owed.add(Delta(id=other.id, text="x", tokens=1))
    assert (len(one.deltas), len(other.deltas)) == (0, 1)


async def test_a_death_is_told_to_all_that_wait_and_not_to_those_who_have_their_answer():
    owed = InFlight()
    answered, *waiting = (owed.register() for _ in range(3))
    owed.settle(Pong(id=answered.id))
    owed.fail("writer", "it died of SIGKILL")
    assert len(owed) == 0
    assert answered.answer.result() == Pong(id=answered.id)
    for pending in waiting:
        with pytest.raises(WorkerDied, match="writer: it died of SIGKILL"):
            pending.answer.result()
    assert owed.register().id > max(pending.id for pending in waiting), "a later life's ids are new"


@pytest.mark.parametrize(
    ("code", "error"), [("cancelled", Cancelled), ("bad_input", BadInput), ("engine", Unavailable)]
)
def test_a_refusal_is_the_error_its_caller_raises(code, error):
    raised = error_of("writer", Failed(id=1, code=code, reason="max_tokens is 0"))
    assert type(raised) is error
    assert "writer: max_tokens is 0" in str(raised)
