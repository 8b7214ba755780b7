"""Who may talk to the server. A dataset may be private, and any page of the web can send requests to this machine.

The secret in the address keeps everybody out who was not given it. A name that an attacker lets point here (DNS
rebinding) is not among the Hosts; a websocket that a foreign page opens has a foreign Origin.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server bound to this host."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


@dataclass(frozen=True, slots=True)
class Guard:
    """Of a server bound to `host`."""

    host: str
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(16))

    def knows(self, secret: str) -> bool:
        """Whether the address was the right one."""
        return secrets.compare_digest(secret.encode("utf-8", "replace"), self.secret.encode())

    def is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in LOCAL or name == self.host.lower():
            return True
        here = socket.gethostname().lower()
        return not is_local(self.host) and (
            _address(name) is not None or name.partition(".")[0] == here.partition(".")[0]
        )

    def is_own_page(self, origin: str | None, host: str) -> bool:
        """Whether the Origin header of a websocket is that of a page from this Host. Every web browser sends one."""
        try:
            return origin is not None and urlsplit(origin).netloc == host != ""
        except ValueError:
            return False
