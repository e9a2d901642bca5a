"""Which channel is redacted, what a user may say about it, and what is refused with a reason (decision 16)."""

import pytest

from gaiad.base.errors import ConfigError
from router.redact import RedactionSettings, channel_stages, redact, redaction_rules
from router.redact.settings import STAGES, redaction_table


def test_others_channels_are_redacted_and_the_owners_own_are_not() -> None:
    stages = channel_stages({}, "redaction.channels")
    assert dict(stages) == {
        "discord_chat": STAGES,
        "web_chat": STAGES,
        "cli_chat": (),
        "council_chat": (),
        "shell": (),
        "memory": (),
    }


def test_a_channel_can_be_switched_on_off_or_to_some_stages_in_their_order() -> None:
    overrides: dict[str, bool | list[str]] = {"web_chat": False, "cli_chat": True, "council_chat": ["profanity", "pii"]}
    stages = channel_stages(overrides, "redaction.channels")
    assert stages["web_chat"] == ()
    assert stages["cli_chat"] == STAGES
    assert stages["council_chat"] == ("pii", "profanity")
    assert stages["discord_chat"] == STAGES


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        ({"slack": True}, "redaction.channels.slack: slack is not a channel; use one of cli_chat"),
        ({"web_chat": ["pii", "spam"]}, "redaction.channels.web_chat: spam is not a stage; write true, false or pii"),
    ],
)
def test_what_is_no_channel_or_stage_is_named(overrides: dict[str, bool | list[str]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        channel_stages(overrides, "redaction.channels")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (RedactionSettings(names=["Jane", "..."]), r"redaction.names: '...' has no letter or digit"),
        (RedactionSettings(phrases=["x" * 81]), "redaction.phrases: 'x+'... has 81 characters; 80 is the most"),
        (
            RedactionSettings(phone_regions=["usa"]),
            "redaction.phone_regions: 'usa' is not a country; write two",
        ),
        (
            RedactionSettings(phone_regions=["GB", "UK"]),
            "redaction.phone_regions: no country of 'UK' has phone numbers",
        ),
        (RedactionSettings(phone_regions=["XX"]), "write its ISO code, such as 'GB' for the United Kingdom"),
    ],
)
def test_what_cannot_be_looked_for_is_refused(settings: RedactionSettings, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        redaction_rules(settings)


def test_the_countries_of_national_numbers_are_the_users_to_choose() -> None:
    polish = "Telefon: 22 123 45 67"
    assert redact(polish, redaction_rules(RedactionSettings(phone_regions=["GB"]))).redactions == []
    assert redact(polish, redaction_rules(RedactionSettings(phone_regions=["PL"]))).text == "Telefon: [phone number]"


def test_an_allowed_word_is_no_profanity() -> None:
    assert redact("What a shit", redaction_rules(RedactionSettings())).text == "What a […]"
    assert redact("What a shit", redaction_rules(RedactionSettings(allowed_words=["Shit"]))).text == "What a shit"


def test_no_placeholder_would_itself_be_taken_out() -> None:
    rules = redaction_rules(RedactionSettings())
    for placeholder in redaction_table().placeholders.values():
        assert redact(f"so {placeholder} it is", rules).redactions == []
