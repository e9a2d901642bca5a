import threading
import time

import pytest

from gaiad.models.child.inbox import Mailbox
from gaiad.models.supervision.protocol import Generate, Ping
from gaiad.wire.generation import Sampling, Segment


class Flag:
    raised = False

    def set(self):
        self.raised = True

    def clear(self):
        self.raised = False


@pytest.fixture
def flag():
    return Flag()


@pytest.fixture
def mailbox(flag):
    return Mailbox(flag)


def request(number, priority=10):
    return Generate(id=number, segments=[Segment("x")], max_tokens=1, priority=priority, seed=1, sampling=Sampling())


def test_everything_since_the_last_look_comes_at_once_and_once(mailbox):
    mailbox.put(request(1))
    mailbox.put(request(2))
    mailbox.cancel(1)
    mailbox.ping(Ping(id=9))
    news = mailbox.collect(wait=True)
    assert ([item.id for item in news.requests], news.cancels, news.pings) == ([1, 2], [1], [9])
    again = mailbox.collect(wait=False)
    assert (again.requests, again.cancels, again.pings, again.closed) == ([], [], [], False)


def test_only_a_more_urgent_request_a_cancel_and_the_end_interrupt_a_step(mailbox, flag):
    mailbox.urgency = 10
    mailbox.put(request(1, 10))
    mailbox.ping(Ping(id=9))
    assert not flag.raised
    for interrupt in (lambda: mailbox.put(request(2, 0)), lambda: mailbox.cancel(1), mailbox.close):
        interrupt()
        assert flag.raised
        mailbox.collect(wait=False)
        assert not flag.raised


def test_waiting_ends_with_the_first_news_and_closed_stays_closed(mailbox):
    begun = time.monotonic()
    threading.Timer(0.05, mailbox.close).start()
    assert mailbox.collect(wait=True).closed
    assert time.monotonic() - begun > 0.04
    assert mailbox.collect(wait=True).closed
