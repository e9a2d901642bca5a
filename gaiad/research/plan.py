"""The plan of a round (JIT): its searches as PlanActions, whoever planned them. Pure.

The rules plan what they search for: a search by words and by meaning at once is two actions, one for each tool. A
model's actions are searched for as they are.
"""

from collections.abc import Sequence

import msgspec

from gaiad.schemas import Retriever, SearchRequest


class PlanAction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """JIT's PlanAction; the tool `metadata` is ours. `page_ids` are for the tool page_id, `query` for all others."""

    tool: Retriever
    query: str = ""
    page_ids: list[str] = []
    k: int = 8
    note: str = ""


def actions_of(requests: Sequence[SearchRequest]) -> list[PlanAction]:
    """The searches as a plan, in their order."""
    return [action for request in requests for action in _actions(request)]


def _actions(request: SearchRequest) -> list[PlanAction]:
    quoted = f"pages that hold {' and '.join(repr(phrase) for phrase in request.phrases)}" if request.phrases else ""
    note = quoted if request.order == "relevance" else f"in order of time, the {request.order} first"
    tools: tuple[Retriever, ...] = ("bm25", "dense") if request.mode == "hybrid" else (request.mode,)
    return [
        PlanAction(tool=tool, query=request.query, page_ids=list(request.page_ids), k=request.limit, note=note)
        for tool in tools
    ]


def as_request(action: PlanAction, base: SearchRequest) -> SearchRequest | None:
    """The search of an action, with the filters and preferences of the question's own; None for one without words."""
    if action.tool == "page_id":
        ids = list(dict.fromkeys(action.page_ids))
        search = msgspec.structs.replace(base, mode="page_id", query="", page_ids=ids, phrases=[], order="relevance")
        return search if ids else None
    query = " ".join(action.query.split())
    if not query:
        return None
    return msgspec.structs.replace(
        base, mode=action.tool, query=query, limit=action.k, phrases=[], order="relevance", adjacent=0
    )
