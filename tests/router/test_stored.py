"""What is stored, on its way to a scrubbed reader: words go, what things are known by stays."""

import json
from typing import Any

import pytest

from router.redact import STAGES, RedactionSettings, redaction_rules
from router.stored import Scrubber, stored_as_shown

MAIL = "jane.doe@example.org"
RULES = redaction_rules(RedactionSettings(names=["Jane"]))


def shown(value: object) -> Any:
    return stored_as_shown(Scrubber(RULES, STAGES), value)[0]


def test_ids_hashes_times_and_numbers_of_a_record_stay_in_either_spelling() -> None:
    record = {
        "packet_id": MAIL, "sessionId": MAIL, "researchID": MAIL, "relatedFactIDs": [MAIL], "startedAt": MAIL,
        "sha256": "4111111111111111", "source_packets": [MAIL], "score": 4111111111111111, "cut": None, "on": True,
    }  # fmt: skip
    assert shown(record) == record


def test_words_are_scrubbed_and_the_record_they_stand_in_says_so() -> None:
    record = {"hits": [{"page_id": "p1", "excerpt": f"Ask {MAIL}."}, {"page_id": "p2", "excerpt": "Ask the miller."}]}
    assert shown(record) == {
        "hits": [{"page_id": "p1", "excerpt": "Ask [e-mail].", "redacted": True}, record["hits"][1]]
    }


@pytest.mark.parametrize("key", ["fields", "metadata", "session_metadata", "parameters"])
def test_what_a_packet_brings_along_is_scrubbed_whatever_it_calls_it(key: str) -> None:
    found = shown(
        {key: {"to": MAIL, "owner_id": [MAIL], MAIL: 1, "jane.d@example.org": {"at": MAIL}, "packet_id": "Jane"}}
    )
    assert MAIL not in json.dumps(found)
    assert found[key] == {
        "to": "[e-mail]", "owner_id": ["[e-mail]"], "[e-mail]": 1,
        "[e-mail] (2)": {"at": "[e-mail]"}, "packet_id": "Jane",
    }  # fmt: skip


def test_all_of_a_packet_as_it_was_sent_is_words() -> None:
    sent = {"manifest": {"id": MAIL}, "packet": {"role": MAIL}, "session_id": "Jane", "made_at": "2026-01-01"}
    assert shown(sent) == {
        "manifest": {"id": "[e-mail]"}, "packet": {"role": "[e-mail]"}, "session_id": "Jane", "made_at": "2026-01-01",
    }  # fmt: skip


def test_a_waiting_command_is_exact_only_beside_its_hash() -> None:
    assert shown({"command": ["mail", MAIL], "sha256": "ab", "why": MAIL}) == {
        "command": ["mail", MAIL], "sha256": "ab", "why": "[e-mail]", "redacted": True,
    }  # fmt: skip
    assert shown({"command": ["mail", MAIL]})["command"] == ["mail", "[e-mail]"]


def test_a_message_that_holds_json_is_scrubbed_behind_its_escapes_and_stays_json() -> None:
    content = json.dumps({"vote": "yes", "reason": "RequestContext me:\n+49 30 901820, or\n" + MAIL})
    found = shown({"full_id": "m1", "content": content})
    assert json.loads(found["content"]) == {"vote": "yes", "reason": "RequestContext me:\n[phone number], or\n[e-mail]"}
    assert found["redacted"]
    untouched = {"full_id": "m2", "content": '{"vote":  "yes"}'}
    assert shown(untouched) == untouched


def test_what_was_taken_is_counted_by_kind_and_of_this_value_alone() -> None:
    scrubber = Scrubber(RULES, STAGES)
    scrubber.text(MAIL)
    taken = stored_as_shown(scrubber, {"text": f"{MAIL} and Jane"})[1]
    assert [(one.kind, one.count) for one in taken] == [("email", 1), ("name", 1)]
