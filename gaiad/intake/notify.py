"""sd_notify: tells systemd (or whoever set NOTIFY_SOCKET) how the daemon is. Silent without one."""

import socket
from collections.abc import Mapping


class Notifier:
    """`watchdog_s` is the interval systemd expects WATCHDOG=1 within, 0 for none."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        microseconds = environment.get("WATCHDOG_USEC", "0")
        self.watchdog_s = int(microseconds) / 1e6 if ours and self._address and microseconds.isdigit() else 0.0

    def send(self, *assignments: str) -> None:
        """Send one message such as READY=1. Raises OSError when the receiver is gone."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto("\n".join(assignments).encode(), self._address)
