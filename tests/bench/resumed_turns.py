"""Council turns that are killed and taken up again, as JSON: `python -m tests.bench.resumed_turns [TRIALS] [SEED]`.

Each trial is a turn at full depth with scripted models, a vote on a command, its approval, the command in its sandbox
and the turn that verifies it, in a real daemon that is killed at a random point of its writes and replies: once or
twice. It starts again, and the same is asked under the same key. Counted: trials that end otherwise than an undisturbed
one, model calls done again though they were done, calls that are missing, and commands that ran twice.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from gaiad.base.errors import DaemonUnreachable, GaiadError
from gaiad.base.ports import RequestContext
from gaiad.client.client import Client
from gaiad.models.plain.scripted import ScriptedModel
from gaiad.store.jobs import RunJournal
from gaiad.wire.chat import ChatRequest
from gaiad.wire.generation import Generated, GenerateRequest, TextDelta
from router.channels.command_run import Shell
from tests.bench.resumed_runs import Kill, steps, watched
from tests.makers.commanding import WISH, as_script
from tests.makers.scripted_home import WITHOUT_EMBEDDER, scripted_home

_REQUEST = ChatRequest(message=WISH, session_id="s", depth="full", persona="engineer", idempotency_key="once")
_DONE = ("verified", "unverified", "interrupted", "failed", "reverted")
_ONCE_MORE_S, _PATIENCE_S = 0.05, 120.0


class ArmedKill(Kill):
    """Counts points from the first step of a turn on."""

    armed = False

    def point(self) -> None:
        if self.armed:
            super().point()


def serve(home: Path, log: Path, at: int) -> None:
    """A daemon that kills itself at its nth point."""
    from gaiad.cli.main import program, run

    kill = ArmedKill(log, at)
    watched(kill)
    begin, generate, command = RunJournal.begin, ScriptedModel.generate, Shell.run

    async def begins(self: RunJournal, *given: Any, **more: Any) -> Any:
        kill.armed = True
        kill.point()
        return await begin(self, *given, **more)

    async def generates(
        self: ScriptedModel, request: GenerateRequest, call: RequestContext
    ) -> AsyncGenerator[TextDelta | Generated, None]:
        if call.journal is not None:
            kill.tell("model", sha256(msgspec.json.encode(request)).hexdigest()[:12])
        async for piece in generate(self, request, call):
            kill.point()
            yield piece

    async def runs(self: Shell, *given: Any) -> Any:
        kill.tell("ran", "command")
        kill.point()
        done = await command(self, *given)
        kill.point()
        return done

    for owner, name, what in ((RunJournal, "begin", begins), (ScriptedModel, "generate", generates),
                              (Shell, "run", runs)):  # fmt: skip
        setattr(owner, name, what)
    try:
        run(program, "gaiad", ["serve", "--home", str(home), "--set", "http.enabled=false"])
    finally:
        kill.tell("points", str(kill.points))


def life(home: Path, log: Path, at: int) -> dict[str, Any] | None:
    """What the turn and its command came to; None when the daemon was killed before."""
    command = [sys.executable, "-m", __spec__.name, "--serve", str(home), str(log), str(at)]
    own = {"GAIAD_HOME": str(home), "XDG_CONFIG_HOME": str(home.parent / f"{home.name}.config")}
    with home.with_suffix(".out").open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **own})
    client = Client(home)
    try:
        with suppress(GaiadError, OSError):
            _await_ready(process, client)
            found = _ask(process, client)
            process.terminate()
            process.wait(60)
            return found
    finally:
        client.close()
        if process.poll() is None:
            process.kill()
        process.wait()
    return None


def _await_ready(process: "subprocess.Popen[bytes]", client: Client) -> None:
    while True:
        try:
            if client.post("/council/status", {})["quorum"]:
                return
        except DaemonUnreachable:
            if process.poll() is not None:
                raise
        time.sleep(_ONCE_MORE_S)


def _ask(process: "subprocess.Popen[bytes]", client: Client) -> dict[str, Any]:
    *_, last = client.chat_events(_REQUEST)
    assert last.event == "done", last
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        approval, *more = client.post("/approvals/list", {"all": True})["approvals"]
        if more:
            return {"answer": "", "state": "the command was asked for twice"}
        if approval["state"] == "waiting":
            client.post("/approvals/approve", {"id": approval["id"], "sha256": approval["sha256"], "wait": False})
        elif approval["state"] in _DONE and not client.get("/turns/running")["turns"]:
            ended = approval["execution"] and approval["execution"]["exit_status"]
            return {"answer": last.data["answer"], "status": last.data["status"], "state": approval["state"],
                    "exit": ended}  # fmt: skip
        assert time.monotonic() < deadline, approval
        time.sleep(_ONCE_MORE_S)


def measure(trials: int, seed: int) -> dict[str, Any]:
    draw, found = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="gaiad-turns-") as scratch:
        root = Path(scratch)
        (root / "made").mkdir()
        filled = scripted_home(
            root / "made", as_script(("touch", "a.txt")), WITHOUT_EMBEDDER + "[models]\nheartbeat_s = 1.0\n"
        )
        shutil.copytree(filled, root / "whole")
        whole = life(root / "whole", root / "whole.log", 0)
        assert whole is not None, (root / "whole.out").read_text()[-3000:]
        wanted, _, asked = steps(root / "whole.log")
        points = int((root / "whole.log").read_text().rpartition("points ")[2])
        print(json.dumps({"undisturbed": whole, "points": points, "steps": dict(wanted)}), file=sys.stderr, flush=True)
        for number in range(trials):
            home, log = root / f"h{number}", root / f"{number}.log"
            shutil.copytree(filled, home)
            end: dict[str, Any] | None = None
            for _ in range(draw.randint(1, 2)):
                if end is None:
                    end = life(home, log, draw.randint(1, points))
                    found["kills"] += end is None
            end = end or life(home, log, 0)
            kept, again, calls = steps(log)
            ran = log.read_text().count("ran command")
            undone = end is not None and end["state"] == "interrupted"
            found["interrupted_and_undone"] += undone
            if end is None or (end != whole and not undone) or {**whole, **(end or {})}["answer"] != whole["answer"]:
                found["other_result"] += 1
                print(json.dumps({"trial": number, "end": end}), file=sys.stderr, flush=True)
            found["done_again"] += sum(again.values())
            found["commands_twice"] += ran > 1
            found["missing"] += 0 if undone else len(set(wanted) - set(kept))
            found["calls_in_flight"] += max(0, calls - asked)
            shutil.rmtree(home)
    none = dict.fromkeys(("other_result", "done_again", "missing", "commands_twice"), 0)
    return {"trials": trials, "steps": len(wanted), "model_calls": asked, "points": points, **none, **found}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    else:
        trials, seed = (int(sys.argv[1]) if len(sys.argv) > 1 else 200), (int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        print(json.dumps(measure(trials, seed)))
