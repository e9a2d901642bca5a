"""A briefing's view of the archive: its mode, what it prefers, and what it notes of the pages found."""

import pytest

from gaiad.archive.archive import LocalArchive
from gaiad.base.errors import Unavailable
from gaiad.base.ports import RequestContext
from gaiad.research.briefing import BriefingArchive
from gaiad.wire.memory import SessionTurn, TurnMessage
from gaiad.wire.schemas import SearchRequest

SAID = {"a": "The tower is red.", "b": "Maria Olsen lives in Bergen.", "c": "The tower is red."}


@pytest.fixture
async def filled(archive: LocalArchive, call: RequestContext) -> LocalArchive:
    turns = [
        SessionTurn(session_id=name, turn_id=f"said_{name}", messages=[TurnMessage(role="user", content=text)])
        for name, text in SAID.items()
    ]
    await archive.remember_turns(turns, call)
    return archive


async def found(view: BriefingArchive, call: RequestContext) -> list[str]:
    return [hit.packet_id for hit in (await view.search(SearchRequest(query="tower"), call)).hits]


async def test_only_the_first_search_also_looks_for_the_memos_names(filled: LocalArchive, call: RequestContext) -> None:
    view = BriefingArchive(filled, "hybrid", [], ["Maria Olsen"])
    assert set(await found(view, call)) == {"said_a", "said_b", "said_c"}
    assert view.searches == 2
    assert set(await found(view, call)) == {"said_a", "said_c"}
    assert view.searches == 3
    assert view.hits_by_tool() == {"bm25": 3}
    assert {hit.packet_id for hit in view.hits.values()} == {"said_a", "said_b", "said_c"}


@pytest.mark.parametrize("preferred", ["a", "c"])
async def test_pages_of_preferred_sessions_come_first_and_others_stay(
    filled: LocalArchive, call: RequestContext, preferred: str
) -> None:
    others = {"said_a", "said_c"} - {f"said_{preferred}"}
    assert await found(BriefingArchive(filled, "hybrid", [preferred], []), call) == [f"said_{preferred}", *others]


async def test_every_search_is_made_in_the_mode_asked_for(filled: LocalArchive, call: RequestContext) -> None:
    assert len(await found(BriefingArchive(filled, "bm25", [], []), call)) == 2
    with pytest.raises(Unavailable):
        await found(BriefingArchive(filled, "dense", [], []), call)
