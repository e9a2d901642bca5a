"""An RFC from the command line through the real routes on real sockets; only what models say is scripted."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.metrics import Metrics
from gaiad.cli.main import program, run
from gaiad.identity.trust import open_identity
from gaiad.intake.application import build_app, start_listener
from gaiad.intake.auth import PeerCheck, TokenCheck, TokenFile
from gaiad.intake.doors import Door, TcpDoor, UnixDoor
from gaiad.intake.routes import table
from gaiad.intake.sockets import listen_tcp, listen_unix, url_of
from gaiad.ledger.audit import verify_home
from tests.makers.governed import NO, House

Shell = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
async def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    made = House(tmp_path)
    made.everybody()
    monkeypatch.setenv("XDG_CONFIG_HOME", made.environment["XDG_CONFIG_HOME"])
    yield made
    made.audit.close()


@pytest.fixture
async def url(house: House) -> AsyncIterator[str]:
    """Governance on the home's socket, and the URL of its TCP side."""
    config = load_config((), {}, ())
    tokens = TokenFile(house.home / "token")
    tokens.load()
    (house.home / "token").write_text((house.home / "token").read_text() + "a-token-for-work work\n")
    tokens.load()
    async with AsyncExitStack() as stack:
        service = SimpleNamespace(
            config=config, clock=SystemClock(), hub=house.hub, metrics=Metrics(), governance=await house.open(stack)
        )
        unix, tcp = listen_unix(house.home / "gaiad.sock"), listen_tcp("127.0.0.1", 0)
        doors: list[tuple[Door, socket.socket]] = [
            (UnixDoor(PeerCheck(lambda: config.access.uids)), unix.socket),
            (TcpDoor(TokenCheck(tokens, tcp.getsockname()[1], [])), tcp),
        ]
        for door, listener in doors:
            runner = await start_listener(build_app(service, door, table()), listener, 0.5)  # type: ignore[arg-type]
            stack.push_async_callback(runner.cleanup)
        yield url_of(tcp)


@pytest.fixture
def shell(house: House, url: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    async def call(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(run, program, "gaiad", [*arguments, "--home", str(house.home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def last_line(out: str) -> Any:
    """The JSON a verb printed; the routes in this process write their own log before it."""
    return json.loads(out.splitlines()[-1])


async def proposed(shell: Shell, *arguments: str) -> str:
    code, out, err = await shell("rfc", "propose", "--json", "--title", "RestartPolicy", *arguments)
    assert (code, err) == (0, "")
    return str(last_line(out)["rfc_id"])


async def test_a_process_is_proposed_reviewed_voted_on_and_merged(house: House, shell: Shell) -> None:
    name = await proposed(shell, "--kind", "process", "Two roles read every command.")
    for step, state in (("review", "reviewed"), ("vote", "passed"), ("merge", "merged")):
        code, out, err = await shell("rfc", step, name, "--json")
        assert (code, last_line(out)["state"], err) == (0, state, "")
    shown = (await shell("rfc", "show", name))[1]
    assert "prime reviewed it: approve, confidence 0.9" in shown
    assert "merged 2025-12-01 00:00: the council passed it; adopted" in shown
    assert "RestartPolicy" in (await shell("rfc", "list", "--state", "merged"))[1]
    assert verify_home(house.home).ok


async def test_an_identity_is_merged_with_a_key_from_elsewhere_and_is_in_force_at_the_next_start(
    house: House, shell: Shell, tmp_path: Path
) -> None:
    file, stick = tmp_path / "new.toml", tmp_path / "stick.key"
    file.write_text(house.identity())
    house.folder.private.rename(stick)
    name = await proposed(shell, "--kind", "identity", "--identity", str(file), "RestartPolicy first.")
    code, _, err = await shell("rfc", "merge", name)
    assert (code, "identity.key" in err) == (3, True)
    code, out, _ = await shell("rfc", "merge", name, "--key", str(stick))
    assert (code, "takes force at the next start" in out) == (0, True)
    assert open_identity(house.home, house.folder, house.audit).version == "1.1.0"
    card = last_line((await shell("identity", "show", "--json"))[1])
    assert (card["ok"], card["identity"]["version"]) == (True, "1.1.0")


async def test_what_is_voted_down_exits_1_and_stays_so(house: House, shell: Shell) -> None:
    house.everybody(ballot=NO)
    name = await proposed(shell, "--kind", "constant", "An MTU of 8192.")
    assert (await shell("rfc", "review", name))[0] == 0
    code, out, _ = await shell("rfc", "vote", name)
    assert (code, "is failed: failed by majority (0 yes, 3 no, 0 abstained)" in out) == (1, True)
    code, _, err = await shell("rfc", "merge", name)
    assert (code, "propose a new one" in err) == (1, True)


async def test_governance_is_the_owners(url: str) -> None:
    headers = {"Authorization": "Bearer a-token-for-work"}
    async with aiohttp.ClientSession(url, headers=headers) as session:
        for path in ("/rfc/propose", "/rfc/review", "/rfc/vote", "/rfc/merge", "/rfc/show", "/rfc/list"):
            async with session.post(path, json={"rfc": "x"}) as response:
                assert response.status == 403, path
        async with session.get("/stability") as response:
            assert response.status == 403


async def test_the_score_is_told_over_http(house: House, url: str) -> None:
    token = (house.home / "token").read_text().split()[0]
    async with (
        aiohttp.ClientSession(url, headers={"Authorization": f"Bearer {token}"}) as session,
        session.get("/stability") as response,
    ):
        found = await response.json()
    assert (response.status, found["sample"], found["self_aware"], len(found["hours"])) == (200, 0, False, 24)
    assert (house.home / "state.db").stat().st_mode & 0o777 == 0o600
