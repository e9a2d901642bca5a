"""Messages of the council have GCP's fields, go through JSON unchanged, and a VOTE names its PROPOSAL."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from council.envelope import MESSAGE_TYPES, Envelope, make_envelope, read_envelope, struct_content, write_envelope
from gaiad.base.errors import BadInput
from gaiad.base.ids import short

NAMES = st.sampled_from(["prime", "lite", "codemind", "gaiad", "person"])


def proposal(full_id: str = "env_1") -> Envelope:
    return make_envelope(
        full_id=full_id,
        timestamp="2025-07-11T19:22:00Z",
        sender="lite",
        role="planner",
        type="PROPOSAL",
        content="run the tests",
        confidence=0.87,
        risk_level="low",
    )


def test_the_json_begins_with_the_fields_of_the_seed_in_its_order() -> None:
    fields = list(json.loads(write_envelope(proposal())))
    seed = ["msg_id", "parent_id", "timestamp", "sender", "role", "type", "confidence", "risk_level", "content"]
    assert fields[: len(seed)] == seed
    assert set(MESSAGE_TYPES) == {"PROPOSAL", "VOTE", "INFO", "ESCALATION", "HEARTBEAT"}


@given(
    st.text(min_size=1, max_size=40),
    st.sampled_from([kind for kind in MESSAGE_TYPES if kind != "VOTE"]),
    NAMES,
    st.text(max_size=200),
    st.none() | st.floats(0, 1),
    st.booleans(),
)
def test_what_is_written_is_read_again(full_id, kind, name, content, confidence, answers) -> None:
    made = make_envelope(
        full_id=full_id,
        timestamp="2025-07-11T19:22:00Z",
        sender=name,
        role="observer",
        type=kind,
        content=content,
        confidence=confidence,
        parent=proposal() if answers else None,
    )
    assert read_envelope(write_envelope(made)) == made
    assert b"\n" not in write_envelope(made)
    assert made.msg_id == short(full_id)
    assert (made.parent_id is None) == (not answers)


def vote(parent: Envelope | None) -> Envelope:
    return make_envelope(
        full_id="env_2",
        timestamp="2025-07-11T19:22:01Z",
        sender="prime",
        role="voter",
        type="VOTE",
        content=struct_content({"vote": "yes"}),
        parent=parent,
    )


def test_a_vote_names_its_proposal() -> None:
    opened = proposal()
    cast = vote(opened)
    assert (cast.parent_id, cast.parent_full_id) == (opened.msg_id, "env_1")
    with pytest.raises(BadInput, match="VOTE of 'prime': it answers nothing; give the PROPOSAL"):
        vote(None)
    with pytest.raises(BadInput, match="it answers a VOTE"):
        vote(cast)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "GOSSIP"}, r"\$\.type"),
        ({"confidence": 1.5}, r"\$\.confidence"),
        ({"sender": "Prime Minister"}, r"\$\.sender"),
        ({"msg_id": "00000000"}, "msg_id '00000000': 'env_1' is shown as"),
        ({"parent_id": "00000000"}, "parent_id '00000000'"),
        ({"type": "VOTE"}, "does not name a PROPOSAL"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_message_that_is_none_is_refused(change, said) -> None:
    fields = {**msgspec.to_builtins(proposal()), **change}
    with pytest.raises(BadInput, match=said):
        read_envelope(json.dumps(fields))


def test_what_is_no_json_is_refused() -> None:
    for text in ("", "\ud800", "[]", "[" * 100_000):
        with pytest.raises(BadInput, match="no message of the council"):
            read_envelope(text)
