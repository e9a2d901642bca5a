"""The shipped matrix is GCP 7.2 with the memory column, and a block never leaves its turn's channels."""

import re
from itertools import chain, combinations
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.channels import Channel, channel_table
from gaiad.base.errors import ConfigError
from router.routing import Marker, destinations, overridden, routing_table

# GCP 7.2, in the table's own order: cli, web, discord, council, shell; the last column is ours.
SEED = {
    "PLAN": "L--x-P",
    "EXECUTE": "----R-",
    "RESPONSE": "xxx--P",
    "THOUGHT_SEED": "---x-P",
    "INTERRUPT": "xxxx-E",
    "VERIFY": "xxxx-P",
}
MANNERS = {"L": "log", "x": "show", "R": "run", "P": "page", "E": "event"}
CHANNELS: tuple[Channel, ...] = ("cli_chat", "web_chat", "discord_chat", "council_chat", "shell", "memory")


def test_the_shipped_matrix_is_the_seeds_table_cell_by_cell() -> None:
    expected = {
        marker: {channel: MANNERS[cell] for channel, cell in zip(CHANNELS, cells, strict=True) if cell != "-"}
        for marker, cells in SEED.items()
    }
    assert routing_table().matrix == expected
    assert set(SEED) == set(get_args(Marker))
    assert tuple(channel_table()) == CHANNELS


def test_execute_has_one_destination() -> None:
    assert destinations(routing_table(), "EXECUTE", "cli_chat", CHANNELS) == {"shell": "run"}


@pytest.mark.parametrize("marker", SEED)
def test_a_block_goes_nowhere_the_turn_did_not_come_from_or_subscribe(marker: Marker) -> None:
    table = routing_table()
    subsets = chain.from_iterable(combinations(CHANNELS, size) for size in range(len(CHANNELS) + 1))
    for subscriptions in subsets:
        for origin in CHANNELS:
            reached = destinations(table, marker, origin, subscriptions)
            assert set(reached) == set(table.matrix[marker]) & {origin, *subscriptions}


def test_a_private_answer_on_the_command_line_stays_there() -> None:
    assert destinations(routing_table(), "RESPONSE", "cli_chat") == {"cli_chat": "show"}


def test_what_belongs_to_no_marker_goes_to_the_councils_log_alone() -> None:
    assert destinations(routing_table(), "", "cli_chat", CHANNELS) == {"council_chat": "log"}
    assert destinations(routing_table(), "", "cli_chat") == {}


def test_a_user_changes_single_cells() -> None:
    table = overridden(
        routing_table(), {"cli_chat": {"PLAN": "show", "VERIFY": "off"}, "memory": {"PLAN": "off"}}, "router.channels"
    )
    assert table.matrix["PLAN"] == {"cli_chat": "show", "council_chat": "show"}
    assert "cli_chat" not in table.matrix["VERIFY"]
    changed = ("PLAN", "VERIFY")
    assert all(table.matrix[row] == routing_table().matrix[row] for row in table.matrix if row not in changed)
    assert routing_table().matrix["PLAN"]["cli_chat"] == "log"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"cli_chat": {"EXECUTE": "show"}}, "only commands go to the shell"),
        ({"shell": {"RESPONSE": "run"}}, "only commands go to the shell"),
        ({"shell": {"EXECUTE": "off"}}, "only commands go to the shell"),
        ({"email": {"PLAN": "show"}}, "email is not a channel; use one of cli_chat"),
        ({"cli_chat": {"PLANS": "show"}}, "PLANS is not a marker; use one of PLAN"),
        ({"web_chat": {"PLAN": "run"}}, "router.channels.web_chat.PLAN is 'run'; write one of 'show', 'log', 'off'"),
        ({"memory": {"PLAN": "show"}}, "write one of 'page', 'event', 'off'"),
    ],
)
def test_an_override_that_is_none_is_refused(overrides: dict[str, dict[str, str]], words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words)):
        overridden(routing_table(), overrides, "router.channels")


@given(
    st.dictionaries(
        st.sampled_from(("cli_chat", "web_chat", "discord_chat", "council_chat", "shell", "memory", "x")),
        st.dictionaries(st.sampled_from((*SEED, "x")), st.sampled_from((*MANNERS.values(), "off", "x"))),
    )
)
def test_no_override_ever_opens_another_way_to_the_shell(overrides: dict[str, dict[str, str]]) -> None:
    try:
        table = overridden(routing_table(), overrides, "router.channels")
    except ConfigError:
        return
    assert table.matrix["EXECUTE"] == {"shell": "run"}
    others = [row for marker, row in table.matrix.items() if marker != "EXECUTE"]
    assert all("shell" not in row and "run" not in row.values() for row in others)
