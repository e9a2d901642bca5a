import os
import signal
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from types import SimpleNamespace

import msgspec
import pytest

from gaiad.base.errors import BadInput, Conflict, DeadlineExceeded, Forbidden, NotFound, Unauthorized, Unavailable
from gaiad.models.gguf.gguf_header import stamp_path
from gaiad.models.gguf.gguf_info import read_info
from gaiad.models.pulling import download
from gaiad.models.pulling.download import Part, PullFailed, Remote, Tries
from gaiad.models.pulling.pull import Wish, pull
from tests.makers.file_server import Fault, Served, serving

QUICK = Tries(connect_s=2.0, silence_s=2.0, count=3, first_wait_s=0.01, longest_wait_s=0.05)
PATH = "/models/tiny.gguf"
CUT = 50_000


class Heard:
    def __init__(self):
        self.lines, self.shown = [], []

    def say(self, line):
        self.lines.append(line)

    def show(self, label, done, total):
        self.shown.append((label, done, total))


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as one:
        yield one


@pytest.fixture
def data(tiny_llama):
    return tiny_llama.read_bytes()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "models"


@pytest.fixture
def fetch(folder, heard):
    def one(source, tries=QUICK, **wish):
        return pull(Wish(source=str(source), **wish), {"GAIAD_MODELS": str(folder)}, heard, tries)

    return one


def hash_of(data):
    return sha256(data).hexdigest()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def test_a_download_is_whole_hashed_checked_and_leaves_nothing_behind(server, data, folder, fetch, heard):
    pulled = fetch(server.put(PATH, data, '"1"') + "?signature=secret")
    target = folder / "tiny.gguf"
    assert target.read_bytes() == data
    assert (pulled.path, pulled.sha256, pulled.bytes, pulled.name) == (str(target), hash_of(data), len(data), "tiny")
    assert [file.how for file in pulled.files] == ["downloaded"]
    assert names(folder) == ["tiny.gguf", "tiny.gguf.source.json", "tiny.gguf.stamp.json"]
    assert "secret" not in pulled.source + (folder / "tiny.gguf.source.json").read_text()
    assert heard.shown[-1] == ("tiny.gguf", len(data), len(data))
    assert heard.lines == []


def test_a_cut_download_goes_on_by_itself_with_the_missing_bytes_only(server, data, fetch):
    url = server.put(PATH, data, '"1"')
    server.faults = [Fault(cut=CUT)]
    assert fetch(url).sha256 == hash_of(data)
    first, second = server.gets(PATH)
    assert "range" not in first.headers
    assert (second.headers["range"], second.headers["if-range"]) == (f"bytes={CUT}-", '"1"')
    assert second.sent == len(data) - CUT


def test_a_given_up_download_is_kept_and_the_next_pull_goes_on_from_it(server, data, folder, fetch, heard):
    url = server.put(PATH, data, '"1"')
    server.faults = [Fault(cut=CUT), Fault(status=503), Fault(status=503), Fault(status=503)]
    with pytest.raises(Unavailable, match=r"tiny\.gguf: server error \(503\)"):
        fetch(url)
    assert f"{CUT:,} bytes are kept in {folder}/tiny.gguf.part" in heard.lines[-1]
    assert not (folder / "tiny.gguf").exists()
    server.seen.clear()
    server.faults.clear()
    pulled = fetch(url)
    assert (folder / "tiny.gguf").read_bytes() == data
    assert [file.how for file in pulled.files] == ["resumed"]
    assert [seen.sent for seen in server.gets(PATH)] == [len(data) - CUT]


def keep_a_part(server, fetch, url, **wish):
    server.faults = [Fault(cut=CUT), *[Fault(status=500)] * 3]
    with pytest.raises(Unavailable):
        fetch(url, **wish)
    server.faults.clear()
    server.seen.clear()


def test_another_version_on_the_server_starts_again(server, data, folder, fetch, heard):
    url = server.put(PATH, flipped(data, 1000), '"old"')
    keep_a_part(server, fetch, url)
    server.put(PATH, data, '"new"')
    assert fetch(url).sha256 == hash_of(data)
    assert (folder / "tiny.gguf").read_bytes() == data
    assert [seen.status for seen in server.gets(PATH)] == [200]
    assert "starting again" in heard.lines[-1]


def test_a_server_that_ignores_the_condition_and_sends_another_version_is_noticed(server, data, folder, fetch):
    url = server.put(PATH, flipped(data, 1000), '"old"')
    keep_a_part(server, fetch, url)
    server.put(PATH, data, '"new"')
    server.faults = [Fault(status=206, headers={"Content-Range": f"bytes {CUT}-{len(data) - 1}/{len(data)}"})]
    assert fetch(url).sha256 == hash_of(data)
    assert [seen.headers.get("range") for seen in server.gets(PATH)] == [f"bytes={CUT}-", None]


def test_without_a_version_nothing_is_continued_and_with_a_hash_it_is(server, data, fetch):
    url = server.put(PATH, data)
    keep_a_part(server, fetch, url)
    assert fetch(url).sha256 == hash_of(data)
    assert [seen.headers.get("range") for seen in server.gets(PATH)] == [None]
    keep_a_part(server, fetch, url, sha256=hash_of(data), name="second")
    fetch(url, sha256=hash_of(data), name="second")
    assert [seen.sent for seen in server.gets(PATH)] == [len(data) - CUT]


def test_a_part_of_another_address_is_not_continued(server, data, fetch, heard):
    keep_a_part(server, fetch, server.put("/other/tiny.gguf", flipped(data, 1000), '"1"'))
    assert fetch(server.put(PATH, data, '"1"')).sha256 == hash_of(data)
    assert [seen.headers.get("range") for seen in server.gets(PATH)] == [None]


def test_a_server_without_ranges_starts_again(server, data, fetch, heard):
    url = server.put(PATH, data, '"1"')
    keep_a_part(server, fetch, url)
    server.ranges = False
    assert fetch(url).sha256 == hash_of(data)
    assert "does not resume this file" in heard.lines[-1]


def test_a_part_that_was_complete_needs_no_byte_more(server, data, folder, fetch):
    url = server.put(PATH, data, '"1"')
    folder.mkdir()
    (folder / "tiny.gguf.part").write_bytes(data)
    note = {"address": url, "sha256": "", "version": '"1"'}
    (folder / "tiny.gguf.part.json").write_bytes(msgspec.json.encode(note))
    assert fetch(url).sha256 == hash_of(data)
    assert [(seen.status, seen.sent) for seen in server.gets(PATH)] == [(416, 0)]


def test_wrong_pieces_under_a_known_hash_are_fetched_anew(server, data, folder, fetch, heard):
    url = server.put(PATH, flipped(data, 1000))
    keep_a_part(server, fetch, url, sha256=hash_of(data))
    server.put(PATH, data)
    assert fetch(url, sha256=hash_of(data)).sha256 == hash_of(data)
    assert (folder / "tiny.gguf").read_bytes() == data
    assert any("do not make the promised file" in line for line in heard.lines)


def test_a_flipped_bit_is_found_by_the_promised_hash(server, data, folder, fetch):
    url = server.put(PATH, flipped(data, len(data) - 7), '"1"')
    with pytest.raises(PullFailed, match=rf"arrived with SHA-256 \w+, promised is {hash_of(data)}"):
        fetch(url, sha256=hash_of(data))
    assert names(folder) == []
    server.put(PATH, data, '"2"')
    assert fetch(url, sha256=hash_of(data)).sha256 == hash_of(data)


@pytest.mark.parametrize("length", [5000, -5000])
def test_a_false_length_makes_no_wrong_model(server, data, folder, fetch, length):
    url = server.put(PATH, data, '"1"')
    server.faults = [Fault(length=length), Fault(length=length), Fault(length=length)]
    if length > 0:  # the rest never comes; asked for it, the server says the file has ended
        assert fetch(url).sha256 == hash_of(data)
    else:
        with pytest.raises(PullFailed, match=r"ends before its weights do"):
            fetch(url)
        assert names(folder) == []


def test_no_model_is_refused_at_its_first_bytes(server, folder, fetch):
    url = server.put("/owner/repo/blob/main/tiny.gguf", b"<!doctype html>" + bytes(1 << 20), Content_Type="text/html")
    with pytest.raises(PullFailed, match=r"is not a GGUF \(it starts with b'<!do', text/html\); a /blob/ address"):
        fetch(url)
    assert names(folder) == []


def test_a_truncated_model_does_not_take_the_name(server, data, folder, fetch):
    url = server.put(PATH, data[:CUT], '"1"')
    with pytest.raises(PullFailed, match=r"tiny\.gguf: ends before its weights do .*; the download was deleted"):
        fetch(url)
    assert names(folder) == []


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (401, Unauthorized, "requires a login"),
        (403, Forbidden, "access denied"),
        (404, NotFound, "check the address"),
        (410, NotFound, "no such file"),
        (416, PullFailed, "416"),
        (418, PullFailed, "answers 418"),
        (429, Unavailable, "fewer requests"),
        (500, Unavailable, "server error"),
        (504, DeadlineExceeded, "did not answer in time"),
    ],
)
def test_each_refusal_is_one_clear_line(server, data, folder, fetch, status, error, says):
    url = server.put(PATH, data)
    server.faults = [Fault(status=status)] * 3
    with pytest.raises(error, match=says) as caught:
        fetch(url)
    assert url in caught.value.message
    assert "\n" not in caught.value.message
    assert names(folder) == []
    assert len(server.gets(PATH)) == (3 if error in (Unavailable, DeadlineExceeded) else 1)


def test_a_fault_that_passes_is_waited_out(server, data, fetch, heard):
    url = server.put(PATH, data)
    server.faults = [Fault(status=503, headers={"Retry-After": "0"}), Fault(status=502)]
    assert fetch(url).sha256 == hash_of(data)
    assert "try 2 of 3 in 0.0 s" in heard.lines[0]
    assert "try 3 of 3" in heard.lines[1]


def test_silence_and_a_closed_port_are_told_apart(server, data, fetch):
    url = server.put(PATH, data)
    hurried = msgspec.structs.replace(QUICK, silence_s=0.05, count=2)
    server.faults = [Fault(silent=True)] * 2
    with pytest.raises(DeadlineExceeded, match="fell silent"):
        fetch(url, tries=hurried)
    with pytest.raises(Unavailable, match="connection failed"):
        fetch("http://127.0.0.1:1/tiny.gguf", tries=hurried)


def test_redirects_are_followed_and_a_circle_is_left(server, data, folder, fetch):
    server.put("/store/1", data, '"1"')
    server.files[PATH] = Served(location="/store/1")
    assert fetch(server.base + PATH).path == str(folder / "tiny.gguf")
    server.files["/round.gguf"] = Served(location="/round.gguf")
    with pytest.raises(BadInput, match="circle"):
        fetch(server.base + "/round.gguf")


def test_a_compressed_answer_is_refused(server, data, fetch):
    with pytest.raises(PullFailed, match=r"compresses the file \(gzip\)"):
        fetch(server.put(PATH, data, Content_Encoding="gzip"))


def test_what_is_here_already_is_not_fetched_again(server, data, folder, fetch):
    url = server.put(PATH, data, '"1"')
    fetch(url)
    server.seen.clear()
    assert [file.how for file in fetch(url).files] == ["present"]
    assert [file.how for file in fetch(url, sha256=hash_of(data)).files] == ["present"]
    assert server.seen == []
    assert [file.how for file in fetch(url, force=True).files] == ["present"]
    assert [seen.sent for seen in server.gets(PATH)] == [len(data)]


def test_another_file_of_the_same_name_is_never_lost(server, data, folder, fetch, heard):
    url = server.put(PATH, data, '"1"')
    fetch(url)
    other = flipped(data, len(data) - 9)
    server.put(PATH, other, '"2"')
    for source, wish in ((url, {"sha256": hash_of(other)}), (f"{url}?v=2", {})):
        with pytest.raises(Conflict, match=rf"with SHA-256 {hash_of(data)}.*--as NAME, or --force"):
            fetch(source, **wish)
    assert (folder / "tiny.gguf").read_bytes() == data
    assert fetch(url, force=True).sha256 == hash_of(other)
    assert (folder / "tiny.gguf").read_bytes() == other
    aside = folder / f"tiny.{hash_of(data)[:12]}.gguf"
    assert aside.read_bytes() == data
    assert str(aside) in heard.lines[-1]


def test_a_failed_replacement_leaves_the_old_file(server, data, folder, fetch):
    url = server.put(PATH, data, '"1"')
    fetch(url)
    server.put(PATH, data[:CUT], '"2"')
    with pytest.raises(PullFailed):
        fetch(url, force=True)
    assert (folder / "tiny.gguf").read_bytes() == data


def test_too_little_room_is_said_in_numbers_before_anything_is_kept(server, data, folder, fetch, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(PullFailed, match=rf"{len(data):,} bytes are needed .* 67,108,864 in reserve\), 1,000 are free"):
        fetch(server.put(PATH, data))
    assert names(folder) == []


def test_two_pulls_of_one_name_do_not_mix(server, data, folder, fetch):
    folder.mkdir()
    url = server.put(PATH, data)
    part = Part(folder / "tiny.gguf", Remote(target="tiny.gguf", url=url))
    with closing(part), pytest.raises(Conflict, match="another pull is writing it"):
        fetch(url)
    assert fetch(server.put(PATH, data)).bytes == len(data)


def test_plain_http_to_elsewhere_is_warned_about_once(server, data, fetch, heard, monkeypatch):
    monkeypatch.setenv("http_proxy", server.base)
    elsewhere = "http://models.example/tiny.gguf"
    server.put(elsewhere, data, '"1"')
    server.faults = [Fault(cut=CUT)]
    assert fetch(elsewhere).bytes == len(data)
    assert [line for line in heard.lines if "warning" in line] == [
        f"warning: {elsewhere} is not https; anyone on the way can change the file: give --sha256"
    ]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "what://127.0.0.1:9"])
@pytest.mark.parametrize("source", ["http://models.example/tiny.gguf", "owner/repo"])
def test_a_proxy_that_cannot_be_used_is_named(fetch, monkeypatch, proxy, source):
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(BadInput, match="the proxy that your environment names cannot be used"):
        fetch(source)


def test_a_models_folder_that_is_no_folder_is_named(server, data, folder, fetch):
    folder.write_text("a file")
    with pytest.raises(PullFailed, match=rf"{folder}: cannot be written \(File exists\).*GAIAD_MODELS"):
        fetch(server.put(PATH, data))


def test_a_disk_that_fills_up_keeps_what_came(server, data, folder, fetch):
    url = server.put(PATH, data, '"1"')
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({CUT}, {CUT})){_PULLING}"
    ended = subprocess.run(
        [sys.executable, "-c", limited, url],
        env={**os.environ, "GAIAD_MODELS": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert "tiny.gguf.part: cannot be written (File too large); free space" in ended.stderr
    assert (folder / "tiny.gguf.part").read_bytes() == data[:CUT]
    server.seen.clear()
    assert [file.how for file in fetch(url).files] == ["resumed"]
    assert [seen.sent for seen in server.gets(PATH)] == [len(data) - CUT]


def test_a_path_is_linked_and_stays_where_it_is(tmp_path, data, folder, fetch):
    source = tmp_path / "mine.gguf"
    source.write_bytes(data)
    pulled = fetch(source, name="other")
    assert [file.how for file in pulled.files] == ["linked"]
    assert (folder / "other.gguf").samefile(source)
    assert not stamp_path(source).exists()
    assert [file.how for file in fetch(source, name="other").files] == ["present"]
    assert read_info(folder / "other.gguf").fingerprint == pulled.sha256


def test_a_path_that_cannot_be_linked_is_copied(tmp_path, data, folder, fetch, monkeypatch):
    source = tmp_path / "mine.gguf"
    source.write_bytes(data)
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(18, "Invalid cross-device link")))
    assert [file.how for file in fetch(source).files] == ["copied"]
    assert (folder / "mine.gguf").read_bytes() == data
    assert not (folder / "mine.gguf").samefile(source)
    assert names(folder) == ["mine.gguf", "mine.gguf.source.json", "mine.gguf.stamp.json"]


@pytest.mark.parametrize("content", [b"", b"not a model", b"GGUF" + bytes(100)])
def test_a_bad_file_is_not_taken_in_and_not_touched(tmp_path, folder, fetch, content):
    source = tmp_path / "mine.gguf"
    source.write_bytes(content)
    with pytest.raises(PullFailed, match=rf"{source}: .*replace it"):
        fetch(source)
    assert source.read_bytes() == content
    assert names(folder) == []


def test_a_path_with_another_hash_than_wanted_is_not_taken_in(tmp_path, data, folder, fetch):
    source = tmp_path / "mine.gguf"
    source.write_bytes(data)
    with pytest.raises(PullFailed, match="wanted is " + "0" * 64):
        fetch(source, sha256="0" * 64)
    assert names(folder) == []


_PULLING = """
import os, sys
from gaiad.models.pulling.pull import Wish, pull
class Quiet:
    def say(self, line): print(line, file=sys.stderr, flush=True)
    def show(self, label, done, total): print(done, flush=True)
pull(Wish(source=sys.argv[1]), os.environ, Quiet())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_pull_that_is_ended_in_the_middle_goes_on_where_it_was(server, data, folder, fetch, number):
    url = server.put(PATH, data, '"1"')
    server.pace_s = 0.005
    process = subprocess.Popen(
        [sys.executable, "-c", _PULLING, url],
        env={**os.environ, "GAIAD_MODELS": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < CUT:
        pass
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    kept = (folder / "tiny.gguf.part").stat().st_size
    assert CUT <= kept < len(data)
    assert ("the same command continues" in said) == (number == signal.SIGINT)
    server.pace_s = 0.0
    server.seen.clear()
    assert [file.how for file in fetch(url).files] == ["resumed"]
    assert [(seen.headers["range"], seen.sent) for seen in server.gets(PATH)] == [(f"bytes={kept}-", len(data) - kept)]
    assert (folder / "tiny.gguf").read_bytes() == data
    assert names(folder) == ["tiny.gguf", "tiny.gguf.source.json", "tiny.gguf.stamp.json"]
