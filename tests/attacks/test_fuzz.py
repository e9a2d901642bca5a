"""Parsers and routes given what nobody would write: no crash, no 500, no traceback."""

import http.client
import json
import random
from collections.abc import Callable
from datetime import UTC

import pytest

from gaiad.archive.reading.derive import derive
from gaiad.base.config import load_config
from gaiad.base.errors import GaiadError
from gaiad.intake.routes import table
from gaiad.turn.acting import ReplyGate
from router.redact import RedactionSettings, redact, redaction_rules
from tests.makers.attacked import Attacked, Row, tries

CONFIG = load_config(environment={})
RULES = redaction_rules(RedactionSettings(names=["Jane Doe"]))
SEEDS = (
    b"<transmission_packet><header><id>TP-1</id><timestamp>2025-11-27T09:30:00Z</timestamp></header><body><content>"
    b"Q: &amp; \xc3\xa4\nA: yes</content></body><integrity_chain><entry><hash>sha256:00</hash><of>content</of></entry>"
    b"</integrity_chain></transmission_packet>",
    b'{"packet_id": "TP-1", "content": "x \\ud83d\\ude00", "integrity": [{"hash": "a", "index": 1}], "tags": ["a", 1]}',
    b'{"gaiad_session_turn": 1, "session_id": "s", "turn_id": "t", "sequence": 0, "messages": [{"role": "user",'
    b' "content": "hello"}]}',
)
PIECES = (
    b"<",
    b">",
    b"]]>",
    b"<![CDATA[",
    b"<!DOCTYPE a [",
    b"&#0;",
    b"&#x110000;",
    b"\xff",
    b"\xed\xa0\x80",
    b"\0",
    b"{",
    b"[" * 70,
    b'"',
    b"\\u",
    b"\\ud800",
    b"1e999",
    b"-",
    b"9999-99-99T99:99:99Z",
    b"\xe2\x80\xae",
    b"xmlns:a=''",
)
SKIPPED = ("/stop", "/backup", "/restore", "/web/logout-all", "/models/pull")
VALUES = (None, True, -1, 2**63, 1e308, "", "x", "\0", "\u202e", "local", "../..", "x" * 5000, [], [[]], {}, {"a": 1})
NAMES = (
    "query",
    "message",
    "tenant",
    "packet_id",
    "id",
    "limit",
    "filters",
    "session_id",
    "documents",
    "paths",
    "mode",
    "name",
    "content",
    "turn_id",
    "tenantId",
    "sessionId",
    "turns",
    "request",
    "sha256",
    "wait",
    "model",
)


def _mutated(choice: random.Random) -> bytes:
    data = bytearray(choice.choice(SEEDS))
    for _ in range(choice.randint(1, 6)):
        place = choice.randrange(len(data) + 1)
        match choice.randrange(4):
            case 0:
                data[place:place] = choice.choice(PIECES)
            case 1:
                del data[place : place + choice.randint(1, 30)]
            case 2:
                data[place : place + 1] = choice.randbytes(1)
            case _:
                start = choice.randrange(len(data) + 1)
                data[place:place] = data[start : start + 40]
    return bytes(data)


def _read(data: bytes) -> None:
    derive(data, "a.xml", 0, CONFIG.packets, CONFIG.archive, UTC)


def _written(data: bytes) -> None:
    gate = ReplyGate("RESPONSE", {"TP-1"})
    text = data.decode("utf-8", "replace")
    gate.feed(text[:20])
    gate.feed(text[20:])
    gate.finish()


def _scrubbed(data: bytes) -> None:
    redact(data.decode("utf-8", "replace"), RULES)


@pytest.mark.parametrize("parser", [_read, _written, _scrubbed], ids=["packets", "replies", "redaction"])
def test_parsers_fed_with_mutations(row: Row, parser: Callable[[bytes], None]) -> None:
    choice = random.Random(1)
    for _ in range(tries(1500, 330_000)):
        data = _mutated(choice)
        try:
            parser(data)
        except GaiadError:
            pass
        except Exception as error:
            row.check(False, f"{error!r}: {data!r}")
            continue
        row.check(True, data)


def test_routes_fed_with_anything(attacked: Attacked, row: Row) -> None:
    choice = random.Random(2)
    paths = [route.path for route in table() if route.path not in SKIPPED]
    head = {"Authorization": f"Bearer {attacked.token}", "Host": f"127.0.0.1:{attacked.port}"}
    connection = http.client.HTTPConnection("127.0.0.1", attacked.port, timeout=60)
    for _ in range(tries(400, 40_000)):
        path = choice.choice(paths).replace("{", "").replace("}", "")
        method = choice.choice(("GET", "POST", "POST", "POST", "PUT"))
        body = {choice.choice(NAMES): choice.choice(VALUES) for _ in range(choice.randint(0, 4))}
        content = json.dumps(body) if choice.random() < 0.9 else choice.choice(("[", "\udfff", "nul", "[" * 9000))
        try:
            connection.request(method, path, content.encode("utf-8", "surrogatepass"), head)
            response = connection.getresponse()
            row.check(response.status not in (500, 502), f"{method} {path} {content[:200]}: {response.status}")
            if response.headers.get("Content-Type", "").startswith("text/event-stream"):
                connection.close()
            else:
                response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            row.check(attacked.client.get("/healthz")["ok"], f"{method} {path}: {error!r}")
    connection.close()
    row.check("unexpected_error" not in attacked.log.read_text(errors="replace"), "an unexpected error is in the log")
