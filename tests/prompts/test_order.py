"""What leaves history leaves in blocks, and what stays stays where it was."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from prompts.order import Turn, choose_pages, first_kept, group_turns, place_pages
from prompts.packet import ContextItem, HistoryEntry
from tests.makers.cognition import packet


def page(name: str, before: str = "", text: str = "words") -> ContextItem:
    return ContextItem(packet_id=f"TP-{name}", page_id=name, text=text, before_turn=before)


def test_both_sides_of_a_turn_stay_together() -> None:
    entries = [
        HistoryEntry(turn_id="t1", role="user", text="a"),
        HistoryEntry(turn_id="t1", role="assistant", text="b"),
        HistoryEntry(turn_id="t2", role="user", text="c"),
    ]
    assert group_turns(entries, [3, 4, 5]) == [Turn("t1", entries[:2], 7), Turn("t2", entries[2:], 5)]


def test_all_stays_while_it_fits() -> None:
    assert first_kept([10, 10, 10], 30) == 0
    assert first_kept([], 0) == 0


def test_a_block_leaves_down_to_the_low_mark() -> None:
    assert first_kept([10] * 11, 100) == 6


def test_the_beginning_stands_still_until_the_limit_is_reached_again() -> None:
    costs, start, moves = [10] * 10, first_kept([10] * 10, 100), 0
    for _ in range(100):
        costs.append(10)
        new = first_kept(costs, 100, start)
        moves += new != start
        start = new
        assert sum(costs[start:]) <= 100
    assert moves == 17  # once in six turns


def test_a_small_view_widens_again_when_there_is_room() -> None:
    costs = [10] * 20
    assert first_kept(costs, 100, before=15) == 15
    assert first_kept(costs, 100, before=18) == 15


def test_a_last_turn_over_the_low_mark_still_stays_and_one_over_the_limit_does_not() -> None:
    assert first_kept([10, 90], 99) == 1
    assert first_kept([10, 101], 100) == 2


@given(st.lists(st.integers(1, 300), max_size=40), st.integers(0, 3000), st.none() | st.integers(0, 45))
def test_what_stays_always_fits(costs: list[int], limit: int, before: int | None) -> None:
    start = first_kept(costs, limit, before)
    assert 0 <= start <= len(costs)
    assert sum(costs[start:]) <= limit
    assert start < len(costs) or not costs or costs[-1] > limit


def test_a_page_that_does_not_fit_is_passed_over_for_a_smaller_one() -> None:
    assert choose_pages([60, 50, 30, 20], 100) == [0, 2]
    assert choose_pages([101], 100) == []


def test_pages_stay_where_they_stood_and_new_ones_come_after() -> None:
    previous = msgspec.structs.replace(packet(), turn_id="t2", context=[page("a", "t1"), page("b"), page("gone")])
    placed = place_pages([page("new"), page("b"), page("a")], previous, "t3", frozenset({"t1", "t2"}))
    assert [(item.page_id, item.before_turn) for item in placed] == [("a", "t1"), ("b", "t2"), ("new", "")]


def test_a_page_whose_turn_left_comes_to_this_one_before_new_pages() -> None:
    previous = msgspec.structs.replace(packet(), turn_id="t2", context=[page("a", "t1"), page("b")])
    placed = place_pages([page("new"), page("a"), page("b")], previous, "t3", frozenset({"t2"}))
    assert [(item.page_id, item.before_turn) for item in placed] == [("b", "t2"), ("a", ""), ("new", "")]


def test_a_second_packet_of_the_same_turn_keeps_the_order_of_the_first() -> None:
    previous = msgspec.structs.replace(packet(), turn_id="t3", context=[page("a"), page("b")])
    placed = place_pages([page("b"), page("c"), page("a")], previous, "t3", frozenset())
    assert [item.page_id for item in placed] == ["a", "b", "c"]


def test_a_page_with_new_text_is_a_new_page() -> None:
    previous = msgspec.structs.replace(packet(), turn_id="t2", context=[page("a"), page("b")])
    placed = place_pages([page("a", text="rewritten"), page("b")], previous, "t3", frozenset({"t2"}))
    assert [(item.page_id, item.before_turn) for item in placed] == [("b", "t2"), ("a", "")]
