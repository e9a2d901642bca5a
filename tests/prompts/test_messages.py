"""The order of a prompt: what stands before what, and what never stands in it."""

import msgspec

from prompts.messages import messages_of
from prompts.packet import ContextItem, HistoryEntry, WorkItem
from tests.makers.cognition import packet


def texts(one: object) -> list[tuple[str, str]]:
    return [(message.role, "".join(part.text for part in message.content)) for message in messages_of(one)]


def entry(turn: str, role: str, text: str, summary: bool = False) -> HistoryEntry:
    return HistoryEntry(turn_id=turn, role=role, text=text, summary=summary)


def test_a_question_with_its_pages_reads_the_same_as_history_as_when_it_was_new() -> None:
    page = ContextItem(packet_id="TP-1", page_id="p1", text="The lantern.")
    now = texts(packet(context=[page]))
    later = packet(
        turn_id="t3",
        history=[entry("t1", "user", "Hello"), entry("t2", "user", "What now?"), entry("t2", "assistant", "Wait.")],
        context=[msgspec.structs.replace(page, before_turn="t2")],
    )
    joined = "\0".join(text for _, text in texts(later))
    assert joined.startswith("\0".join(text for _, text in now[:1]))
    asked = now[-1][1][: now[-1][1].index("What now?") + len("What now?")]
    assert asked.removeprefix("Hello\n\n") in joined
    assert joined.index("<<memory") < joined.index("What now?") < joined.index("Wait.")


def test_the_meta_header_is_not_in_it_and_nothing_is_trusted() -> None:
    one = packet(
        packet_id="deadbeef",
        full_id="cog_FULLID",
        turn_id="t-turn",
        parent_id="cog_PARENT",
        timestamp="2019-03-04T05:06:07Z",
        mtu=4093,
        confidence=0.8731,
        risk_level="high",
        retry_count=7919,
    )
    written = "".join(text for _, text in texts(one))
    for secret in (
        "deadbeef",
        "FULLID",
        "t-turn",
        "PARENT",
        "2019-03-04",
        "4093",
        "8731",
        "high",
        "7919",
        "initial_pl",
    ):
        assert secret not in written
    assert not any(part.trusted for message in messages_of(one) for part in message.content)
    assert {part.source for message in messages_of(one) for part in message.content} == {"", "TP-1"}


def test_the_users_words_come_last_and_the_directive_right_before_them() -> None:
    written = texts(packet(history=[entry("t1", "user", "Hello"), entry("t1", "assistant", "Good day")]))
    assert [role for role, _ in written] == ["system", "user", "assistant", "system", "user"]
    assert written[0] == ("system", "truthful\n\nplain")
    assert written[1:3] == [("user", "Hello"), ("assistant", "Good day")]
    assert written[3][1].startswith("These are notes from your memory.")
    assert "The lantern." in written[3][1]
    assert written[3][1].endswith("You plan.\n\nWrite a plan.")
    assert written[4] == ("user", "What now?")


def test_without_pages_nothing_is_said_of_memory_and_the_first_turn_has_two_messages() -> None:
    assert texts(packet(history=[], context=[])) == [
        ("system", "truthful\n\nplain\n\nYou plan.\n\nWrite a plan."),
        ("user", "What now?"),
    ]


def test_all_roles_of_a_turn_share_everything_before_their_own_words() -> None:
    one = "\0".join(text for _, text in texts(packet()))
    other = "\0".join(text for _, text in texts(packet(role="prime", role_text="You act.", task_instruction="Answer.")))
    shared = one[: one.index("You plan.")]
    assert "The lantern." in shared
    assert other.startswith(shared)


def test_neighbours_of_one_role_are_one_message() -> None:
    history = [entry("t0", "user", "⚠SUMMARY Before.", summary=True), entry("t1", "user", "Hello")]
    written = texts(packet(history=history))
    assert [role for role, _ in written] == ["system", "user", "system", "user"]
    assert written[1][1].endswith("\n\nHello")


def test_a_page_whose_turn_is_not_there_stands_in_this_one() -> None:
    page = ContextItem(packet_id="TP-1", page_id="p1", text="The lantern.", before_turn="t0")
    assert "The lantern." in texts(packet(context=[page]))[-2][1]


def test_a_packet_without_a_question_ends_with_its_history() -> None:
    said = [entry("t1", "user", "Hello"), entry("t1", "assistant", "Good day")]
    bare = packet(history=said, context=[], role_text="", task_instruction="", user_prompt="")
    assert [role for role, _ in texts(bare)] == ["system", "user", "assistant"]


def test_work_stands_behind_the_pages_and_before_role_and_task_each_stage_reading_on() -> None:
    plan, reply = WorkItem("PLAN", "1. Look.", "lite"), WorkItem("RESPONSE", "In the hall.", "prime")
    now = texts(packet(work=[plan, reply]))[-2][1]
    places = [now.index(part) for part in ("The lantern.", "1. Look.", "In the hall.", "You plan.", "Write a plan.")]
    assert places == sorted(places)
    none, one, two = (texts(packet(work=work))[-2][1].partition("You plan.")[0] for work in ([], [plan], [plan, reply]))
    assert one.startswith(none)
    assert two.startswith(one)
