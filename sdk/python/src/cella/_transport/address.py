"""Where a server is: `unix:/path`, `http://host:port` or `https://host:port`."""

from __future__ import annotations

import os
import select
import socket
from weakref import WeakSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Optional

CONNECT_BOUND = 10.0
# By the first of the names that the system has: macOS has another one for the first, and some systems lack them all.
_KEEPALIVE = ((("TCP_KEEPIDLE", "TCP_KEEPALIVE"), 60), (("TCP_KEEPINTVL",), 15), (("TCP_KEEPCNT",), 4))
# Those of this process. A child made by fork closes its copies, so that the parent's are the only ones.
OPEN: WeakSet[socket.socket] = WeakSet()


class Address:
    """Parsed once, when the client is made. `context` is for TLS; without one the system's authorities decide."""

    __slots__ = ("_context", "host", "path", "port", "text", "tls")

    def __init__(self, text: str, context: Optional[ssl.SSLContext] = None) -> None:
        self.text = text
        self.path: Optional[str] = None
        self.host, self.port, self.tls = "cella", 0, False
        self._context = context
        scheme, colon, rest = text.partition(":")
        if colon and scheme == "unix":
            self.path = rest[2:] if rest.startswith("//") else rest
            if not hasattr(socket, "AF_UNIX"):
                raise ValueError(f"{text!r}: Python has no Unix sockets on this system; use http:// or https://")
            if not self.path.startswith("/"):
                raise ValueError(f"{text!r}: the path of a socket is absolute, as unix:/run/cella/cella.sock")
        elif scheme in ("http", "https") and rest.startswith("//"):
            self.tls = scheme == "https"
            self._read_authority(rest[2:])
        else:
            raise ValueError(f"{text!r} is no address of a server: unix:/PATH, http://HOST:PORT or https://HOST:PORT")

    def _read_authority(self, rest: str) -> None:
        authority, _, path = rest.partition("/")
        if path or "@" in authority or "?" in authority or "#" in authority or not authority:
            raise ValueError(f"{self.text!r}: only a host and a port are expected after the scheme")
        host, port = authority, ""
        if authority.startswith("["):
            host, _, port = authority[1:].partition("]")
            port = port[1:]
        elif ":" in authority:
            host, _, port = authority.rpartition(":")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{self.text!r}: {port!r} is no port")
        self.host, self.port = host, int(port or (443 if self.tls else 80))

    @property
    def authority(self) -> str:
        """For the Host header."""
        if self.path is not None:
            return "cella"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext:
        if self._context is None:
            import ssl

            self._context = ssl.create_default_context()
        return self._context


def tune(connected: socket.socket) -> None:
    """A peer that vanished without a word is noticed in about two minutes, also in a long run."""
    if connected.family == getattr(socket, "AF_UNIX", None):
        return
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in _KEEPALIVE:
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)


def end(connected: socket.socket) -> None:
    """Closes a connection for good: the other side notices also when a child made by fork has a copy of it."""
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    finally:
        connected.close()


def has_news(connected: socket.socket) -> bool:
    """On an idle connection: its end, or bytes that were not requested. Either way it is of no use."""
    if not hasattr(select, "poll"):
        return bool(select.select([connected], [], [], 0)[0])
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))


def _close_in_child() -> None:
    for inherited in list(OPEN):
        inherited.close()
    OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
