"""Plans of the rules and of a model are of one type, and say what is searched for."""

import msgspec
import pytest

from gaiad.research.trail import PlanAction, actions_of, as_request
from gaiad.wire.schemas import Filters, SearchRequest

BASE = SearchRequest(query="the pump", limit=24, filters=Filters(models=["Claude"]), phrases=["two valves"])


def test_a_search_by_words_and_by_meaning_is_an_action_for_each_tool() -> None:
    in_order = msgspec.structs.replace(BASE, query="pump", mode="bm25", order="earliest", limit=60)
    quoting = "pages that hold 'two valves'"
    assert actions_of([BASE, in_order]) == [
        PlanAction(tool="bm25", query="the pump", k=24, note=quoting),
        PlanAction(tool="dense", query="the pump", k=24, note=quoting),
        PlanAction(tool="bm25", query="pump", k=60, note="in order of time, the earliest first"),
    ]


def test_an_action_is_spelled_as_jit_spells_it() -> None:
    action = PlanAction(tool="page_id", page_ids=["p-1"], k=4, note="again")
    assert msgspec.to_builtins(action) == {"tool": "page_id", "query": "", "pageIds": ["p-1"], "k": 4, "note": "again"}


def test_an_action_is_searched_for_within_the_question_s_filters() -> None:
    found = as_request(PlanAction(tool="dense", query="  a  second part ", k=5), BASE)
    assert found is not None
    assert (found.mode, found.query, found.limit) == ("dense", "a second part", 5)
    assert (found.filters, found.phrases) == (BASE.filters, [])


@pytest.mark.parametrize("action", [PlanAction(tool="bm25", query="  "), PlanAction(tool="page_id", query="words")])
def test_an_action_that_names_nothing_is_no_search(action: PlanAction) -> None:
    assert as_request(action, BASE) is None
