"""Other shapes of a conversation lose no word and change no order."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gaiad.models.tokens.chat_template import WAYS, by_turns, joined, without_system
from gaiad.wire.generation import ChatMessage, Segment

ROLES = st.sampled_from(["system", "user", "assistant"])


def messages(*pairs):
    return [ChatMessage(role=role, content=[Segment(text)]) for role, text in pairs]


def written(conversation):
    return [(message.role, "".join(segment.text for segment in message.content)) for message in conversation]


def test_system_text_stands_in_the_next_user_message():
    assert written(without_system(messages(("system", "S"), ("system", "T"), ("user", "U")))) == [
        ("user", "S\n\nT\n\nU")
    ]
    assert written(without_system(messages(("user", "U"), ("system", "S")))) == [("user", "U"), ("user", "S")]
    assert written(without_system(messages(("system", "S"), ("assistant", "A")))) == [("user", "S"), ("assistant", "A")]


def test_neighbours_of_one_role_become_one():
    talk = messages(("user", "a"), ("user", "b"), ("assistant", "c"), ("system", "d"), ("user", "e"))
    assert written(joined(talk)) == [("user", "a\n\nb"), ("assistant", "c"), ("system", "d"), ("user", "e")]
    assert written(by_turns(talk)) == [("user", "a\n\nb"), ("assistant", "c"), ("user", "d\n\ne")]


def test_trust_and_source_go_along():
    system = ChatMessage(role="system", content=[Segment("S", trusted=True)])
    user = ChatMessage(role="user", content=[Segment("U", source="p1")])
    (only,) = without_system([system, user])
    assert only.content == [Segment("S", trusted=True), Segment("\n\n"), Segment("U", source="p1")]


@given(st.lists(st.tuples(ROLES, st.text("abc", min_size=1, max_size=3)), max_size=8))
def test_every_way_keeps_every_word_in_its_order(pairs):
    words = [text for _, text in pairs]
    for _, change in WAYS:
        shaped = change(messages(*pairs))
        assert [word for _, text in written(shaped) for word in text.split("\n\n")] == words
    assert all(left.role != right.role for left, right in pairwise(shaped))
