"""What a user may set of routes and redaction, and what is said to a setting that cannot be."""

from typing import Any

import pytest

from gaiad.base.errors import ConfigError
from router.redact import RedactionSettings
from router.routing import kept, make_routing


def test_shipped_only_channels_that_others_may_read_are_scrubbed() -> None:
    stages = make_routing({}, {}, RedactionSettings()).stages
    assert stages["discord_chat"] == stages["web_chat"] == ("pii", "policy", "profanity")
    assert stages["cli_chat"] == stages["memory"] == stages["shell"] == stages["council_chat"] == ()


def test_a_channel_can_be_scrubbed_of_some() -> None:
    routing = make_routing({}, {"web_chat": False, "cli_chat": ["profanity", "pii"]}, RedactionSettings())
    assert (routing.stages["web_chat"], routing.stages["cli_chat"]) == ((), ("pii", "profanity"))


def test_the_memory_keeps_pages_and_events_but_what_the_user_does_not_want() -> None:
    routing = make_routing({"memory": {"THOUGHT_SEED": "off", "PLAN": "page"}}, {}, RedactionSettings())
    pages = dict.fromkeys(("PLAN", "RESPONSE", "VERIFY"), "page")
    assert kept(routing.table) == {**pages, "INTERRUPT": "event"}
    assert kept(make_routing({}, {}, RedactionSettings()).table) == {
        **pages,
        "THOUGHT_SEED": "page",
        "INTERRUPT": "event",
    }


@pytest.mark.parametrize(
    ("overrides", "channels", "lists", "expected"),
    [
        (
            {"web": {"PLAN": "show"}},
            {},
            {},
            "router.overrides.web: web is not a channel; remove it, or name one of cli_chat",
        ),
        ({"web_chat": {"PLANS": "show"}}, {}, {}, "router.overrides.web_chat.PLANS: PLANS is not a marker"),
        ({"web_chat": {"PLAN": "page"}}, {}, {}, "router.overrides.web_chat.PLAN is 'page'; write one of 'show'"),
        ({"cli_chat": {"EXECUTE": "show"}}, {}, {}, "only commands go to the shell"),
        (
            {"memory": {"RESPONSE": "off"}},
            {},
            {},
            "router.overrides.memory.RESPONSE: a session continues from its answers",
        ),
        ({"memory": {"PLAN": "event"}}, {}, {}, "router.overrides.memory.PLAN is 'event'; write 'page' or 'off'"),
        ({"memory": {"EXECUTE": "page"}}, {}, {}, "only commands go to the shell"),
        ({"council_chat": {"PLAN": "off"}}, {}, {}, "router.overrides.council_chat: the council receives all"),
        (
            {},
            {"memory": True},
            {},
            "redaction.channels.memory: memory, council and shell get the full, unredacted text",
        ),
        ({}, {"chat": True}, {}, "redaction.channels.chat: chat is not a channel"),
        ({}, {"web_chat": ["pi"]}, {}, "redaction.channels.web_chat: pi is not a stage"),
        ({}, {}, {"names": ["--"]}, "redaction.names: '--' has no letter or digit"),
        ({}, {}, {"phone_regions": ["Germany"]}, "redaction.phone_regions: 'Germany' is not a country"),
    ],
)
def test_what_cannot_be_set_is_named(overrides: Any, channels: Any, lists: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make_routing(overrides, channels, RedactionSettings(**lists))
    assert expected in refused.value.message
