"""`gaiad ask` and `gam-research`: a question to the archive, answered with verified citations."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gaiad.cli.command import Verb, invocation, same_place, tenant_option
from gaiad.cli.flags import filter_options, filters_from, moment, user_zone
from gaiad.cli.output import NOT_FOUND, dim, end, terminal_width, write_json

if TYPE_CHECKING:
    from gaiad.wire.schemas import ResearchRequest, ResearchResult


def question_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a question may be asked with; `request_from` reads it."""
    options: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
        click.option("--now", default="", metavar="TIME", help='The time "last week" is counted from; default: now.'),
        click.option(
            "--max-iterations",
            default=0,
            type=click.IntRange(0, 5),
            help="Most rounds of search and reflection; 0 is the setting research.max_iterations.",
        ),
        click.option(
            "--max-pages",
            default=0,
            type=click.IntRange(0, 32),
            help="Most pages quoted; 0 is the setting research.max_pages.",
        ),
        click.option(
            "--max-output-tokens",
            default=0,
            metavar="N",
            type=click.IntRange(min=0),
            help="Limit the answer to this many tokens, keeping whole quotes; 0 for no limit.",
        ),
        filter_options,
        tenant_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


_exit_status = click.option("--exit-status", is_flag=True, help="Exit 3 when the status is NOT_FOUND or CLARIFY.")


@click.command(
    cls=Verb,
    example="""
        gaiad ask what did we say about the enumeration protocol
        gaiad ask --since 2025-11-01 --quotes "who proposed the law of consent?"
        gaiad ask --json "what changed last week?" | jq -r .answer
        echo "what is RTC?" | gaiad ask
    """,
)
@click.argument("question", nargs=-1)
@click.option("--quotes", is_flag=True, help="Show the quoted passages with page, span and hash.")
@click.option("--why", is_flag=True, help="Show the whole result: what was found, confidence, rounds.")
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Show on stderr what is searched, found and missing, and the answer so far. Default: on a terminal.",
)
@question_options
@_exit_status
def ask(question: tuple[str, ...], quotes: bool, why: bool, follow: bool | None, **given: Any) -> None:
    """Ask the archive, get an answer with citations.

    Without QUESTION it is read from standard input.

    Exits 0 whenever the archive answered, even if nothing was found: see the status. With --exit-status
    NOT_FOUND and CLARIFY exit 3.
    """
    from gaiad.cli.research_text import engine_line, result_text, short_text, summary_line

    request = request_from(question, given)
    telling = sys.stderr.isatty() and not invocation().as_json if follow is None else follow
    result = _research(request, follow=telling, announce=why)
    if not invocation().as_json:
        width, zone, options = terminal_width(), user_zone(), same_place()
        if why:
            text = result_text(result, request.query, width, confidence=True, quotes=quotes, zone=zone, options=options)
        else:
            text = short_text(result, request.query, width, quotes, zone, options)
        click.echo(text)
        click.echo(dim(engine_line(result, options) if why else summary_line(result)))
    _end_with_status(result, given["exit_status"])


@click.command(
    cls=Verb,
    name="gam-research",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    example="""
        gam-research "Find packets about enumeration protocol"
    """,
)
@click.argument("query", nargs=-1)
@question_options
@_exit_status
def gam_research(query: tuple[str, ...], **given: Any) -> None:
    """Research a query in the Transmission Packets.

    The same as `gaiad ask`, printed as the GAM document shows it.
    """
    from gaiad.cli.research_text import engine_line, result_text

    request = request_from(query, given)
    result = _research(request)
    if not invocation().as_json:
        width, zone, options = terminal_width(), user_zone(), same_place()
        click.echo(result_text(result, request.query, width, confidence=False, zone=zone, options=options))
        click.echo(engine_line(result, options), err=True)
    _end_with_status(result, given["exit_status"])


def request_from(words: tuple[str, ...], given: dict[str, Any]) -> "ResearchRequest":
    """The request of the words and options given; without words it is read from standard input."""
    from gaiad.wire.schemas import ResearchRequest

    return ResearchRequest(
        query=_question(words),
        tenant=given["tenant"],
        max_iterations=given["max_iterations"],
        max_pages=given["max_pages"],
        max_output_tokens=given["max_output_tokens"],
        filters=filters_from(given),
        now=moment(given["now"], user_zone()) if given["now"] else "",
    )


def _question(words: tuple[str, ...]) -> str:
    text = " ".join(words).strip()
    if not text and not words and not sys.stdin.isatty():
        text = sys.stdin.read().strip()
    if not text:
        raise click.UsageError("Missing QUESTION: give it as words, or on standard input")
    return text


def _research(request: "ResearchRequest", *, follow: bool = False, announce: bool = True) -> "ResearchResult":
    from gaiad.cli.research_text import SEARCHING

    as_json = invocation().as_json
    if announce and not as_json:
        click.echo(SEARCHING)
    with invocation().client() as client:
        if follow:
            from gaiad.cli.research_text import result_of, told

            result = result_of(told(client.research_events(request)), "the daemon stopped before there was an answer")
        else:
            result = client.research(request)
    if as_json:
        write_json(result)
    return result


def _end_with_status(result: "ResearchResult", exit_status: bool) -> None:
    if exit_status and result.status in ("NOT_FOUND", "CLARIFY"):
        end(NOT_FOUND)
