"""What of a turn reaches a channel: its blocks, scrubbed, and an answer that its deltas and `done` agree on."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gaiad.base.channels import Channel
from gaiad.wire.chat import Also, ChatBlock, RedactionCount
from gaiad.wire.council import BallotRecord, VoteRecord
from gaiad.wire.memory import SessionTurn, TurnBlock, TurnMessage
from gaiad.wire.schemas import Citation, ResearchResult
from router.redact import RedactionSettings, redact
from router.routed import Event, RoutedTurn
from router.routing import make_routing
from tests.makers.routed_answers import ROUTING, SAID, SHOWN, TAKEN, answer_of, block, deltas, done, heard, routed


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        ("cli_chat", [("PLAN", "log"), ("INTERRUPT", "show"), ("VERIFY", "show")]),
        ("web_chat", [("INTERRUPT", "show"), ("VERIFY", "show")]),
        ("discord_chat", [("INTERRUPT", "show"), ("VERIFY", "show")]),
    ],
)
def test_a_channel_gets_the_blocks_of_its_column(channel: Channel, expected: list[tuple[str, str]]) -> None:
    markers = ["PLAN", "INTERRUPT", "THOUGHT_SEED", "EXECUTE", "VERIFY", ""]
    events = [block(marker, f"words of {marker}") for marker in markers]
    found = routed(events, channel)
    assert [(data["marker"], data["manner"]) for _, data in found if isinstance(data, dict)] == expected
    whole = answer_of("yes", *[ChatBlock(marker=marker, text="words") for marker in markers])
    blocks = done(routed([("done", whole)], channel)).blocks
    assert [(one.marker, one.manner) for one in blocks] == [*expected, ("RESPONSE", "show")]


def test_a_subscriber_of_the_council_sees_what_the_council_sees() -> None:
    turn = RoutedTurn(ROUTING, "web_chat", ["council_chat"])
    events = [turn.feed(*block(marker, "words")) for marker in ("PLAN", "THOUGHT_SEED", "EXECUTE")]
    assert [len(leaving) for leaving in events] == [1, 1, 0]


def test_the_owners_terminal_gets_the_stream_as_it_is() -> None:
    events: list[Event] = [
        ("turn", {"session_id": "s", "turn_id": "t"}),
        *deltas("Write to ", "jane.doe@", "acme.org", "\u200b"),
        ("stage_done", {"why": "Jane Doe"}),
    ]
    found = routed(events, "cli_chat")
    assert found == events
    assert all(one[1] is other[1] for one, other in zip(found, events, strict=True)), "nothing is copied"


@pytest.mark.parametrize("channel", ["web_chat", "discord_chat"])
def test_an_answer_is_scrubbed_while_it_streams(channel: Channel) -> None:
    events = [*deltas("Write to jane.", "doe@acme", ".org or to Ja", "ne Doe."), ("done", answer_of(SAID))]
    found = routed(events, channel)
    assert "jane" not in str(found).lower()
    assert found[0] == ("delta", {"text": "Write to "}), "what is settled leaves at once"
    assert heard(found) == done(found).answer == SHOWN
    assert done(found).redactions == done(found).blocks[-1].redactions == TAKEN


def test_what_is_held_back_leaves_before_the_next_event_and_before_done() -> None:
    events = [*deltas("Ask Jane"), ("stage_done", {}), *deltas(" Doe"), ("done", answer_of("Ask Jane Doe"))]
    found = routed(events, "web_chat")
    assert [name for name, _ in found] == ["delta", "delta", "stage_done", "delta", "done"]
    assert heard(found) == done(found).answer == "Ask Jane Doe", "what has left is not taken back"


def test_what_is_held_back_of_a_retracted_answer_never_leaves() -> None:
    turn = RoutedTurn(ROUTING, "web_chat")
    events = [*deltas("Mine is a@b.org and jane.do"), ("retract", {"reason": "Jane Doe is named"}), *deltas("No.")]
    found = [leaving for name, data in events for leaving in turn.feed(name, data)]
    found += turn.feed("done", answer_of("No."))
    assert "jane" not in str(found).lower()
    assert ("retract", {"reason": "[name] is named"}) in found
    assert heard(found) == done(found).answer == "No."
    assert done(found).redactions == []
    assert turn.taken == {"email": 1, "name": 1}, "the log counts what was taken out of what is void too"


def test_a_turn_that_was_taken_before_is_scrubbed_whole() -> None:
    found = routed([("done", answer_of(SAID, ChatBlock(marker="VERIFY", text=SAID)))], "discord_chat")
    assert [(one.text, one.redactions) for one in done(found).blocks] == [(SHOWN, TAKEN)] * 2
    assert done(found).answer == SHOWN


def test_a_block_says_what_was_taken_out_of_it() -> None:
    found = routed([block("VERIFY", SAID), block("VERIFY", "fine")], "web_chat")
    assert found == [
        (
            "block",
            {
                "marker": "VERIFY",
                "text": SHOWN,
                "role": "prime",
                "manner": "show",
                "redactions": [{"kind": "email", "count": 1}, {"kind": "name", "count": 1}],
            },
        ),
        ("block", {"marker": "VERIFY", "text": "fine", "role": "prime", "manner": "show"}),
    ]


def test_a_source_whose_words_were_scrubbed_is_marked() -> None:
    text = (
        "Tel. +49 30 901820 is not theirs.\n\nThe keeper is Jane Doe [Packet: p1] [Packet: p2]. "
        "The gate is red [Packet: p3]; by Jane Doe [Packet: p4]."
    )
    answer = answer_of(text, sources=["p1", "p2", "p3", "p5"])
    assert done(routed([("done", answer)], "web_chat")).redacted == ["p1", "p2"], "p4 is no source of it"
    assert done(routed([("done", answer)], "cli_chat")).redacted == []


def test_reasons_and_notes_are_scrubbed_and_names_of_things_are_not() -> None:
    vote = VoteRecord(
        proposal_id="prop_4111111111111111",
        matter="execute",
        subject="mail jane.doe@acme.org",
        passed=True,
        may_proceed=True,
        reduced_quorum=False,
        reason="agreed",
        ballots=[BallotRecord(role="lite", vote="yes", confidence=0.5, reason="Jane Doe asked")],
    )
    answer = answer_of("Fine.", notes=["/home/jane/x was read"], votes=[vote], end_why="for Jane Doe")
    found = routed([("vote", vote), ("done", answer)], "discord_chat")
    told = msgspec.convert(found[0][1], VoteRecord)
    assert (told.proposal_id, told.subject) == ("prop_4111111111111111", "mail [e-mail]")
    assert told.ballots[0].reason == "[name] asked"
    assert (done(found).votes, done(found).end_why) == ([told], "for [name]")
    assert done(found).notes == ["[home]/x was read"]
    assert (done(found).turn_id, done(found).session_id) == (answer.turn_id, "s-1")


def test_an_override_moves_blocks_and_answers() -> None:
    routing = make_routing({"web_chat": {"PLAN": "log", "RESPONSE": "off"}}, {"web_chat": False}, RedactionSettings())
    events = [block("PLAN", "1. Look"), *deltas("a@b.org"), ("done", answer_of("a@b.org", sources=["p1"]))]
    found = routed(events, "web_chat", routing)
    assert [name for name, _ in found] == ["block", "done"]
    assert (done(found).answer, done(found).blocks, done(found).sources) == ("", [], [])
    assert "router.overrides.web_chat.RESPONSE" in done(found).notes[-1]


def test_an_answer_that_is_logged_says_so_in_its_deltas() -> None:
    routing = make_routing({"cli_chat": {"RESPONSE": "log"}}, {"cli_chat": True}, RedactionSettings())
    found = routed([*deltas("a@b.org"), ("done", answer_of("a@b.org"))], "cli_chat", routing)
    assert found[0] == ("delta", {"text": "[e-mail]", "manner": "log"})
    assert done(found).blocks == [
        ChatBlock(marker="RESPONSE", text="[e-mail]", manner="log", redactions=[RedactionCount(kind="email", count=1)])
    ]


def test_a_quote_that_was_scrubbed_is_marked_and_keeps_the_hash_of_what_is_stored() -> None:
    quotes = [
        Citation(packet_id="p1", page_id="p1#1", start=0, end=5, sha256=digit * 64, quote=quote, timestamp="2023-11-05")
        for quote, digit in ((SAID, "4"), ("The gate is red.", "5"))
    ]
    found = ResearchResult(
        status="SUCCESS",
        answer=f"{SAID} [Packet: p1]",
        source_packets=["p1"],
        citations=quotes,
        confidence=0.5,
        confidence_band="MEDIUM",
        iterations_used=1,
        max_iterations=5,
        note="",
        suggestions=["Ask Jane Doe"],
        engine="extractive",
        took_ms=1.5,
    )
    shown = RoutedTurn(ROUTING, "web_chat").found(found)
    assert [(one.quote, one.redacted, one.sha256[0]) for one in shown.citations] == [
        (SHOWN, True, "4"),
        ("The gate is red.", False, "5"),
    ]
    assert (shown.answer, shown.suggestions) == (f"{SHOWN} [Packet: p1]", ["Ask [name]"])
    assert RoutedTurn(ROUTING, "cli_chat").found(found) is found


def test_a_remembered_turn_is_shown_as_it_would_have_been_said() -> None:
    turn = SessionTurn(
        session_id="s",
        turn_id="t",
        messages=[TurnMessage(role="user", content=SAID), TurnMessage(role="assistant", content=SAID)],
        blocks=[TurnBlock(marker=marker, text=SAID) for marker in ("PLAN", "RESPONSE", "THOUGHT_SEED")],
        metadata={"interrupts": ["it named Jane Doe"]},
    )
    shown = RoutedTurn(ROUTING, "web_chat").remembered(turn)
    assert [message.content for message in shown.messages] == [SAID, SHOWN], "the person knows what the person said"
    assert [(one.marker, one.text) for one in shown.blocks] == [("RESPONSE", SHOWN)]
    assert shown.metadata == {"interrupts": ["it named [name]"]}
    assert RoutedTurn(ROUTING, "cli_chat").remembered(turn).answer == SAID


PIECES = st.lists(
    st.sampled_from(
        ["Jane ", "Doe", "jane@acme.org", "@", " ", "\n\n", "+49 30 ", "901820", "word ", ".", "\u200b", "_", "*"]
    ),
    max_size=14,
)
STEPS = st.lists(st.one_of(PIECES, st.just("retract"), st.just("stage_done")), max_size=6)


@example([["Jane ", ".", " ", "Doe", "Jane "]])
@example([["jane", "*", "  ", "Doe", " "]])
@settings(max_examples=200)
@given(STEPS)
def test_deltas_and_done_agree_whatever_comes_between(steps: list[Any]) -> None:
    events: list[Event] = []
    said = ""
    for step in steps:
        if step == "retract":
            events.append(("retract", {"reason": "no"}))
            said = ""
        elif step == "stage_done":
            events.append(("stage_done", {}))
        else:
            events += deltas(*step)
            said += "".join(step)
    found = routed([*events, ("done", answer_of(said))], "web_chat")
    assert heard(found) == done(found).answer
    if "stage_done" not in steps:
        assert done(found).answer == redact(said, ROUTING.rules).text


ALSO = Also(
    packet_id="TP-9",
    title="Mail of ada@example.org",
    words="In [Packet: TP-9] of 2025-01-02 we also covered ada@example.org",
    score=0.7,
)


def test_an_earlier_packet_named_below_an_answer_is_scrubbed_like_it() -> None:
    for events in (
        routed([("also", ALSO)], "web_chat"),
        [("also", msgspec.to_builtins(done(routed([("done", answer_of("Yes.", also=ALSO))], "web_chat")).also))],
    ):
        (name, data), *_ = events
        assert isinstance(data, dict)
        assert (name, data["packet_id"]) == ("also", "TP-9")
        assert "ada@" not in data["words"] + data["title"]
        assert "[Packet: TP-9]" in data["words"]
    assert routed([("also", ALSO)], "cli_chat") == [("also", ALSO)]


def test_where_no_answer_goes_no_earlier_packet_is_named() -> None:
    silent = make_routing({"web_chat": {"RESPONSE": "off"}}, {}, RedactionSettings())
    assert routed([("also", ALSO)], "web_chat", silent) == []
    assert done(routed([("done", answer_of("Yes.", also=ALSO))], "web_chat", silent)).also is None
