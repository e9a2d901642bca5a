"""`gaiad mcp`: the memory for agents, over stdio; and its entry in the settings of the programs that run agents."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from gaiad.cli.client_settings import change_entry, codex_home, own_command
from gaiad.cli.command import VerbGroup, invocation, tenant_option


@click.group(
    "mcp",
    cls=VerbGroup,
    invoke_without_command=True,
    example="""
        gaiad mcp install claude-code
        gaiad mcp                         what the installed entry runs
    """,
)
@click.option("--write", is_flag=True, help="Offer the tools that store as well: what an agent hands over.")
@tenant_option
@click.pass_context
def mcp(context: click.Context, write: bool, tenant: str) -> None:
    """Serve the memory to an agent over MCP on stdin and stdout.

    Offers the tools search, fetch, ask, briefing and recent, records as resources, and two prompts. The daemon must
    be running; it also serves MCP over HTTP at /mcp, with the token in <home>/token.
    """
    if context.invoked_subcommand is None:
        _serve(write, tenant)


def _serve(write: bool, tenant: str) -> None:
    import asyncio

    import msgspec
    from mcp.server.stdio import stdio_server

    from gaiad.intake.mcp_server import build_server
    from gaiad.wire.agents import AgentCall

    home = invocation()

    def ask(asked: AgentCall) -> Any:
        with home.client() as client:
            return client.post("/mcp/call", msgspec.structs.replace(asked, write=write, tenant=tenant))

    async def serve() -> None:
        server = build_server(lambda asked: asyncio.to_thread(ask, asked))
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    asyncio.run(serve())


class _Target(NamedTuple):
    """A program's settings file, and how the table is called in which servers are named."""

    path: Callable[[], Path]
    table: str


def _desktop() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/Claude/claude_desktop_config.json"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "Claude/claude_desktop_config.json"


_TARGETS = {
    "claude-desktop": _Target(_desktop, "mcpServers"),
    "claude-code": _Target(lambda: Path.home() / ".claude.json", "mcpServers"),
    "cursor": _Target(lambda: Path.home() / ".cursor/mcp.json", "mcpServers"),
    "codex": _Target(lambda: codex_home() / "config.toml", "mcp_servers"),
}


@mcp.command(
    example="""
        gaiad mcp install claude-desktop
        gaiad mcp install codex --yes
    """,
)
@click.argument("program", type=click.Choice(list(_TARGETS)))
@click.option("--write", is_flag=True, help="Let the program's agent store what it hands over.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@tenant_option
def install(program: str, write: bool, tenant: str, yes: bool) -> None:
    """Add gaiad to the MCP servers of a program.

    Shows the change and asks first. The file as it was is kept beside it, its name ending in ".before-gaiad". Restart
    the program afterwards.
    """
    target = _TARGETS[program]
    arguments = ["mcp", "--home", str(invocation().find_home().root)]
    arguments += ["--tenant", tenant] * (tenant != "local") + ["--write"] * write
    entry = {"command": own_command(), "args": arguments}
    change_entry(target.path(), (target.table, "gaiad"), lambda _: entry, program, yes=yes)
