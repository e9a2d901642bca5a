"""What a call of discord.py ends with, as gaiad's own errors: whether trying again may help."""

import aiohttp
import pytest

from gaiad.base.errors import Unavailable
from router.channels.discord_client import translated


@pytest.mark.parametrize(
    "error",
    [RuntimeError("Session is closed"), aiohttp.ClientError("gone"), ConnectionResetError("reset"), TimeoutError()],
    ids=["the client was closed under the call", "aiohttp", "the socket", "no answer"],
)
def test_what_may_go_well_another_time_is_unavailable(error):
    with pytest.raises(Unavailable, match="Discord cannot be reached for a message"), translated("a message"):
        raise error
