"""A wall clock that jumps while the daemon runs and between its lives: an hour back, a year ahead, and home again."""

import json
from pathlib import Path

import pytest

from gaiad.base.errors import GaiadError
from gaiad.ledger.audit import verify_home
from tests.makers.attacked import Attacked, Row, only_in_campaign
from tests.makers.commanding import WISH, as_script
from tests.makers.page import ask
from tests.makers.scripted_home import scripted_settings

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0


class _Life:
    """A daemon with a council that wants to touch a file, a page that is logged in, and what was promised."""

    def __init__(self, daemon: Attacked, row: Row) -> None:
        self.daemon, self.row = daemon, row
        self.turns: list[str] = []

    def chat(self, when: str) -> None:
        self.turns.append(self.daemon.post("/chat", message=f"It is {when}.", session_id="s", depth="fast")["turn_id"])
        shown = [turn.turn_id for turn in self.daemon.client.session_turns("s", "local", 100)]
        self.row.check(shown == self.turns, f"{when}: {shown} and not {self.turns}")
        newest = [turn.turn_id for turn in self.daemon.client.council.turns("local", 100)]
        self.row.check(set(self.turns) <= set(newest), f"{when}: a turn is missing")

    def wish(self, session: str) -> dict[str, str]:
        made = self.daemon.post("/chat", message=WISH, session_id=session, depth="full", persona="engineer")
        assert made["status"] == "AWAITING_APPROVAL", json.dumps(made)[:3000]
        (waiting,) = self.daemon.post("/approvals/list")["approvals"]
        return {"id": waiting["id"], "sha256": waiting["sha256"]}

    def approve(self, asked: dict[str, str]) -> str:
        try:
            return str(self.daemon.post("/approvals/approve", **asked)["state"])
        except GaiadError as error:
            return error.message

    def log_in(self) -> dict[str, str]:
        cookie = ask(self.daemon.post("/web/link")["url"]).headers["Set-Cookie"].partition(";")[0]
        return {"Cookie": cookie}

    def logged_in(self, cookie: dict[str, str]) -> bool:
        return ask(f"{self.daemon.url}/status", **cookie).status == 200


@only_in_campaign
def test_jumps_of_the_clock(row: Row, tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text(as_script(["touch", "it"]))
    daemon = Attacked(tmp_path, config=scripted_settings(script))
    daemon.set_clock(0)
    with daemon:
        life = _Life(daemon, row)
        for name in ("a", "b"):
            daemon.ingest(
                f"{name}.json", json.dumps({"packet_id": f"TP-{name}", "content": f"The {name} lamp is lit."})
            )
        life.chat("noon")
        cookie, old, younger = life.log_in(), life.wish("one"), None
        forgotten = daemon.post("/forget", packet_ids=["TP-a"])["forget_id"]

        daemon.set_clock(-HOUR)
        life.chat("an hour earlier")
        row.check(life.logged_in(cookie), "the login of an hour ahead")
        row.check(life.approve(old) == "unverified", "a command of an hour ahead")
        younger = life.wish("two")
        row.check(daemon.post("/forget/undo", forget_id=forgotten)["packets"] == 1, "undo an hour earlier")
        forgotten = daemon.post("/forget", packet_ids=["TP-b"])["forget_id"]

        daemon.set_clock(YEAR)
        life.chat("a year later")
        row.check(not life.logged_in(cookie), "the login of last year")
        row.check("expired" in life.approve(younger), "the command of last year")
        row.check(daemon.post("/approvals/list")["approvals"] == [], "a command waits for a year")
        job = daemon.post("/sweep")
        while job["state"] in ("queued", "running"):
            job = daemon.client.get(f"/jobs/{job['job_id']}")
        row.check(job["state"] == "done", job)
        with pytest.raises(GaiadError):
            daemon.post("/forget/undo", forget_id=forgotten)
        row.check(True, "undo after a year")

        daemon.set_clock(0)
        life.chat("noon again")
        row.check("expired" in life.approve(younger), "what had expired came back")
        row.check(all(model["state"] == "ready" for model in daemon.client.get("/status")["models"]), "a model")
        daemon.stop()
        daemon.set_clock(-DAY)
        daemon.start()
        life.chat("yesterday, in another life")
        row.check(daemon.post("/search", query="lamp")["hits"] != [], "the search")
        daemon.kill()
        daemon.set_clock(0)
        daemon.start()
        life.chat("today")
    row.check(verify_home(daemon.home).ok, verify_home(daemon.home).problem)
    row.check("unexpected_error" not in daemon.log.read_text(errors="replace"), daemon.log.read_text()[-2000:])
