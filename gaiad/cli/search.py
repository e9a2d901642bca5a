"""`gaiad search`: pages for a query, ranked; who found each and why, on request."""

import re
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.command import Verb, invocation, tenant_option
from gaiad.cli.flags import filter_options, filters_from, user_zone
from gaiad.cli.output import (
    NOT_FOUND,
    bold,
    counted,
    date_of,
    dim,
    emphasise,
    end,
    milliseconds,
    plain,
    terminal_width,
    warn,
    wrap,
    write_json,
)

if TYPE_CHECKING:
    from gaiad.wire.schemas import Hit, SearchResponse

_INDENT = "    "


@click.command(
    cls=Verb,
    example="""
        gaiad search consent protocol
        gaiad search --since 2025-11-01 --until 2025-11-30 --tag governance consent
        gaiad search --mode metadata --metric coherence:0.9.. --order latest
        gaiad search --phrase "law of consent" --explain consent
        gaiad search --json enumeration | jq -r '.hits[].packet_id'
    """,
)
@click.argument("query", nargs=-1)
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "bm25", "dense", "page_id", "metadata"]),
    default="hybrid",
    show_default=True,
    help="Who looks: words, meaning, both, ids, or the filters alone.",
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1, 1000), help="At most this many hits.")
@filter_options
@click.option("--phrase", "phrases", multiple=True, metavar="TEXT", help="The page holds these words as written.")
@click.option(
    "--focus",
    type=click.Choice(["technical_content", "behavioral_state", "full_context"]),
    default="full_context",
    show_default=True,
    help="Which sections of a packet to look at.",
)
@click.option("--adjacent", default=0, type=click.IntRange(0, 10), help="Also show this many pages around each hit.")
@click.option("--page", "page_ids", multiple=True, metavar="ID", help="Show the page with this id; may repeat.")
@click.option(
    "--order",
    type=click.Choice(["relevance", "earliest", "latest"]),
    default="relevance",
    show_default=True,
    help="How to order the hits.",
)
@click.option("--explain", is_flag=True, help="Show each retriever's rank and score, and any boost.")
@click.option("--include-chats", is_flag=True, help="Also what gaiad itself wrote in chats.")
@click.option("--exit-status", is_flag=True, help="Exit 3 when nothing was found.")
@tenant_option
def search(query: tuple[str, ...], tenant: str, exit_status: bool, **given: Any) -> None:
    """Search the pages of all packets.

    Without QUERY it needs filters, phrases or page ids. Filters are exact and exclude; words rank.
    """
    from gaiad.wire.schemas import SearchRequest

    request = SearchRequest(
        query=" ".join(query),
        mode=_mode(given, bool(query)),
        limit=given["limit"],
        tenant=tenant,
        filters=filters_from(given),
        phrases=list(given["phrases"]),
        page_ids=list(given["page_ids"]),
        focus=given["focus"],
        adjacent=given["adjacent"],
        explain=given["explain"],
        order=given["order"],
        include_chats=given["include_chats"],
    )
    with invocation().client() as client:
        response = client.search(request)
    if invocation().as_json:
        write_json(response)
    else:
        terms = query_terms(request.query, request.phrases)
        if request.mode == "hybrid" and only_near(response):
            click.echo("No page has any of these words. The nearest in meaning:\n")
        click.echo(response_text(response, terms, terminal_width(), user_zone()))
    if exit_status and not response.hits:
        end(NOT_FOUND)


def _mode(given: dict[str, Any], has_query: bool) -> Any:
    """The mode asked for; ids mean page_id, and filters without words mean metadata."""
    if given["page_ids"] and given["mode"] == "hybrid":
        return "page_id"
    if has_query or given["phrases"] or given["mode"] == "page_id":
        return given["mode"]
    if any(given[name] for name in ("since", "until", "model", "topic", "tag", "metric")):
        return "metadata"
    raise click.UsageError("Missing QUERY: give words, or filters such as --topic, --phrase or --page")


def only_near(response: "SearchResponse") -> bool:
    """Whether what was found has the meaning of the words alone, not one of them."""
    return bool(response.hits) and all(hit.retrievers == ["dense"] for hit in response.hits)


def query_terms(query: str, phrases: list[str]) -> list[str]:
    """Words to show in bold when the daemon did not explain what matched."""
    return [word for word in re.findall(r"\w+", " ".join([query, *phrases])) if len(word) > 2]


def response_text(response: "SearchResponse", terms: list[str], width: int, zone: tzinfo) -> str:
    """All hits for people, then how many and how long it took; days are those of `zone`."""
    blocks = [f"{warn('degraded:')} {plain(reason)}" for reason in response.degraded]
    blocks += [hit_text(number, hit, terms, width, zone) for number, hit in enumerate(response.hits, 1)]
    blocks.append(dim(f"{counted(len(response.hits), 'hit')} in {milliseconds(response.took_ms)}"))
    return "\n\n".join(blocks)


def hit_text(number: int, hit: "Hit", terms: list[str], width: int, zone: tzinfo) -> str:
    """Rank, topic and date; packet and speaker; the excerpt; when explained also score, page and why."""
    matched = hit.explanation.matched_terms if hit.explanation else terms
    day = date_of(hit.timestamp, zone)
    head = wrap(f"{number:>2}. {hit.topic or _session_of(hit)}  {day}", width)
    where = [f"[Packet: {hit.packet_id}]", hit.speaker]
    if hit.explanation is not None:
        head += f"  score {hit.score:.4f}"
        where += [hit.section, f"page {hit.page_id}"]
    lines = [bold(head), _INDENT + dim(plain("  ".join(part for part in where if part))), _excerpt(hit, matched, width)]
    if hit.explanation is not None:
        lines += [_INDENT + dim(line) for line in _explanation(hit)]
    lines += [_excerpt(neighbour, [], width, _INDENT + "| ") for neighbour in hit.adjacent]
    return "\n".join(lines)


def _session_of(hit: "Hit") -> str:
    """Where it was said, for what has no topic."""
    return f"session {hit.session_id}" if hit.session_id else "(no topic)"


def _excerpt(hit: "Hit", terms: list[str], width: int, indent: str = _INDENT) -> str:
    return emphasise(wrap(hit.excerpt, width, indent), terms)


def _explanation(hit: "Hit") -> list[str]:
    if hit.explanation is None:
        return []
    found = [f"{name}: rank {by.rank}, score {by.score:.4f}" for name, by in hit.explanation.retrievers.items()]
    boosts = [f"{name} {added:+.4f}" for name, added in hit.explanation.boosts.items()]
    matched = ", ".join(plain(term) for term in hit.explanation.matched_terms)
    return [
        *found,
        *([f"boosts: {', '.join(boosts)}"] if boosts else []),
        *([f"matched: {matched}"] if matched else []),
    ]
