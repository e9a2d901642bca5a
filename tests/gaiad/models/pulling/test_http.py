import pytest

from gaiad.models.pulling.http import identity, is_unprotected, read_answer, shown

HEX = "ab" * 32
BASE64 = "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="


def test_a_range_says_where_it_starts_and_how_large_the_file_is():
    answer = read_answer(206, {"content-range": "bytes 100-199/1000", "content-length": "100", "etag": '"v"'})
    assert (answer.start, answer.total, answer.validator) == (100, 1000, '"v"')
    assert (read_answer(206, {"content-range": "bytes 5-9/*"}).start, read_answer(206, {}).start) == (5, -1)
    assert read_answer(416, {"content-range": "bytes */77"}).total == 77
    assert read_answer(200, {"content-length": "12"}).total == 12
    assert read_answer(200, {"content-length": "twelve"}).total == -1


def test_a_weak_tag_is_no_version_and_a_date_is():
    assert read_answer(200, {"etag": 'W/"v"'}).validator == ""
    assert read_answer(200, {"etag": 'W/"v"', "last-modified": "Mon, 01 Dec 2025 12:00:00 GMT"}).validator.startswith(
        "Mon"
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"repr-digest": f"sha-256=:{BASE64}:"},
        {"repr-digest": f"sha-512=:xx==:, sha-256=:{BASE64}:"},
        {"digest": f"md5=xx,SHA-256={BASE64}"},
        {"x-amz-checksum-sha256": BASE64},
        {"x-linked-etag": f'"{HEX}"'},
    ],
)
def test_a_promised_hash_is_read_in_every_spelling(headers):
    assert read_answer(200, headers).sha256 == HEX


@pytest.mark.parametrize(
    "headers",
    [
        {"etag": f'"{HEX}"'},
        {"x-linked-etag": '"abc"'},
        {"content-digest": f"sha-256=:{BASE64}:"},
        {"x-amz-checksum-sha256": BASE64, "x-amz-checksum-type": "COMPOSITE"},
        {"x-amz-checksum-sha256": "not base64!"},
        {"digest": "sha-256=short"},
    ],
)
def test_what_is_no_hash_of_the_file_is_not_taken_for_one(headers):
    assert read_answer(200, headers).sha256 == ""


def test_a_hub_speaks_in_the_redirect():
    answer = read_answer(200, {"content-length": "5"}, [{}, {"x-linked-etag": f'"{HEX}"', "x-linked-size": "7"}])
    assert (answer.sha256, answer.total) == (HEX, 5)
    assert read_answer(200, {}, [{"x-linked-etag": f'"{HEX}"', "x-linked-size": "7"}]).total == 7


def test_an_address_is_shown_without_secrets_and_noted_with_a_trace_of_its_query():
    url = "https://me:pass@models.example:8443/a%20b.gguf?token=secret#part"
    assert shown(url) == "https://models.example:8443/a%20b.gguf"
    assert identity(url).startswith(shown(url) + "?")
    assert "secret" not in identity(url)
    assert identity(url) != identity(url.replace("secret", "other"))
    assert shown("http://[::1]:80/a") == "http://[::1]:80/a"


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("https://models.example/m", False),
        ("http://127.0.0.9/m", False),
        ("http://[::1]:8000/m", False),
        ("http://localhost/m", False),
        ("http://192.168.1.4/m", True),
        ("http://models.example/m", True),
    ],
)
def test_http_is_unprotected_except_on_this_machine(url, warns):
    assert is_unprotected(url) is warns
