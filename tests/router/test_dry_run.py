"""Where marked text would go, and what would be read there."""

from gaiad.base.channels import Channel
from router.redact import RedactionSettings
from router.routed import RoutedText, route_text
from router.routing import make_routing

TEXT = """Hm, let me see.
PLAN: Ask jane.doe@acme.org
EXECUTE: {"argv": ["mail", "jane.doe@acme.org"]}
RESPONSE: Write to jane.doe@acme.org
THOUGHT_SEED: and to Jane
VERIFY: fine
"""


def route(origin: Channel | None) -> RoutedText:
    return route_text(TEXT, make_routing({}, {}, RedactionSettings()), origin)


def test_a_turn_from_the_terminal_reaches_nobody_else() -> None:
    found = route("cli_chat")
    assert {block.marker: block.channels for block in found.blocks} == {
        "": ["council_chat"],
        "PLAN": ["cli_chat", "council_chat", "memory"],
        "EXECUTE": ["shell"],
        "RESPONSE": ["cli_chat", "memory"],
        "THOUGHT_SEED": ["council_chat", "memory"],
        "VERIFY": ["cli_chat", "council_chat", "memory"],
    }
    assert not any(block.redactions for block in found.blocks)
    assert found.notes == ["text before the first marker went to the council's log"]


def test_what_goes_to_others_is_scrubbed_and_what_does_not_is_whole() -> None:
    found = {block.marker: block for block in route("discord_chat").blocks}
    assert found["RESPONSE"].channels == ["discord_chat", "memory"]
    assert found["RESPONSE"].text == "Write to [e-mail]"
    assert [(item.kind, item.count) for item in found["RESPONSE"].redactions] == [("email", 1)]
    assert found["PLAN"].channels == ["council_chat", "memory"]
    assert found["EXECUTE"].text == '{"argv": ["mail", "jane.doe@acme.org"]}'


def test_without_a_channel_all_that_the_matrix_permits_is_told() -> None:
    found = {block.marker: block for block in route(None).blocks}
    assert found["RESPONSE"].channels == ["cli_chat", "web_chat", "discord_chat", "memory"]
    assert found["RESPONSE"].text == "Write to [e-mail]"
    assert found["EXECUTE"].channels == ["shell"]
    assert found["PLAN"].manners["cli_chat"] == "log"
