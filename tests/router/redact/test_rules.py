"""What the pipeline takes out and in which order, what passes though it looks alike, and that no report quotes it."""

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaiad.base.channels import Stage
from router.redact import RedactionSettings, Redactor, redact, redaction_rules

RULES = redaction_rules(RedactionSettings(names=["Jane Doe"], phrases=["project nightjar", "jane doe"]))


@pytest.mark.parametrize(
    "harmless",
    [
        "Scunthorpe, Penistone, Essex and Arsenal; a classic assessment of cocktails by Dick Hancock.",
        "Version 1.2.3, v2.10.0-rc1, release 10.0.19041.1 and python 3.11.9.",
        "commit 3f2a9c1d8e7b6a5f4c3d2e1f0a9b8c7d6e5f4a3b, md5 d41d8cd98f00b204e9800998ecf8427e",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "550e8400-e29b-41d4-a716-446655440000",
        "2024-05-01T10:30:00.123456+02:00, 2024-05-01, 01.05.2024 and 05/01/2024",
        "git clone git@github.com:acme/widgets.git && npm i react@18.2.0",
        "ISBN 978-3-16-148410-0, order 4512345678, 3.14159265358979323846",
    ],
)
def test_what_only_looks_alike_passes(harmless: str) -> None:
    redacted = redact(harmless, RULES)
    assert (redacted.text, redacted.redactions) == (harmless, [])


def test_each_stage_takes_out_its_own_and_no_more() -> None:
    text = "Jane Doe <j@doe.org> on project nightjar: @everyone, shit"
    by_stage: dict[Stage, str] = {
        "pii": "[name] <[e-mail]> on project nightjar: @everyone, shit",
        "policy": "[removed] <j@doe.org> on [removed]: [mention], shit",
        "profanity": "Jane Doe <j@doe.org> on project nightjar: @everyone, […]",
    }
    for stage, shown in by_stage.items():
        assert redact(text, RULES, [stage]).text == shown
    assert redact(text, RULES).text == "[name] <[e-mail]> on [removed]: [mention], […]"


def test_the_order_of_the_stages_is_the_pipelines_whatever_is_asked() -> None:
    assert redact("Jane Doe", RULES, ["profanity", "policy", "pii"]).redactions[0].kind == "name"


def test_a_report_has_kinds_and_counts_and_never_the_text() -> None:
    text = "j@doe.org, k@doe.org, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, password=hunter2secret"
    redacted = redact(text, RULES)
    assert [(one.kind, one.count) for one in redacted.redactions] == [
        ("card", 1),
        ("email", 2),
        ("iban", 1),
        ("key", 1),
    ]
    told = msgspec.json.encode(redacted).decode()
    assert not any(secret in told for secret in ("doe.org", "4111", "3704", "hunter2"))


@pytest.mark.parametrize("at", ["(at)", " (at) ", " [ at ] ", " at ", " AT ", "@"])
@pytest.mark.parametrize("dot", ["(dot)", " [dot] ", " { dot } ", " dot ", " Dot "])
def test_an_address_that_is_spelled_out_is_taken_out_in_one_piece_and_bit_by_bit(at: str, dot: str) -> None:
    text = f"Write to ada.l{at}mail{dot}example{dot}org, please."
    redactor = Redactor(RULES)
    letters = "".join(map(redactor.feed, text)) + redactor.finish()
    assert letters == redact(text, RULES).text == "Write to [e-mail], please."


@pytest.mark.parametrize(
    "prose",
    [
        "Look at the dot on the map, at dot two and at example.org.",
        "She was at work; the dot com boom was at its end. Stop at dot org or at every dot com.",
        "We met (at noon) [at least] twice. A dot (dot) is a dot.",
        "Look at sklearn dot product and at row dot column.",
    ],
)
def test_at_and_dot_in_prose_stay(prose: str) -> None:
    assert redact(prose, RULES).text == prose


def test_a_card_in_keycaps_is_taken_out() -> None:
    keycaps = "".join(f"{digit}\ufe0f\u20e3" for digit in "4111111111111111")
    assert redact(f"see {keycaps}.", RULES).text == "see [card number]."


def test_an_address_does_not_go_over_a_line() -> None:
    assert redact("mail jane\n@acme.org", RULES).redactions == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("378282246310005", "378282246310004"),
        ("DE89370400440532013000", "DE88370400440532013000"),
        ("GB29 NWBK 6016 1331 9268 19", "GB29 NWBK 6016 1331 9268 91"),
    ],
)
def test_a_number_with_the_wrong_sum_stays(right: str, wrong: str) -> None:
    assert redact(f"see {right}.", RULES).text in ("see [card number].", "see [IBAN].")
    assert redact(f"see {wrong}.", RULES).text == f"see {wrong}."


def test_a_value_goes_with_all_that_belongs_to_it() -> None:
    assert redact("password=Summer2024@work! Then", RULES).text == "password=[secret]! Then"
    assert redact("My password is hunter22.", RULES).text == "My password is [secret]."
    assert redact("postgres://me:s3cr3t@db.example.org/x", RULES).text == "postgres://me:[secret]@db.example.org/x"
    assert redact("?token=abc123def&next=1", RULES).text.startswith("?token=[secret]")


def test_the_tables_of_phone_numbers_can_be_read_before_a_stream_needs_them() -> None:
    code = """
import sys
from gaiad.base.channels import Stage
from router.redact import RedactionSettings, Redactor, redact, redaction_rules
rules = redaction_rules(RedactionSettings())
assert "phonenumbers" not in sys.modules, "a start does not wait for them"
rules.read_tables()
before = set(sys.modules)
assert redact("RequestContext 030 901820 or +44 20 7946 0018, tel 06 12 34 56 78", rules).redactions[0].count == 3
print(*sorted(name for name in set(sys.modules) - before if "phone" in name))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == []


STREETS = {
    "en": ("12 High Street", "48 King's Lane, Suite 12", "1600 Harbour View Avenue NW", "5 Old Mill Road"),
    "de": ("Hauptstraße 12a", "Berliner Straße 5", "Am-Kanal-Weg 17", "Lindenplatz 3"),
    "fr": ("7 rue des Lilas", "12 bis, rue de la Paix", "3, place Bellecour"),
    "es": ("Calle Mayor 5", "Calle de Alcalá, 48", "Plaza Mayor 3, 2º B"),
}
TOWNS = {
    "en": (", Leeds, LS1 4DY", ", Springfield, IL 62701", "\nSan Luis Obispo, CA 93401-2000", ", Salem, Oregon 97301"),
    "de": (", 60311 Frankfurt am Main", "\n91541 Rothenburg ob der Tauber", ", D-22085 Hamburg", ", A-1060 Wien"),
    "fr": (", 93200 Saint-Denis", ", 94240 L'Haÿ-les-Roses", "\n75002 Paris Cedex 02", ", 72000 Le Mans"),
    "es": (", 28014 Madrid", ", 28703 San Sebastián de los Reyes", ", 35001 Las Palmas de Gran Canaria"),
}
ALONE = {"en": (", Leeds", " in Leeds"), "de": (", Berlin", " in Bad Ems"), "fr": (", Lyon", " à Saint-Denis"),
         "es": (", Sevilla", " en San Sebastián")}  # fmt: skip
BEFORE = ("", "It is at ", "Adresse: ", "(", "We saw ", "- ")
BEHIND = ("", ".", ", that is all.", ")", "!\nAnna has the key.", "; Bob knows it", "\n\nThanks,\nAnna")
LOWER = (" since May.", " ist es", " depuis mai, Paul.", " y ya.", " and Anna has the key.", " from 10 to 12 o'clock")


@given(st.data())
def test_a_town_goes_with_its_street_and_nothing_else_does(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(sorted(STREETS)))
    street, before = data.draw(st.sampled_from(STREETS[form])), data.draw(st.sampled_from(BEFORE))
    town = data.draw(st.sampled_from((*TOWNS[form], *ALONE[form])))
    behind = data.draw(st.sampled_from(BEHIND if town in ALONE[form] else (*BEHIND, *LOWER)))
    text = f"{before}{street}{town}{behind}"
    assert redact(text, RULES).text == f"{before}[address]{behind}"
    redactor, cut = Redactor(RULES), data.draw(st.integers(0, len(text)))
    assert redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.finish() == f"{before}[address]{behind}"
