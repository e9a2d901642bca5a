import pytest

from gaiad.models.child.inbox import Inbox
from gaiad.models.supervision.protocol import Embed, Failed, Ping, Pong


class Flag:
    def __init__(self):
        self.raised = False

    def set(self):
        self.raised = True

    def clear(self):
        self.raised = False


@pytest.fixture
def replies():
    return []


@pytest.fixture
def flag():
    return Flag()


@pytest.fixture
def inbox(flag, replies):
    return Inbox(flag, replies.append)


def request(number, priority=10):
    return Embed(id=number, texts=[], priority=priority)


def test_the_urgent_come_first_and_equals_in_order_of_arrival(inbox):
    for number, priority in ((1, 10), (2, 10), (3, 0), (4, 0)):
        inbox.put(request(number, priority))
    assert [inbox.take().id for _ in range(4)] == [3, 4, 1, 2]


def test_an_urgent_request_interrupts_and_the_interrupted_job_keeps_place_and_progress(inbox, flag):
    inbox.put(request(1))
    inbox.put(request(2))
    job = inbox.take()
    job.state = "half done"
    assert inbox.carry_on(job)
    inbox.put(request(3, 0))
    assert flag.raised
    assert not inbox.carry_on(job)
    inbox.put_back(job)
    assert inbox.take().id == 3
    assert not flag.raised
    again = inbox.take()
    assert (again.id, again.state) == (1, "half done")


def test_an_equal_request_does_not_interrupt(inbox, flag):
    inbox.put(request(1))
    job = inbox.take()
    inbox.put(request(2))
    assert inbox.carry_on(job)
    assert not flag.raised


def test_a_cancelled_waiting_job_is_answered_once_and_never_taken(inbox, replies):
    inbox.put(request(1))
    inbox.put(request(2))
    inbox.cancel(1)
    inbox.cancel(1)
    assert [(reply.id, reply.code) for reply in replies] == [(1, "cancelled")]
    assert inbox.take().id == 2


def test_a_cancelled_running_job_is_interrupted_and_answered(inbox, flag, replies):
    inbox.put(request(1))
    job = inbox.take()
    inbox.cancel(1)
    assert flag.raised
    assert not inbox.carry_on(job)
    inbox.put_back(job)
    assert isinstance(replies[0], Failed)
    inbox.put(request(2))
    assert inbox.take().id == 2


def test_a_ping_is_answered_between_batches(inbox, replies):
    inbox.put(request(1))
    job = inbox.take()
    inbox.ping(Ping(id=9))
    assert replies == []
    assert inbox.carry_on(job)
    assert replies == [Pong(id=9)]


def test_a_closed_inbox_lets_the_engine_go(inbox, flag):
    inbox.put(request(1))
    job = inbox.take()
    inbox.close()
    assert flag.raised
    assert not inbox.carry_on(job)
    assert inbox.take() is None
