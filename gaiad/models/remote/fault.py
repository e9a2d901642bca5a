"""What can go wrong with a remote server, and which of our errors each thing is. Pure."""

import msgspec

from gaiad.errors import BadInput, ConfigError, GaiadError, Unavailable
from gaiad.models.remote.access import Access
from gaiad.models.remote.retry import PASSING

_USUAL_WAIT_S = 5.0
_LONGEST_WORDS = 500
_NO_KEY = (401, 403)
_NOT_THERE = (404, 405)
_LATER = (408, 425, 429)


class Fault(Exception):
    """One exchange failed. `status` 0 is no HTTP answer; `again` says that another try may help.

    `setting` blames the settings, `well` clears the server: it works, and this reply was no good all the same. `detail`
    is all that the server said, for learning from it; only `words` may be shown.
    """

    def __init__(
        self,
        words: str,
        *,
        status: int = 0,
        retry_after_s: float | None = None,
        again: bool = False,
        setting: bool = False,
        well: bool = False,
        detail: str = "",
    ) -> None:
        super().__init__(words)
        self.words = words
        self.status = status
        self.retry_after_s = retry_after_s
        self.again = again or status in PASSING
        self.setting = setting or status in (*_NO_KEY, *_NOT_THERE) or 300 <= status < 400
        self.well = well or (400 <= status < 500 and not self.setting)
        self.detail = detail


class Verdict(msgspec.Struct, frozen=True):
    """What a fault says of the server: `state` as its status shows it, "" when nothing."""

    state: str
    reason: str


def error_of(fault: Fault, access: Access) -> GaiadError:
    """The error a caller gets: it names the server, never the key."""
    said = f"{access.server}: {access.excerpt(fault.words, _LONGEST_WORDS)}"
    if fault.status in _NO_KEY:
        return ConfigError(f"{said}; check the key in {access.key_setting}")
    if 300 <= fault.status < 400:
        return ConfigError(f"{said}; write the address it points to into base_url")
    if fault.setting:
        return ConfigError(f"{said}; check base_url (it usually ends with /v1) and model")
    if 400 <= fault.status < 500 and fault.status not in _LATER:
        return BadInput(said)
    return Unavailable(said, _USUAL_WAIT_S if fault.retry_after_s is None else fault.retry_after_s)


def verdict_of(fault: Fault) -> Verdict:
    """What to show in the status after a fault; a server that refuses one request or is busy is well."""
    if fault.setting:
        return Verdict("failed", fault.words)
    return Verdict("", "") if fault.well else Verdict("inactive", fault.words)
