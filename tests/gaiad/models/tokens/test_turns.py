"""Requests by turns: nobody waits for a long one, and each gets exactly one answer."""

import os
import time

import pytest

from gaiad.models.supervision.protocol import Failed, ProtocolError, Tokens
from gaiad.models.tokens.aside import Aside
from gaiad.models.tokens.throw_away import Died, Limits, ThrowAway
from gaiad.models.tokens.turns import PROCESSES, Refused, Turns


@pytest.fixture
def idle():
    """A descriptor that never becomes readable."""
    reads, writes = os.pipe()
    yield reads
    os.close(reads)
    os.close(writes)


def run_all(turns, replies, count, idle, timeout_s=60.0):
    end = time.monotonic() + timeout_s
    while len(replies) < count:
        assert time.monotonic() < end, "an answer is missing"
        turns.wait(idle)
        turns.step()


def pieces(request_id, count):
    for _ in range(count):
        yield None
    return Tokens(id=request_id, counts=[count])


def test_a_short_request_passes_a_long_one(idle):
    replies = []
    turns = Turns(replies.append)
    turns.add(1, pieces(1, 1000))
    turns.add(2, pieces(2, 3))
    run_all(turns, replies, 2, idle)
    assert [reply.id for reply in replies] == [2, 1]


def test_errors_are_answers_and_the_others_go_on(idle, capsys):
    replies = []
    turns = Turns(replies.append)

    def refused():
        yield None
        raise Refused("no such file")

    def broken():
        yield None
        raise KeyError("a fault")

    turns.add(1, refused())
    turns.add(2, broken())
    turns.add(3, pieces(3, 5))
    run_all(turns, replies, 3, idle)
    assert replies[0] == Failed(id=1, code="bad_input", reason="no such file")
    assert (replies[1].code, "KeyError" in replies[1].reason) == ("engine", True)
    assert "a fault" in capsys.readouterr().err
    assert replies[2].counts == [5]


def once_there(path):
    """Work that is done when there is such a file; a process of its own hears nothing else of us."""

    def work():
        while not path.exists():
            time.sleep(0.01)
        return b"x"

    return work


def test_who_waits_for_a_process_leaves_the_turn_to_others(idle, tmp_path):
    replies, told = [], tmp_path / "told"
    turns = Turns(replies.append)

    def waits(request_id, work):
        trial = ThrowAway(work, Limits(wall_s=100.0, cpu_s=100))
        yield trial
        return Tokens(id=request_id, counts=[len(trial.outcome())])

    turns.add(1, waits(1, once_there(told)))
    turns.add(2, pieces(2, 50))
    turns.add(3, waits(3, lambda: b"x"))
    run_all(turns, replies, 2, idle)
    assert {reply.id for reply in replies} == {2, 3}
    told.touch()
    run_all(turns, replies, 3, idle)
    assert replies[2].id == 1


def test_no_more_processes_at_once_than_places(idle, tmp_path):
    replies, told = [], tmp_path / "told"
    turns = Turns(replies.append)
    trials = [ThrowAway(once_there(told), Limits(wall_s=100.0, cpu_s=100)) for _ in range(PROCESSES * 3)]

    def waits(request_id, trial):
        yield trial
        trial.outcome()
        return Tokens(id=request_id, counts=[])

    for number, trial in enumerate(trials):
        turns.add(number, waits(number, trial))
    for _ in trials:
        turns.step()
    at_once = [sum(trial.started and not trial.over for trial in trials)]
    told.touch()
    end = time.monotonic() + 100
    while len(replies) < len(trials):
        assert time.monotonic() < end, "an answer is missing"
        turns.wait(idle)
        turns.step()
        at_once.append(sum(trial.started and not trial.over for trial in trials))
    assert max(at_once) == at_once[0] == PROCESSES


def test_two_may_wait_for_the_same_process_and_one_may_leave(idle):
    replies = []
    turns = Turns(replies.append)
    trial = ThrowAway(lambda: time.sleep(0.1) or b"shared")

    def waits(request_id):
        yield trial
        return Tokens(id=request_id, counts=[len(trial.outcome())])

    for number in (1, 2, 3):
        turns.add(number, waits(number))
    turns.step()
    turns.cancel(2)
    run_all(turns, replies, 3, idle)
    assert replies[0] == Failed(id=2, code="cancelled", reason="cancelled")
    assert {reply.id: reply.counts for reply in replies[1:]} == {1: [6], 3: [6]}


def test_work_in_a_thread_lets_others_go_on_and_no_process_is_forked_beside_it(idle):
    replies, beside = [], []
    turns = Turns(replies.append)
    aside = Aside(lambda: time.sleep(1.0) or 7)
    trial = ThrowAway(lambda: b"x")

    def waits(request_id, waited):
        yield waited
        beside.append(aside.over)
        result = waited.outcome()
        return Tokens(id=request_id, counts=[result if isinstance(result, int) else len(result)])

    turns.add(1, waits(1, aside))
    turns.add(2, waits(2, trial))
    turns.add(3, pieces(3, 10))
    turns.add(4, waits(4, aside))
    run_all(turns, replies, 4, idle)
    assert replies[0].id == 3
    assert {reply.id: reply.counts for reply in replies} == {1: [7], 2: [1], 3: [10], 4: [7]}
    assert beside == [True] * 3


def test_what_went_wrong_in_a_thread_is_told_to_who_waited(idle):
    replies = []
    turns = Turns(replies.append)

    def waits():
        aside = Aside(lambda: (_ for _ in ()).throw(Refused("no such thing")))
        yield aside
        return Tokens(id=1, counts=[aside.outcome()])

    turns.add(1, waits())
    run_all(turns, replies, 1, idle)
    assert replies == [Failed(id=1, code="bad_input", reason="no such thing")]


def test_a_cancel_ends_the_process_of_a_request_and_one_that_is_gone_has_no_answer(idle):
    replies = []
    turns = Turns(replies.append)
    trial = ThrowAway(lambda: time.sleep(60) or b"", Limits(wall_s=100.0))

    def waits():
        try:
            yield trial
        finally:
            trial.kill()
        return Tokens(id=1, counts=[])

    turns.add(1, waits())
    turns.add(2, pieces(2, 3))
    turns.step()
    assert trial.started
    turns.cancel(1)
    assert trial.over
    turns.cancel(1)
    turns.cancel(99)
    run_all(turns, replies, 2, idle)
    assert [reply.id for reply in replies] == [1, 2]
    with pytest.raises(Died):
        trial.outcome()


def test_an_answer_that_is_too_large_for_a_frame_is_an_error(idle):
    replies = []

    def send(reply):
        if isinstance(reply, Tokens):
            raise ProtocolError("a message of 99 bytes is above the limit")
        replies.append(reply)

    turns = Turns(send)
    turns.add(1, pieces(1, 1))
    run_all(turns, replies, 1, idle)
    assert (replies[0].code, "above the limit" in replies[0].reason) == ("bad_input", True)
