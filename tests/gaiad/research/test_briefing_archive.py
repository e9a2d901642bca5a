"""A briefing's view of the archive: its mode, what it prefers, and what it notes of the pages found."""

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.errors import Unavailable
from gaiad.memory_schemas import SessionTurn, TurnMessage
from gaiad.ports import Call
from gaiad.research.briefing_archive import BriefingArchive
from gaiad.schemas import SearchRequest

SAID = {"a": "The tower is red.", "b": "Maria Olsen lives in Bergen.", "c": "The tower is red."}


@pytest.fixture
async def filled(archive: LocalArchive, call: Call) -> LocalArchive:
    turns = [
        SessionTurn(session_id=name, turn_id=f"said_{name}", messages=[TurnMessage(role="user", content=text)])
        for name, text in SAID.items()
    ]
    await archive.remember_turns(turns, call)
    return archive


async def found(view: BriefingArchive, call: Call) -> list[str]:
    return [hit.packet_id for hit in (await view.search(SearchRequest(query="tower"), call)).hits]


async def test_only_the_first_search_also_looks_for_the_memos_names(filled: LocalArchive, call: Call) -> None:
    view = BriefingArchive(filled, "hybrid", [], ["Maria Olsen"])
    assert set(await found(view, call)) == {"said_a", "said_b", "said_c"}
    assert view.searches == 2
    assert set(await found(view, call)) == {"said_a", "said_c"}
    assert view.searches == 3
    assert view.hits_by_tool() == {"bm25": 3}
    assert {hit.packet_id for hit in view.hits.values()} == {"said_a", "said_b", "said_c"}


@pytest.mark.parametrize("preferred", ["a", "c"])
async def test_pages_of_preferred_sessions_come_first_and_others_stay(
    filled: LocalArchive, call: Call, preferred: str
) -> None:
    others = {"said_a", "said_c"} - {f"said_{preferred}"}
    assert await found(BriefingArchive(filled, "hybrid", [preferred], []), call) == [f"said_{preferred}", *others]


async def test_every_search_is_made_in_the_mode_asked_for(filled: LocalArchive, call: Call) -> None:
    assert len(await found(BriefingArchive(filled, "bm25", [], []), call)) == 2
    with pytest.raises(Unavailable):
        await found(BriefingArchive(filled, "dense", [], []), call)
