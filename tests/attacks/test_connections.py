"""Connections that wait, dribble or read nothing: the owner's socket answers meanwhile."""

import contextlib
import json
import socket
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.makers.attacked import Attacked, Row, as_another_user, only_in_campaign, tries

_HALF_OPEN = """
import resource, socket, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
port, many, sent = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
held = []
for _ in range(min(many, hard - 100)):
    one = socket.socket()
    one.settimeout(10)
    try:
        one.connect(("127.0.0.1", port))
        one.sendall(sent)
        held.append(one)
    except OSError:
        pass
print(len(held), flush=True)
sys.stdin.read()
"""


def _flood(attacked: Attacked, row: Row, sent: str, many: int) -> None:
    """Another user's half requests, and what the owner and the log say meanwhile."""
    before = attacked.log.stat().st_size
    with as_another_user(_HALF_OPEN, str(attacked.port), str(many), sent) as flood:
        assert flood.stdout is not None
        opened = int(flood.stdout.readline())
        row.check(attacked.client.get("/healthz")["ok"], "the unix socket")
        with socket.create_connection(("127.0.0.1", attacked.port), timeout=20) as late:
            late.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % attacked.port)
            row.check(late.recv(100).startswith(b"HTTP/1.1 200"), "a request on the flooded listener")
        row.tried += opened
        flood.communicate("")
    row.check(attacked.log.stat().st_size - before < 100_000, "the log grew")


def test_half_open_connections_of_another_user(attacked: Attacked, row: Row) -> None:
    _flood(attacked, row, "G", tries(1100, 20_000))


def test_requests_whose_answer_is_never_read(attacked: Attacked, row: Row) -> None:
    request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{attacked.port}\r\n\r\n"
    _flood(attacked, row, request * 200, tries(600, 5_000))


def test_malformed_requests_are_short_in_the_log_and_tell_no_token(attacked: Attacked, row: Row) -> None:
    before = attacked.log.stat().st_size
    lines = (
        "GET / HTTP/1.1\r\nAuthorization: Bearer SECRETSECRETSECRET\0\r\n\r\n",
        "GET /login?once=SECRETSECRETSECRET\x01 HTTP/9.9\r\n\r\n",
        "SECRETSECRETSECRET\r\n\r\n",
        "GET / HTTP/1.1\r\nSECRETSECRETSECRET\r\n\r\n",
        "GET / HTTP/1.1\r\nCookie : SECRETSECRETSECRET\r\n\r\n",
        "POST /chat HTTP/1.1\r\nContent-Length: SECRETSECRETSECRET\r\n\r\n",
    )
    for line in lines * tries(20, 500):
        with socket.create_connection(("127.0.0.1", attacked.port), timeout=20) as one:
            one.sendall(line.encode())
            row.check(one.recv(12).startswith(b"HTTP/1."), line)
    new = attacked.log.read_bytes()[before:].decode()
    row.check("SECRET" not in new, "a secret is in the log")
    row.check(len(new) < 100_000, f"the log grew by {len(new)} bytes")


def test_streams_that_read_nothing(attacked: Attacked, row: Row) -> None:
    """As many as the listener holds, with the owner's own token; the unix socket has its own share."""
    head = f"Host: 127.0.0.1:{attacked.port}\r\nAuthorization: Bearer {attacked.token}\r\nAccept: text/event-stream"
    streams = [socket.create_connection(("127.0.0.1", attacked.port), timeout=20) for _ in range(tries(300, 400))]
    for stream in streams:
        stream.sendall(f"GET /events HTTP/1.1\r\n{head}\r\n\r\n".encode())
        row.check(True, stream)
    outcome = attacked.ingest("a.json", json.dumps({"packet_id": "TP-1", "content": "The lamp is lit at six."}))
    row.check(outcome["outcome"] in ("accepted", "duplicate"), outcome)
    row.check(attacked.client.get("/healthz")["ok"], "the unix socket")
    for stream in streams:
        stream.close()


def test_packed_bodies_of_another_user(attacked: Attacked, row: Row) -> None:
    """With a credential or without one, nothing is unpacked: 1 GiB of blanks is 1 MB packed."""
    bomb = zlib.compressobj(9)
    packed = b"".join(bomb.compress(bytes(1 << 20)) for _ in range(tries(100, 1024))) + bomb.flush()
    before = _most_memory_kib(attacked)
    for credential in ("", f"Authorization: Bearer {attacked.token}\r\n"):
        head = f"POST /search HTTP/1.1\r\nHost: 127.0.0.1:{attacked.port}\r\n{credential}Content-Encoding: deflate\r\n"
        with socket.create_connection(("127.0.0.1", attacked.port), timeout=60) as one:
            one.sendall(f"{head}Content-Length: {len(packed)}\r\n\r\n".encode())
            with contextlib.suppress(OSError):  # the answer comes before the body
                one.sendall(packed)
            row.check(one.recv(12)[9:12] in (b"400", b"401"), credential)
    row.check(_most_memory_kib(attacked) - before < 50_000, f"{_most_memory_kib(attacked) - before} KiB")


@only_in_campaign
def test_bodies_that_never_come(attacked: Attacked, row: Row) -> None:
    """Also where a request may take as long as it takes: the owner's token holds no connection for good."""

    port = attacked.port
    head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {attacked.token}\r\nContent-Length: 100000\r\n"

    def lived_s(path: str) -> float:
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=300) as one:
            one.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode())
            while one.recv(1000):
                pass
        return time.monotonic() - begun

    paths = ("/chat", "/packets/verify", "/generate", "/council/log", "/import?name=a.json", "/turns/start")
    with ThreadPoolExecutor(len(paths)) as threads:
        for path, took in zip(paths, threads.map(lived_s, paths), strict=True):
            row.check(took < 150, f"{path}: {took:.0f} s")


def _most_memory_kib(attacked: Attacked) -> int:
    status = Path(f"/proc/{attacked.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
