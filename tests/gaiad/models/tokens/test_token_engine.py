"""Requests as tasks of one loop: nobody waits for a long one, and each gets exactly one answer."""

import asyncio

from gaiad.models.supervision.protocol import Failed, ProtocolError, Tokenize, Tokens
from gaiad.models.tokens.caches import RequestRefused
from gaiad.models.tokens.token_engine import RequestTasks
from tests.makers.waiting import until


def asked(request_id):
    return Tokenize(id=request_id, path="", texts=[], counts_only=True, beginning=False)


class Replies(list):
    """What was answered, in order; `count` waits for that many."""

    def __call__(self, reply):
        self.append(reply)

    async def count(self, number):
        await until(lambda: len(self) >= number)


async def test_a_short_request_passes_a_long_one():
    replies = Replies()

    async def pieces(request):
        for _ in range({1: 1000, 2: 3}[request.id]):
            await asyncio.sleep(0)
        return Tokens(id=request.id, counts=[])

    requests = RequestTasks(pieces, replies)
    requests.begin(asked(1))
    requests.begin(asked(2))
    await replies.count(2)
    assert [reply.id for reply in replies] == [2, 1]


async def test_errors_are_answers_and_the_others_go_on(capsys):
    replies = Replies()

    async def mixed(request):
        await asyncio.sleep(0)
        if request.id == 1:
            raise RequestRefused("no such file")
        if request.id == 2:
            raise KeyError("a fault")
        return Tokens(id=request.id, counts=[5])

    requests = RequestTasks(mixed, replies)
    for number in (1, 2, 3):
        requests.begin(asked(number))
    await replies.count(3)
    assert replies[0] == Failed(id=1, code="bad_input", reason="no such file")
    assert (replies[1].code, "KeyError" in replies[1].reason) == ("engine", True)
    assert "a fault" in capsys.readouterr().err
    assert replies[2].counts == [5]


async def test_a_cancelled_request_ends_at_once_and_one_that_is_gone_has_no_second_answer():
    replies, ended = Replies(), []

    async def forever(request):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.id)

    requests = RequestTasks(forever, replies)
    requests.begin(asked(1))
    requests.begin(asked(2))
    await asyncio.sleep(0)
    for number in (1, 1, 99):
        requests.cancel(number)
    await until(lambda: ended)
    assert replies == [Failed(id=1, code="cancelled", reason="cancelled")]
    assert ended == [1]
    requests.cancel(2)


async def test_an_answer_that_is_too_large_for_a_frame_is_an_error():
    replies = Replies()

    def send(reply):
        if isinstance(reply, Tokens):
            raise ProtocolError("a message of 99 bytes is above the limit")
        replies(reply)

    async def whole(request):
        return Tokens(id=request.id, counts=[1])

    RequestTasks(whole, send).begin(asked(1))
    await replies.count(1)
    assert (replies[0].code, "above the limit" in replies[0].reason) == ("bad_input", True)
