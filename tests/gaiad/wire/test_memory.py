"""The wire forms of remembered sessions: JIT's names where JIT defines them, nothing lost in a round trip."""

import msgspec
import pytest

from gaiad.wire.memory import MemoryPage, PageHeader, SessionTurn, TurnBlock, TurnMessage


def test_a_header_has_all_of_the_seeds_fields_in_its_spelling_and_leaves_out_empty_ones() -> None:
    full = PageHeader(
        session_id="s",
        tenant_id="t",
        sequence=3,
        created_at="2025-12-01T12:00:00Z",
        agent_id="a",
        memo_snapshot="m",
        tags=["x"],
        classification=["c"],
        policy_tags=["p"],
        origin_run_id="r",
        request_intent="i",
    )
    assert set(msgspec.to_builtins(full)) == {
        "sessionId",
        "tenantId",
        "agentId",
        "sequence",
        "createdAt",
        "memoSnapshot",
        "tags",
        "classification",
        "policyTags",
        "originRunId",
        "requestIntent",
    }
    bare = PageHeader(session_id="s", tenant_id="t", sequence=0, created_at="2025-12-01T12:00:00Z")
    assert set(msgspec.to_builtins(bare)) == {"sessionId", "tenantId", "sequence", "createdAt"}
    page = MemoryPage(id="p", session_id="s", tenant_id="t", sequence=0, raw_content="words", header=bare)
    assert set(msgspec.to_builtins(page)) == {"id", "sessionId", "tenantId", "sequence", "rawContent", "header"}


def test_a_turn_comes_back_as_it_was_and_says_what_it_is() -> None:
    turn = SessionTurn(
        session_id="s",
        turn_id="turn_1",
        sequence=0,
        messages=[
            TurnMessage(role="user", content="Where?\0\r\n\U0001f980", metadata={"n": 1}),
            TurnMessage(role="user", content="And when?"),
            TurnMessage(role="assistant", content="Here."),
        ],
        blocks=[TurnBlock(marker="PLAN", text="look")],
        sources=["TP-1"],
    )
    data = msgspec.json.encode(turn)
    assert msgspec.json.decode(data, type=SessionTurn) == turn
    assert msgspec.json.decode(data)["gaiad_session_turn"] == 1
    assert b"classification" not in data
    assert (turn.user, turn.answer) == ("Where?\0\r\n\U0001f980\n\nAnd when?", "Here.")


def test_a_turn_of_a_form_that_is_not_known_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="gaiad_session_turn"):
        msgspec.json.decode(b'{"gaiad_session_turn":2,"session_id":"s","turn_id":"t","messages":[]}', type=SessionTurn)
