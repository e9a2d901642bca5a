"""The shipped matrix is GCP 7.2 with the memory column, and a block never leaves its turn's channels."""

from itertools import chain, combinations
from typing import get_args

import msgspec
import pytest

from router.matrix import Channel, Marker, RoutingTable, destinations, routing_table

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
    assert set(CHANNELS) == set(get_args(Channel))


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


def test_an_unknown_channel_in_a_table_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.matrix"):
        msgspec.toml.decode(b'[matrix.PLAN]\nemail = "show"\n', type=RoutingTable)
