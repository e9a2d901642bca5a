"""What `gaiad rfc` sends and prints, against a small server that answers as the daemon would."""

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from council.governance.reviewing import rfc_bytes
from gaiad.base.ids import short
from gaiad.cli.main import program, run
from gaiad.identity.keys import KeyFolder, Signature, ensure_keys, is_signed, read_public
from gaiad.identity.signing import HomeSeal
from gaiad.wire.council import BallotRecord, VoteRecord
from gaiad.wire.governance import RfcEntry, RfcRecord, RfcReview, RfcSignature
from prompts.identity import identity_bytes, shipped_identity

RECORD = RfcRecord(
    rfc_id="rfc_01",
    kind="process",
    title="Two \x1b[2Jreaders",
    text="Every EXECUTE is read by two roles.",
    state="reviewed",
    created_at="2025-12-01T09:30:00Z",
    updated_at="2025-12-01T09:31:00Z",
    reviews=[RfcReview(role="prime", verdict="approve", confidence=0.9, reasons=["clear", "safe"], at="")],
    history=[RfcEntry(at="", step="review", by="prime", result="approve", why="clear; safe")],
    next_steps=["vote"],
)
DIGITS = short("rfc_01")


class Shell:
    def __init__(self, api: Any, capsys: pytest.CaptureFixture[str]) -> None:
        self.api = api
        self.capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(program, "gaiad", ["rfc", *arguments, "--home", str(self.api.home)])
        captured = self.capsys.readouterr()
        return code, captured.out, captured.err

    def answers(self, step: str, record: RfcRecord = RECORD, **changes: Any) -> None:
        found = msgspec.structs.replace(record, **changes)
        self.api.routes[f"POST /rfc/{step}"] = msgspec.to_builtins(found)


@pytest.fixture
def shell(api: Any, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(api, capsys)


def vote(passed: bool) -> VoteRecord:
    ballots = [
        BallotRecord(role="prime", vote="yes", confidence=0.9, reason="it helps"),
        BallotRecord(role="lite", vote="no", confidence=0.5, reason="too slow", uncounted="late"),
    ]
    return VoteRecord(
        proposal_id="msg_1", matter="governance", subject="", passed=passed, may_proceed=passed, reduced_quorum=False,
        reason="passed by majority (1 yes, 0 no, 0 abstained)", ballots=ballots,
    )  # fmt: skip


def test_propose_sends_text_title_kind_and_the_identitys_file(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.answers("propose", state="proposed", reviews=[], next_steps=["review"])
    file = tmp_path / "new.toml"
    file.write_text('version = "2.0.0"')
    monkeypatch.setattr("sys.stdin", io.StringIO("why it is\n"))
    code, out, _ = shell("propose", "--kind", "identity", "--title", "T", "--identity", str(file))
    assert code == 0
    body = shell.api.body("POST /rfc/propose")
    assert body == {"title": "T", "text": "why it is", "kind": "identity", "identity_toml": 'version = "2.0.0"'}
    assert out.startswith(f"{DIGITS} is proposed")
    assert f"next: gaiad rfc review {DIGITS}" in out


def test_propose_without_text_or_with_a_missing_file_says_so(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    code, _, err = shell("propose", "--kind", "process", "--title", "T")
    assert (code, "Missing TEXT" in err) == (2, True)
    lost = str(tmp_path / "lost.toml")
    code, _, err = shell("propose", "--kind", "identity", "--title", "T", "--identity", lost, "text")
    assert (code, f"{lost}: cannot be read" in err) == (3, True)
    assert shell.api.requests == []


@pytest.mark.parametrize(("state", "code"), [("proposed", 1), ("reviewed", 0)])
def test_review_exits_1_while_a_review_is_missing(shell: Shell, state: str, code: int) -> None:
    shell.answers("review", state=state)
    found, out, _ = shell("review", DIGITS)
    assert found == code
    assert "prime: approve (0.9) clear; safe" in out
    assert shell.api.body("POST /rfc/review") == {"rfc": DIGITS}


@pytest.mark.parametrize(("state", "code"), [("passed", 0), ("failed", 1), ("reviewed", 1)])
def test_vote_exits_1_unless_it_passed(shell: Shell, state: str, code: int) -> None:
    entry = RfcEntry(at="", step="vote", by="council", result=state, why="passed by majority")
    shell.answers("vote", state=state, history=[entry], next_steps=[])
    found, out, _ = shell("vote", DIGITS)
    assert (found, out) == (code, f"{DIGITS} is {state}: passed by majority\n")


def test_show_tells_the_rfc_its_reviews_and_its_vote_without_control_characters(shell: Shell) -> None:
    shell.answers("show", votes=[vote(passed=True)], state="passed", next_steps=["merge"])
    code, out, _ = shell("show", DIGITS)
    assert code == 0
    assert "\x1b" not in out
    for words in (
        f"{DIGITS}  Two [2Jreaders",
        "process, passed; proposed 2025-12-01 09:30 (rfc_01)",
        "prime reviewed it: approve, confidence 0.9",
        "the vote: passed by majority (1 yes, 0 no, 0 abstained)",
        "lite: no (0.5) too slow [late]",
        f"next: gaiad rfc merge {DIGITS}",
    ):
        assert words in out


def test_show_names_a_reviewer_that_failed(shell: Shell) -> None:
    entry = RfcEntry(at="", step="review", by="lite", result="failed", why="lite is inactive")
    shell.answers("show", history=[entry], state="proposed")
    assert "lite did not review it: lite is inactive" in shell("show", DIGITS)[1]


def test_list_has_a_line_for_each_and_json_is_the_answer(shell: Shell) -> None:
    shell.api.routes["POST /rfc/list"] = {"rfcs": [msgspec.to_builtins(RECORD)]}
    code, out, _ = shell("list", "--state", "reviewed", "--limit", "5")
    assert code == 0
    assert shell.api.body("POST /rfc/list") == {"state": "reviewed", "limit": 5}
    assert out.splitlines()[1].split() == [DIGITS, "2025-12-01", "process", "reviewed", "Two", "[2Jreaders"]
    assert json.loads(shell("list", "--json")[1])["rfcs"][0]["rfc_id"] == "rfc_01"
    shell.api.routes["POST /rfc/list"] = {"rfcs": []}
    assert shell("list")[1] == "no RFCs yet\n"


def test_merging_a_process_needs_no_key(shell: Shell) -> None:
    shell.answers("show", state="passed")
    shell.answers("merge", state="merged", ground="the council passed it", next_steps=[])
    assert shell("merge", DIGITS)[0] == 0
    assert shell.api.body("POST /rfc/merge") == {"rfc": "rfc_01"}


def test_merging_an_identity_signs_it_with_the_key_that_is_given(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = KeyFolder(tmp_path / "config" / "gaiad")
    ensure_keys(folder)
    stick = tmp_path / "stick.key"
    folder.private.rename(stick)
    text = identity_bytes(shipped_identity()).decode()
    shell.answers("show", kind="identity", identity_toml=text)
    shell.answers("merge", kind="identity", state="merged", ground="g", next_steps=[])
    code, _, err = shell("merge", DIGITS)
    assert (code, str(folder.private) in err) == (3, True)
    assert not any(route == "POST /rfc/merge" for route, _ in shell.api.requests)
    assert shell("merge", DIGITS, "--key", str(stick))[0] == 0
    made = Signature(**shell.api.body("POST /rfc/merge")["signature"])
    public = read_public(folder.public)
    assert public is not None
    assert is_signed(text.encode(), (made,), public) == made


def test_merging_an_emergency_signs_the_rfc_as_it_was_shown(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = KeyFolder(tmp_path / "config" / "gaiad")
    ensure_keys(folder)
    record = msgspec.structs.replace(RECORD, kind="security")
    shell.answers("show", record)
    shell.answers("merge", record, state="merged", ground="g", next_steps=[])
    assert shell("merge", DIGITS)[0] == 0
    signature = msgspec.convert(shell.api.body("POST /rfc/merge")["signature"], RfcSignature)
    seal = HomeSeal(tmp_path, folder, None)  # type: ignore[arg-type]  # an RFC without an identity asks no audit
    assert seal.admit(record, signature).startswith("adopted")
    with pytest.raises(Exception, match="not the creator's"):
        seal.admit(msgspec.structs.replace(record, text="something else"), signature)
    assert rfc_bytes(record) != rfc_bytes(msgspec.structs.replace(record, title="T"))


def test_what_the_daemon_refuses_is_one_line_and_its_exit_code(shell: Shell) -> None:
    shell.api.routes["POST /rfc/vote"] = (409, {"code": "conflict", "message": "rfc_01 is proposed"})
    assert shell("vote", DIGITS) == (1, "", "gaiad: rfc_01 is proposed\n")
