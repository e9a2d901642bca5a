"""The output router as the settings have it, for conversations, and for one text without a model or a daemon."""

from gaiad.config import Config
from gaiad.errors import BadInput
from router.dry_run import RoutedBlock as RoutedBlock
from router.dry_run import RoutedText as RoutedText
from router.dry_run import route_text
from router.matrix import Channel
from router.redact import RedactionSettings
from router.routing import Routing, make_routing

CHANNELS: dict[str, Channel] = {
    "cli": "cli_chat",
    "web": "web_chat",
    "discord": "discord_chat",
    "council": "council_chat",
}
"""As the command line calls them."""


def routing_of(config: Config) -> Routing:
    """From [router] and [redaction]. Raises ConfigError naming the key and the remedy."""
    said = config.redaction
    lists = RedactionSettings(
        names=said.names, phrases=said.phrases, phone_regions=said.phone_regions, allowed_words=said.allowed_words
    )
    return make_routing(config.router.overrides, said.channels, lists)


def route_once(text: str, config: Config, channel: str = "") -> RoutedText:
    """Marked text through parser, matrix and redaction (GCP 7); see `route_text`. Raises BadInput, ConfigError."""
    if channel and channel not in CHANNELS:
        raise BadInput(f"{channel!r} is no channel; there are {', '.join(CHANNELS)}")
    return route_text(text, routing_of(config), CHANNELS.get(channel))
